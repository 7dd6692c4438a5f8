"""Fuzz the parsers: ``./dev fuzz [TARGET...] [--minutes N]``.

Each target runs in a separate mount namespace with a read-only root: a bug in unpacking a layer
cannot change this machine.  Inputs that reach new code are kept in build/fuzz/TARGET/corpus for the
next run; inputs that show a bug are in build/fuzz/TARGET/findings.  The number of inputs tried is
in build/fuzz/runs.jsonl, from which ./dev score takes it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import corpus, native, reached, table, tried
from tests.support import project

WORK = tried.WORK
LARGEST = 4096  # bytes of an input
LARGEST_OF_ARCHIVES = 16384
SLOWEST = 20  # seconds
MEMORY = 2048  # MiB
_ARCHIVES = ("aci", "archive", "layer", "config", "plan")
# In a namespace: everything but the target's own directory is read-only, and its temporary files
# are in memory, where a device node is no device.
_ALONE = """
set -eu
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,ro,bind /
mkdir -p "$1/tmp"
mount -t tmpfs -o nodev,nosuid,size=512m fuzz "$1/tmp"
export TMPDIR="$1/tmp"
cd "$1"
shift
exec "$@"
"""


@dataclass(frozen=True)
class Result:
    """The result of one target's run."""

    name: str
    executions: int
    inputs: int  # in the corpus afterwards
    findings: list[Path]


def alone(work: Path, command: Iterable[str]) -> list[str]:
    """Return the command that runs ``command`` in a separate mount namespace."""
    return ["nice", "unshare", "--mount", "sh", "-c", _ALONE, "sh", str(work), *command]


def program_of(name: str) -> list[str]:
    """Return the command of a target, to which libFuzzer's arguments are appended; build it."""
    if name in table.PYTHON:
        return [sys.executable, str(corpus.DIRECTORY.parent / "run_python.py"), name]
    return [str(native.built()[name])]


def seeds_of(name: str) -> list[bytes]:
    """Return the inputs of a target that its code generates."""
    return list(table.load(name).seeds() if name in table.PYTHON else native.seeds(name))


def _write(directory: Path, inputs: Iterable[bytes]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (directory / corpus.name_of(data)).write_bytes(data)


def _words(name: str, work: Path) -> list[str]:
    """Write the target's dictionary; return the option that names it."""
    words = table.load(name).words if name in table.PYTHON else native.SOURCES[name].words
    if not words:
        return []
    path = work / "words"
    escaped = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in words)
    path.write_text("".join(f'"{word}"\n' for word in escaped))
    return [f"-dict={path}"]


def limits(name: str, size: int | None = None) -> list[str]:
    """Return libFuzzer's options that bound an input's size, time and memory."""
    size = size or (LARGEST_OF_ARCHIVES if name in _ARCHIVES else LARGEST)
    return [f"-max_len={size}", f"-timeout={SLOWEST}", f"-rss_limit_mb={MEMORY}"]


def fuzz(
    name: str, seconds: int, runs: int = -1, size: int | None = None, *, blind: bool = False
) -> Result:
    """Run one target for some seconds, for some runs, or until its first finding; record it."""
    work = WORK / name
    found = work / "findings"
    found.mkdir(parents=True, exist_ok=True)
    _write(work / "corpus", [*seeds_of(name), *corpus.inputs(name)])
    program = [str(native.built_blind(name))] if blind else program_of(name)
    environment = os.environ | (native.BLIND_ENVIRONMENT if blind else {})
    command = [*program, *limits(name, size), *_words(name, work)]
    command += [f"-max_total_time={seconds}", f"-runs={runs}", f"-artifact_prefix={found}/"]
    command.append(str(work / "corpus"))
    before = set(found.iterdir())
    log = work / "log"
    status = 0
    try:
        with log.open("wb") as output:
            whole = alone(work, command)
            status = subprocess.call(whole, stdout=output, stderr=output, env=environment)
    finally:
        text = log.read_text(errors="replace")
        findings = sorted(set(found.iterdir()) - before)
        executions = tried.executions(text)
        tried.record(name, executions, [path.name for path in findings])
    if status and not findings:
        raise SystemExit(f"dev: the target {name} failed: see {log}\n{text[-2000:]}")
    return Result(name, executions, len(list((work / "corpus").iterdir())), findings)


