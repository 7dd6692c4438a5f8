"""The runtimes to compare: their programs, versions, namespaces, and snapshots."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.document import RuntimeFacts
from bench.place import (
    ENVIRONMENT,
    REPOSITORY,
    Failed,
    Namespace,
    Spawner,
    build_spawner,
    find_program,
    own_namespace,
)
from ociruntime.startup.snapshot_modules import PROGRAMS, file_name

PEERS = ("runc", "crun")
OURS = "ociruntime"
WITHOUT = "no snapshot"
SNAPSHOT = "/run/ociruntime/.snapshot"
# A tmpfs, like the usual /run; each runtime has one of its own.
STATE_ROOT = Path("/run/bench")


@dataclass
class Runtime:
    """A runtime with its own mount namespace and state root; ``own``: it is ociruntime."""

    name: str
    version: str
    path: Path
    own: bool
    root: Path
    namespace: Namespace
    spawn: Spawner

    def words(self, *words: str | Path) -> list[str]:
        """Return the command line for a command of the runtime."""
        return [str(self.path), "--root", str(self.root), *map(str, words)]

    def empty_root(self) -> None:
        """Replace the state root by an empty one."""
        with self.namespace.entered():
            shutil.rmtree(self.root, ignore_errors=True)
            self.root.mkdir(mode=0o700)

    def facts(self) -> RuntimeFacts:
        """Return the document's entry for this runtime."""
        return {
            "name": self.name,
            "path": str(self.path),
            "version": self.version,
            "own": self.own,
        }


def chosen(ours: list[Path] | None, peers: str) -> list[Path]:
    """Return the paths of ``ours`` and of ``peers``.

    The default of ``ours`` is the copy that `./dev bench` installs, else the one on the PATH.
    ``peers`` are names or paths, separated by commas; those not installed are skipped.
    """
    own = REPOSITORY / "build" / "installed" / "bin" / OURS
    if not ours:
        ours = [own if own.exists() else Path(find_program(OURS))]
    names = [name for name in peers.split(",") if name]
    found = [name if "/" in name else find_program(name) for name in names]
    return [path.absolute() for path in [*ours, *(Path(name) for name in found if name)]]


def version_of(path: Path) -> str:
    """Return name and version from ``--version``, such as "runc 1.1.5"."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0].replace(" version ", " ")


def column_names(versions: list[str], paths: list[Path]) -> list[str]:
    """Return a unique name for each program: its version, with a part of its path if needed."""
    found = []
    for version, path in zip(versions, paths, strict=True):
        same = [other for number, other in zip(versions, paths, strict=True) if number == version]
        part = f" ({distinction(path, same)})" if len(same) > 1 else ""
        found.append(version + part)
    return found


def distinction(path: Path, paths: list[Path]) -> str:
    """Return the part in which a path differs: "new" for /a/new/bin/x beside /a/old/bin/x."""
    all_parts = [each.parts for each in paths]
    before = _common(all_parts)
    after = _common([tuple(reversed(parts)) for parts in all_parts])
    rest = path.parts[before : len(path.parts) - after]
    return "/".join(rest) or str(path)


def _common(all_parts: list[tuple[str, ...]]) -> int:
    """Return the length of the common prefix."""
    count = 0
    for parts in zip(*all_parts, strict=False):
        if len(set(parts)) > 1:
            break
        count += 1
    return count


def prepare(paths: list[Path], place: Path, *, without: bool = True) -> list[Runtime]:
    """Return a runtime for each program.

    ``without`` adds each ociruntime a second time without its snapshot, if it can create one.
    """
    spawner = build_spawner(place)
    versions = [version_of(path) for path in paths]
    found: list[Runtime] = []

    def add(name: str, version: str, path: Path) -> Runtime:
        number = len(found)
        namespace = own_namespace()
        spawn = Spawner(spawner, place / f"output{number}", namespace)
        own = version.startswith(OURS)
        found.append(Runtime(name, version, path, own, STATE_ROOT, namespace, spawn))
        return found[-1]

    for name, version, path in zip(column_names(versions, paths), versions, paths, strict=True):
        runtime = add(name, version, path)
        made = runtime.own and make_snapshot(path, runtime.namespace)
        if made and without:
            forbid_snapshot(add(f"{name}, {WITHOUT}", version, path).namespace)
    return found


def make_snapshot(path: Path, namespace: Namespace) -> bool:
    """Create the snapshot of the interpreter; return whether commands will start from it.

    An old ociruntime has no snapshots, and some hosts do not support them.
    """
    command = [str(path), "snapshot", "make", "ociruntime"]
    with namespace.entered():
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False)
        return done.returncode == 0 and Path(SNAPSHOT).stat().st_size > 0


def forbid_snapshot(namespace: Namespace) -> None:
    """Disable snapshots by empty files, which mark that a snapshot could not be created."""
    with namespace.entered():
        directory = Path(SNAPSHOT).parent
        directory.mkdir(mode=0o700, exist_ok=True)
        while list(directory.glob(".snapshot*.new")):  # a first command is creating its own
            time.sleep(0.05)
        for program in PROGRAMS:
            snapshot = directory / file_name(program)
            snapshot.unlink(missing_ok=True)
            snapshot.touch(mode=0o600)


def check_snapshots(runtimes: list[Runtime]) -> None:
    """Raise Failed if a runtime measured without snapshot has created one meanwhile."""
    for runtime in runtimes:
        if runtime.name.endswith(WITHOUT):
            with runtime.namespace.entered():
                if Path(SNAPSHOT).stat().st_size:
                    raise Failed(f"{runtime.path} has created a snapshot; its results are invalid")
