"""Build the C targets: with libFuzzer and sanitizers, or with counters for the lines reached."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import golden, project

HERE = Path(__file__).resolve().parent / "native"
BUILT = project.ROOT / ".venv" / "fuzz"
FLAGS = ("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Icsrc", "-Icsrc/executor")
BLIND = ("-O2", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Its bookkeeping of freed memory takes longer than a short run.
BLIND_ENVIRONMENT = {"ASAN_OPTIONS": "quarantine_size_mb=1:malloc_context_size=1"}
FUZZER = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class Sources:
    """The C files that a target is linked with, and the files that it tests."""

    linked: tuple[str, ...]
    included: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def covers(self) -> tuple[str, ...]:
        """The files that the target tests."""
        return (*self.linked, *self.included)


SOURCES = {
    "plan": Sources(("executor/plan.c", "executor/plan_reader.c")),
    "walk": Sources(
        ("executor/walk.c", "executor/paths.c", "executor/text.c"), ("executor/open_below.c",)
    ),
    "record": Sources(
        ("fast_path/fast_path_record.c", "fast_path/decimal.c"),
        words=("pid ", "started ", "freezer /", "own-pid-namespace ", "cgroup /", "parent /"),
    ),
    "arguments": Sources(
        (
            *("fast_path/arguments.c", "fast_path/signal_names.c", "fast_path/container_id.c"),
            *("fast_path/state_root.c", "fast_path/decimal.c", "executor/text.c"),
        ),
        words=("--root", "--log", "--log-format", "--cgroup-manager", "--systemd-cgroup", "state",
               "start", "kill", "delete", "--force", "-f", "SIGKILL", "TERM", "\n"),
    ),
    "frame": Sources(("guest/frames.c",)),
    "go": Sources((), ("executor/report.c",)),
}  # fmt: skip
_INCLUDES = {"frame": ("-Icsrc/guest",)}


def missing() -> str:
    """Return the targets' missing requirements, "" if there are none."""
    clang = shutil.which("clang")
    if clang is None:
        return "clang is not installed"
    done = subprocess.run([clang, "-print-runtime-dir"], capture_output=True, text=True, check=True)
    if not any(Path(done.stdout.strip()).glob("libclang_rt.fuzzer*")):
        return "clang's library for fuzzing (libclang-rt-dev) is not installed"
    return ""


def _files(name: str) -> list[str]:
    return [str(HERE / f"{name}.c"), *(f"csrc/{file}" for file in SOURCES[name].linked)]


def digest(name: str) -> str:
    """Return a digest of all files that a target is built from."""
    whole = hashlib.sha256(" ".join((*FLAGS, *FUZZER)).encode())
    headers = sorted(project.ROOT.glob("csrc/*/*.h"))
    sources = [HERE / f"{name}.c", *(project.ROOT / f"csrc/{one}" for one in SOURCES[name].covers)]
    for path in [*headers, *sources]:
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def built() -> dict[str, Path]:
    """Build the targets whose sources have changed, in parallel; return the programs by name."""
    BUILT.mkdir(parents=True, exist_ok=True)
    programs = {name: BUILT / f"{name}-{digest(name)}" for name in SOURCES}
    started = {}
    for name, program in programs.items():
        if not program.exists():
            for old in BUILT.glob(f"{name}-*"):
                old.unlink()
            started[program] = start_build(name, program.with_suffix(".new"))
    for program, process in started.items():
        if process.wait():
            raise SystemExit(f"dev: cannot build the fuzz target {program.name}")
        program.with_suffix(".new").rename(program)
    return programs


def start_build(name: str, program: Path) -> subprocess.Popen[bytes]:
    """Start the compiler for a target with libFuzzer; ``program`` is its output."""
    command = [
        "clang",
        *FLAGS,
        *_INCLUDES.get(name, ()),
        *FUZZER,
        "-o",
        str(program),
        *_files(name),
    ]
    return subprocess.Popen(command, cwd=project.ROOT)


def built_blind(name: str) -> Path:
    """Build a target with many.c instead of libFuzzer, if it has changed; return the program."""
    main = HERE / "many.c"
    version = hashlib.sha256(main.read_bytes() + " ".join(BLIND).encode()).hexdigest()[:8]
    program = BUILT / f"blind-{name}-{digest(name)}-{version}"
    if not program.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        for old in BUILT.glob(f"blind-{name}-*"):
            old.unlink()
        unfinished = program.with_suffix(".new")
        command = ["clang", *FLAGS, *_INCLUDES.get(name, ()), *BLIND, "-o", str(unfinished)]
        subprocess.run([*command, str(main), *_files(name)], cwd=project.ROOT, check=True)
        unfinished.rename(program)
    return program


def build_counting(name: str, directory: Path) -> Path:
    """Build a target that counts what is executed; return the program, whose data is beside it."""
    program = directory / name
    # By another name: some targets are called like a file that they test, and so would be its data.
    harness = directory / "target.c"
    harness.write_bytes((HERE / f"{name}.c").read_bytes())
    files = [str(HERE / "replay.c"), str(harness), *_files(name)[1:]]
    command = ["gcc", *FLAGS, *_INCLUDES.get(name, ()), "-O0", "--coverage", "-o", str(program)]
    # Sources by their whole paths: the program runs elsewhere, and so does gcov.
    whole = [str(project.ROOT / file) for file in files]
    includes = [f"-I{project.ROOT}/csrc{below}" for below in ("", "/executor", "/guest")]
    subprocess.run([*command, *includes, *whole], cwd=directory, check=True)
    return program


def seeds(name: str) -> Iterator[bytes]:
    """Return the first inputs of a C target, besides its corpus."""
    if name == "plan":
        from ociruntime.runtime.plan.plan import encode

        for case in golden.CASES:
            if (case / "plan.txt").exists():
                yield encode(golden.plan_of(case))
    elif name == "record":
        yield from _records()
    elif name == "arguments":
        for line in (
            *("--root /run/a state c1", "start c1", "kill c1 KILL", "delete --force c1"),
            *("--log /l --log-format json kill c1 15", "--cgroup-manager cgroupfs start c1"),
        ):
            yield f"ociruntime {line}".replace(" ", "\n").encode()
    elif name == "walk":
        yield bytes([0, 0, 0, 0, 1, 1, 2, 0x17, 0, 2, 1, 0, 0, 3, 2, 0x70, 0xFF, 0, 4, 1, 7, 8, 0])
    elif name == "frame":
        yield b"\1" + b"s\0\0" + b"i\3\0abc" + b"\0\0k\1\0\17" + b"x\4\0" + bytes(4)
    elif name == "go":
        yield bytes([2]) + (1).to_bytes(4, "little") + (2).to_bytes(4, "little") + bytes(8)
        yield bytes([0]) + (9).to_bytes(4, "little") + bytes(12)


def _records() -> Iterator[bytes]:
    from ociruntime.runtime.lifecycle.fast_path_record import entry_text
    from tests.unit.runtime.lifecycle.test_fast_path_record import CGROUPS, FACTS

    for cgroups in (CGROUPS, None):
        yield entry_text(FACTS, cgroups, 0, "root").encode("utf-8", "surrogateescape")