def go_on(name: str, options: argparse.Namespace) -> Iterator[Result]:
    """Fuzz a target once; with ``--runs``, until all runs together have tried so many inputs."""
    seconds = round(60 * options.minutes)
    blind = options.blind and name in table.NATIVE
    if options.runs is None:
        yield fuzz(name, seconds, size=options.largest, blind=blind)
        return
    while (left := options.runs - tried.totals().get(name, tried.Total()).runs) > 0:
        result = fuzz(name, seconds, left, options.largest, blind=blind)
        yield result
        if result.findings:
            return


def save(name: str) -> None:
    """Reduce a target's inputs to those that reach new code; save them in its corpus."""
    work = WORK / name
    found = [path.read_bytes() for path in (work / "corpus").iterdir()]
    if name in table.PYTHON:
        kept = set(reached.novel(name, found))
    else:
        kept = _merged(name, work)
    print(f"{name}: {corpus.save(name, kept)} of {len(found)} inputs saved", flush=True)


def _merged(name: str, work: Path) -> set[bytes]:
    """Return the inputs of a C target that reach code which its seeds do not reach."""
    base = seeds_of(name)
    reduced = work / "reduced"
    shutil.rmtree(reduced, ignore_errors=True)
    _write(reduced, base)
    command = [
        *program_of(name),
        *limits(name),
        "-merge=1",
        str(reduced),
        str(work / "corpus"),
    ]
    subprocess.run(alone(work, command), capture_output=True, check=True)
    return {path.read_bytes() for path in reduced.iterdir()} - set(base)


def parse(arguments: list[str]) -> argparse.Namespace:
    targets = "\n".join(
        f"  {name:<12} {text}" for name, text in (table.PYTHON | table.NATIVE).items()
    )
    parser = argparse.ArgumentParser(
        prog="./dev fuzz",
        description=__doc__,
        epilog=f"targets:\n{targets}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    minutes = "for each target, or each start of one with --runs (default: 1)"
    parser.add_argument("--minutes", type=float, default=1.0, help=minutes)
    runs = "go on until each target has tried N inputs in all, or has found something"
    parser.add_argument("--runs", type=int, metavar="N", help=runs)
    blind = "change the inputs of C targets without looking at what they reach: more in the time"
    parser.add_argument("--blind", action="store_true", help=blind)
    largest = f"largest input (default: {LARGEST}, {LARGEST_OF_ARCHIVES} for some)"
    parser.add_argument("--largest", type=int, metavar="BYTES", help=largest)
    parser.add_argument("--save", action="store_true", help="also write tests/fuzz/corpus anew")
    counting = "only count what the corpora reach, and write the table of docs/reliability.md"
    parser.add_argument("--coverage", action="store_true", help=counting)
    parser.add_argument("target", nargs="*", metavar="TARGET", help="default: all")
    found = parser.parse_args(arguments)
    for name in set(found.target) - set(table.NAMES):
        parser.error(f"no such target: {name} (choose from {', '.join(table.NAMES)})")
    return found


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    names = options.target or table.NAMES
    if options.coverage:
        reached.document(names)
        return 0
    if os.geteuid() != 0:
        raise SystemExit("dev: fuzzing needs root, for a mount namespace of its own")
    if why := native.missing():
        names = [name for name in names if name in table.PYTHON]
        print(f"dev: {why}: the C targets are skipped", file=sys.stderr)
    status = 0
    for name in names:
        for result in go_on(name, options):
            shown = ", ".join(str(path.relative_to(project.ROOT)) for path in result.findings)
            print(
                f"{name:<12} {result.executions:>9} executions {result.inputs:>6} inputs"
                f"   {shown or 'nothing found'}",
                flush=True,
            )
            status |= bool(result.findings)
        if options.save:
            save(name)
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
