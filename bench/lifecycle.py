#!/usr/bin/env python3
"""How long each command of a container's life takes, beside runc and crun.

    sudo bench/lifecycle.py                    ociruntime, runc and crun, 40 rounds
    sudo bench/lifecycle.py --rounds 100 --markdown
    sudo bench/lifecycle.py --runtime /opt/runc-1.5.1 --runtime ./ociruntime --json result.json

Every runtime gets the same bundle: the config.json of ``ociruntime spec`` with ``sleep`` as its
program.  In each round every runtime goes once through create, start, state, exec (of ``true``),
kill and delete, and the rounds take turns in who begins, so that whatever happens to the machine
happens to all.  A time is that of the whole command, from posix_spawn(3) to wait4(2), with files
as its streams.

On cgroup v1 beside a v2 hierarchy crun refuses to work until hugetlb is mounted as v1; that is
done in a mount namespace of this program's own, and undone by its end.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

COMMANDS = ("create", "start", "state", "exec", "kill", "delete")
WHOLE = "whole"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
PR_SET_CHILD_SUBREAPER = 36
INSIDE = "OCIRUNTIME_BENCH_INSIDE"
REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass
class Runtime:
    """One binary, its state root, and the milliseconds of each command, a list a command."""

    path: Path
    root: Path
    version: str
    times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COMMANDS})

    @property
    def name(self) -> str:
        return self.version.replace(" version ", " ")

    def totals(self) -> list[float]:
        """Milliseconds of all commands together, round by round."""
        return [sum(times) for times in zip(*self.times.values(), strict=True)]

    def medians(self) -> dict[str, float]:
        """By command, and of the whole life."""
        found = {name: statistics.median(times) for name, times in self.times.items()}
        found[WHOLE] = statistics.median(self.totals())
        return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time a container's life, command by command.")
    parser.add_argument("--runtime", action="append", type=Path, metavar="PATH",
                        help="a runtime to time; the first is compared with the others "
                        "(default: ociruntime, runc, crun)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    parser.add_argument("--warmup", type=int, default=3, metavar="N", help="rounds not counted")
    parser.add_argument("--json", metavar="FILE", help="write all times there ('-': print them)")
    parser.add_argument("--markdown", action="store_true", help="print a table for a README")
    return parser.parse_args()


def default_runtimes() -> list[Path]:
    """Ours of the build environment or of the PATH, then the peers that are installed."""
    own = REPOSITORY / ".venv" / "bin" / "ociruntime"
    search = f"{ENVIRONMENT['PATH']}:{os.environ.get('PATH', '')}"
    names = [str(own) if own.exists() else "ociruntime", "runc", "crun"]
    found = [shutil.which(name, path=search) for name in names]
    for name, path in zip(names, found, strict=True):
        if path is None:
            print(f"not installed, left out: {name}", file=sys.stderr)
    return [Path(path) for path in found if path]


def enter_mount_namespace() -> None:
    """Start again in an own mount namespace, where nothing has to be undone on the host."""
    if os.environ.get(INSIDE):
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


def hugetlb_as_v1() -> Path | None:
    """Mount it for crun if this host is the kind that needs it; returns what to take away.

    The directory alone means nothing: a peer may have made it, in search of the hierarchy.
    """
    place = Path("/sys/fs/cgroup/hugetlb")
    if os.path.ismount(place) or not os.path.ismount("/sys/fs/cgroup/unified"):
        return None
    place.mkdir(exist_ok=True)
    command = ["mount", "-t", "cgroup", "-o", "hugetlb", "cgroup", str(place)]
    subprocess.run(command, check=True)
    return place


def make_bundle(place: Path, specification: Path) -> Path:
    """A bundle with busybox and the config.json that the runtime's ``spec`` writes."""
    bundle = place / "bundle"
    (bundle / "rootfs" / "bin").mkdir(parents=True)
    for name in ("proc", "dev", "sys", "etc", "tmp"):
        (bundle / "rootfs" / name).mkdir()
    shutil.copy("/bin/busybox", bundle / "rootfs" / "bin" / "busybox")
    for name in ("sh", "sleep", "true"):
        (bundle / "rootfs" / "bin" / name).symlink_to("busybox")
    subprocess.run([specification, "spec"], cwd=bundle, check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["ociVersion"] = "1.0.2"  # older versions of crun take no other
    config["process"]["terminal"] = False
    config["process"]["args"] = ["sleep", "1000"]
    (bundle / "config.json").write_text(json.dumps(config, indent=2))
    return bundle


def open_runtime(path: Path, root: Path) -> Runtime:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return Runtime(path, root, done.stdout.splitlines()[0])


def timed(command: list[str], output: Path) -> float:
    """Milliseconds from spawn to exit; a failure ends the program with what was said."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    began = time.perf_counter_ns()
    pid = os.posix_spawn(command[0], command, ENVIRONMENT, file_actions=actions)
    _, status, _ = os.wait4(pid, 0)
    ended = time.perf_counter_ns()
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}\n{output.read_text()}")
    return (ended - began) / 1e6


def life(runtime: Runtime, bundle: Path, name: str) -> dict[str, float]:
    """One container from create to delete: milliseconds by command."""
    base = [str(runtime.path), "--root", str(runtime.root)]
    output = bundle.parent / "output"
    pid_file = bundle.parent / "pid"
    create = ["create", "--bundle", str(bundle), "--pid-file", str(pid_file), name]
    times = {"create": timed([*base, *create], output)}
    times["start"] = timed([*base, "start", name], output)
    times["state"] = timed([*base, "state", name], output)
    times["exec"] = timed([*base, "exec", name, "true"], output)
    times["kill"] = timed([*base, "kill", name, "KILL"], output)
    # As an engine does: it is the subreaper, and deletes when the process has ended.
    os.waitpid(int(pid_file.read_text()), 0)
    times["delete"] = timed([*base, "delete", name], output)
    return times


def measure(runtimes: list[Runtime], bundle: Path, rounds: int, warmup: int) -> None:
    """Fill in the times; the order turns with every round."""
    for number in range(-warmup, rounds):
        first = number % len(runtimes)
        for runtime in runtimes[first:] + runtimes[:first]:
            times = life(runtime, bundle, f"bench{os.getpid()}")
            if number < 0:
                continue
            for command, milliseconds in times.items():
                runtime.times[command].append(milliseconds)


def table(runtimes: list[Runtime]) -> list[list[str]]:
    """Header, medians in milliseconds, then how the first compares with each other one."""
    columns = (*COMMANDS, WHOLE)
    rows = [["median ms", *columns]]
    medians = [runtime.medians() for runtime in runtimes]
    for runtime, found in zip(runtimes, medians, strict=True):
        rows.append([runtime.name, *(f"{found[name]:.1f}" for name in columns)])
    own = runtimes[0].version.split()[0]
    for runtime, found in zip(runtimes[1:], medians[1:], strict=True):
        title = f"{own} / {runtime.version.split()[0]}"
        rows.append([title, *(f"{medians[0][name] / found[name]:.2f}" for name in columns)])
    return rows


def as_text(rows: list[list[str]]) -> str:
    width = max(len(row[0]) for row in rows)
    return "\n".join(
        row[0].ljust(width) + "".join(f" {cell:>8}" for cell in row[1:]) for row in rows
    )


def as_markdown(rows: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:]))


def machine() -> str:
    cores = os.cpu_count()
    cgroup = "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    return f"Linux {platform.release()}, {cores} cores, cgroup {cgroup}"


def report(runtimes: list[Runtime], options: argparse.Namespace) -> None:
    rows = table(runtimes)
    if options.json:
        document = {
            "machine": machine(),
            "rounds": options.rounds,
            "runtimes": [
                {"version": one.version, "medians": one.medians(), "times": one.times}
                for one in runtimes
            ],
        }
        text = json.dumps(document, indent=1)
        if options.json == "-":
            print(text)
            return
        Path(options.json).write_text(text + "\n")
    print(as_markdown(rows) if options.markdown else as_text(rows))
    print(f"\n{machine()}; {options.rounds} rounds, alternating")


@contextmanager
def workplace(*, with_crun: bool = False) -> Iterator[Path]:
    """A directory, in an own mount namespace; orphans come to this process."""
    if os.geteuid() != 0:
        sys.exit("needs root")
    enter_mount_namespace()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    hugetlb = hugetlb_as_v1() if with_crun else None
    try:
        with tempfile.TemporaryDirectory(prefix="ociruntime-bench-", dir="/var/tmp") as place:
            yield Path(place)
    finally:
        if hugetlb is not None:
            subprocess.run(["umount", str(hugetlb)], check=True)
            if not any(hugetlb.iterdir()):
                hugetlb.rmdir()


@contextmanager
def stage(given: list[Path] | None) -> Iterator[tuple[Path, list[Runtime]]]:
    """The bundle and the runtimes (those of the machine by default), until the end of the block."""
    paths = [path.absolute() for path in given or default_runtimes()]
    with workplace(with_crun=any(path.name == "crun" for path in paths)) as place:
        roots = [place / f"root{number}" for number in range(len(paths))]
        runtimes = [open_runtime(path, root) for path, root in zip(paths, roots, strict=True)]
        yield make_bundle(place, paths[0]), runtimes


def main() -> None:
    options = arguments()
    with stage(options.runtime) as (bundle, runtimes):
        measure(runtimes, bundle, options.rounds, options.warmup)
        report(runtimes, options)


if __name__ == "__main__":
    main()
