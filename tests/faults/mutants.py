"""Copies of the program with one defect each, which the sample of the sweep must detect."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support import project, static_program

VERSION = f"python3.{sys.version_info.minor}"
LAUNCHER = (
    *("csrc/launcher/ociruntime.c", "csrc/launcher/interpreter.c", "csrc/snapshot/thaw.c"),
    *("csrc/executor/text.c", "csrc/executor/walk.c"),
)
FLAGS = ("-std=c11", "-O0", "-static", "-Icsrc/executor", "-Icsrc")


UNDO, SYNC, EINTR = "undo", "sync", "EINTR"


@dataclass(frozen=True)
class Mutation:
    """One defect: in ``file``, the text ``old``, which occurs once, is replaced with ``new``."""

    name: str
    file: str
    old: str
    new: str
    scenario: str  # for SYNC: the name of one of lasting.WRITINGS
    kind: str  # of the actions that notice it: "kill", "fail", "interrupt", EINTR or SYNC
    defect: str = UNDO  # a step of the undoing is skipped, a file not synced, a call not repeated


CREATION = "ociruntime/runtime/lifecycle/create_steps.py"
MUTATIONS = (
    Mutation(
        "a failed create leaves its cgroup",
        CREATION,
        "self._rollback.push(lambda: prepared.cgroup.remove(kill=True))",
        "pass",
        "create-interpreter",
        "fail",
    ),
    Mutation(
        "a failed create leaves its state directory",
        CREATION,
        "self._rollback.push(lambda: remove_directory(self.directory))",
        "pass",
        "create-interpreter",
        "fail",
    ),
    Mutation(
        "a killed create's cgroup is forgotten",
        CREATION,
        "recorded_cgroup(directory).remove(kill=True)",
        "pass",
        "create-interpreter",
        "kill",
    ),
    Mutation(
        "a signal comes between a directory and its undoing",
        CREATION,
        "with HeldSignals():",
        "if True:",
        "create-interpreter",
        "interrupt",
    ),
    Mutation(
        "a lasting file is not synced",
        "ociruntime/base/files.py",
        "        if lasting:\n            posix.fsync(fd)\n",
        "",
        "file",
        SYNC,
        SYNC,
    ),
    Mutation(
        "a record's directory is not synced",
        "ociruntime/base/files.py",
        "    try:\n        posix.fsync(fd)\n",
        "    try:\n        pass\n",
        "record",
        SYNC,
        SYNC,
    ),
    Mutation(
        "a blob is not synced",
        "ociruntime/images/store/import_image.py",
        "os.fsync(file.fileno())",
        "pass",
        "blob",
        SYNC,
        SYNC,
    ),
    Mutation(
        "start does not repeat a receipt",
        "csrc/fast_path/start.c",
        "} while (length < 0 && errno == EINTR);",
        "} while (false);",
        "start",
        EINTR,
        EINTR,
    ),
    Mutation(
        "start does not repeat a wait",
        "csrc/fast_path/start.c",
        "} while (ready < 0 && errno == EINTR);",
        "} while (false);",
        "start",
        EINTR,
        EINTR,
    ),
    Mutation(
        "the interpreter does not repeat a connection",
        "ociruntime/runtime/host/start_gate.py",
        "_path(directory, connection.connect)\n"
        "        except InterruptedError:\n            continue",
        "_path(directory, connection.connect)\n        except InterruptedError:\n            raise",
        "start-python",
        EINTR,
        EINTR,
    ),
)

POD_MUTATIONS = (
    Mutation(
        "gc leaves a killed pod's containers",
        "ociruntime/pods/garbage/clean_up.py",
        "problems = delete_containers(pod.uuid, _runtime(pod))",
        "problems: list[str] = []",
        "pod-run",
        "kill",
    ),
    Mutation(
        "gc leaves a killed pod's network",
        "ociruntime/pods/garbage/clean_up.py",
        "    network_problems = _leave_networks(pod)\n",
        "    network_problems = []\n",
        "pod-run-network",
        "kill",
    ),
)


def build(mutation: Mutation, runtime: Path, place: Path) -> Path:
    """Install a copy with the defect in ``place``; return its program."""
    packages = place / "lib" / VERSION / "site-packages"
    packages.mkdir(parents=True)
    (place / "bin").mkdir()
    program = place / "bin" / "ociruntime"
    _link_packages(runtime, packages)
    # With the compiled modules: to compile each anew would take longer than the command.
    ignored = shutil.ignore_patterns("modules.bin")
    link: Callable[[str, str], None] = os.symlink
    shutil.copytree(project.ROOT / "ociruntime", packages / "ociruntime", False, ignored, link)
    text = _changed(mutation)
    if mutation.file.endswith(".c"):
        _compile(mutation, text, program, place)
    else:
        for name in ("ociruntime", "ocipod"):
            shutil.copy(runtime.with_name(name), place / "bin")
        changed = packages / mutation.file
        changed.unlink()
        changed.write_text(text)
        for stale in changed.parent.glob(f"__pycache__/{changed.stem}.*.pyc"):
            stale.unlink()
    return program


def _changed(mutation: Mutation) -> str:
    text = (project.ROOT / mutation.file).read_text()
    if text.count(mutation.old) != 1:
        raise ValueError(
            f"{mutation.file}: {mutation.old!r} is there {text.count(mutation.old)} times"
        )
    return text.replace(mutation.old, mutation.new)


def _link_packages(runtime: Path, packages: Path) -> None:
    """Link the other packages, which the extension modules need."""
    for entry in (runtime.parent.parent / "lib" / VERSION / "site-packages").iterdir():
        if entry.name != "ociruntime":
            (packages / entry.name).symlink_to(entry)


def _compile(mutation: Mutation, text: str, program: Path, place: Path) -> None:
    changed = place / Path(mutation.file).name
    changed.write_text(text)
    entry = sorted(project.ROOT.glob("csrc/fast_path/*.c"))
    others = [path for path in entry if path.name != changed.name]
    sources = [*(project.ROOT / name for name in LAUNCHER), *others, changed]
    own = ("-I", str(project.ROOT / "csrc/fast_path"))
    flags = tuple(flag.replace("-I", f"-I{project.ROOT}/") for flag in FLAGS)
    static_program.build(program, *sources, flags=(*flags, *own))
