"""Count what the tests execute of Python and C, and write it into docs/reliability.md.

    ./dev coverage [--minutes N] [FOLDER...]

The tests run in a copy of the project below build/coverage.  There each program counts: Python by
the coverage tool, also in the commands that the tests start; C by clang, in a shared mapping, which
a killed process and one that has changed its root fill as well.  Programs start the interpreter,
never a snapshot: of the code for snapshots only its unit tests count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.append(str(REPOSITORY))

from tests.support import project  # noqa: E402

WORK = REPOSITORY / "build" / "coverage"
TREE = WORK / "tree"
PROFILES = WORK / "profiles"
RESULTS = WORK / "results.json"
PAGE = REPOSITORY / "docs" / "reliability.md"
BEGINNING, END = "<!-- counted by ./dev coverage -->", "<!-- end of the coverage -->"
FOLDERS = (
    *("unit", "executor", "runtime", "errors", "properties", "images", "pods", "manager"),
    "engines",
)
# Programs that count are larger and slower, and need a working directory.
UNFIT = (
    "tests/executor/test_footprint.py::test_waiting_process",
    "tests/runtime/test_empty_environment.py::test_removed_working_directory",
    "tests/runtime/test_fast_path_fallback.py::test_delete_killed_on_its_way",
    "tests/runtime/test_memory.py::test_waiting_process_is_small",
    "tests/pods/test_idle.py::test_what_it_is",
)
MINUTES = 60.0
SAVING = 60  # seconds that a test session may take to end
# A virtual machine saves its counts in the directory that has this file (save_guest_counts.c).
GUEST_COUNTS = "guests"
PURE = "unit"  # runs beside the others, as in ./dev test
HOOK = "exec(compile(open({path!r}).read(), {path!r}, 'exec'), {{'__file__': {path!r}}})\n"
PROGRAMS = (
    "ociruntime/runtime/executor/_executor",
    "ociruntime/pods/monitor/_pod_init",
    "ociruntime/pods/monitor/_hibernation",
    "ociruntime/pods/kvm/_guest",
    *(f".venv/bin/{name}" for name in ("ociruntime", "ocipod", "ocictl", "ocid")),
)
SETTINGS = """\
[run]
branch = true
parallel = true
data_file = {work}/data/of
include = {tree}/ociruntime/*
disable_warnings = no-data-collected,module-not-measured,trace-changed
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
    @abstractmethod
    \\.\\.\\.$
"""


@dataclass
class Count:
    """Lines and branches, and how many of them were executed."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    def add(self, other: Count) -> None:
        self.lines += other.lines
        self.lines_reached += other.lines_reached
        self.branches += other.branches
        self.branches_reached += other.branches_reached

    @property
    def row(self) -> str:
        """The cells of a table; a part of a percent is dropped."""
        return " | ".join(
            f"{reached} of {all_} ({100 * reached // max(all_, 1)} %)"
            for reached, all_ in (
                (self.lines_reached, self.lines),
                (self.branches_reached, self.branches),
            )
        )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev coverage", description=__doc__.partition("\n")[0])
    minutes = "end the tests after N minutes (default: %(default)s)"
    parser.add_argument("--minutes", type=float, default=MINUTES, metavar="N", help=minutes)
    folders = f"folders of tests/, in this order (default: {' '.join(FOLDERS)})"
    parser.add_argument("folder", nargs="*", default=FOLDERS, metavar="FOLDER", help=folders)
    return parser.parse_args(arguments)


def lay_out() -> None:
    """Make the copy of the project, with a virtual environment of its own."""
    shutil.rmtree(WORK, ignore_errors=True)
    for directory in (TREE, PROFILES, WORK / "data"):
        directory.mkdir(parents=True)
    (PROFILES / GUEST_COUNTS).touch()
    PROFILES.chmod(0o777)  # users of rootless containers write there, too
    (WORK / "data").chmod(0o777)
    for path in project.files():
        target = TREE / path.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    command = [sys.executable, "-m", "venv", "--without-pip", str(TREE / ".venv")]
    subprocess.run(command, check=True)
    packages = next((TREE / ".venv" / "lib").glob("python3.*/site-packages"))
    for entry in next((REPOSITORY / ".venv" / "lib").glob("python3.*/site-packages")).iterdir():
        if entry.name != "ociruntime":
            (packages / entry.name).symlink_to(entry)
    (packages / "ociruntime").symlink_to(TREE / "ociruntime")
    (TREE / ".coveragerc").write_text(SETTINGS.format(work=WORK, tree=TREE))
    (TREE / "ociruntime" / "_faults").touch()


def build() -> None:
    """Build the programs that count, and have those in Python load the hook."""
    command = [sys.executable, "setup.py", "-q", "build_native", "--prefix", ".venv"]
    command += ["--counting", str(PROFILES)]
    environment = os.environ | {"CC": "clang"}
    with (WORK / "build.log").open("wb") as log:
        done = subprocess.run(
            command, cwd=TREE, env=environment, stdout=log, stderr=log, check=False
        )
    if done.returncode != 0:
        raise SystemExit(f"dev: the build failed: see {WORK / 'build.log'}")
    for main in TREE.glob("ociruntime/**/__main__.py"):
        text = main.read_text()
        head, line, rest = text.partition("\nimport ")  # behind the docstring
        main.write_text(f"{head}\n{hook()}{line[1:]}{rest}")


def hook() -> str:
    """Return the line of Python that starts counting."""
    return HOOK.format(path=str(TREE / "tools" / "coverage_hook.py"))


def run_all(folders: list[str], deadline: float) -> list[dict[str, Any]]:
    """Run the tests of all folders, those of ``PURE`` beside the others, until the deadline."""

    def run_some(names: list[str]) -> list[dict[str, Any]]:
        return [run_tests(name, deadline) for name in names if time.monotonic() < deadline]

    with ThreadPoolExecutor(2) as pool:
        others = pool.submit(run_some, [name for name in folders if name.split("/")[0] != PURE])
        pure = pool.submit(run_some, [name for name in folders if name.split("/")[0] == PURE])
        return pure.result() + others.result()


def run_tests(folder: str, deadline: float) -> dict[str, Any]:
    """Run the tests of one folder; return how many there were, and whether they all were run."""
    name = folder.replace("/", "-")
    report = WORK / f"{name}.xml"
    session = hook() + "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    command = [str(TREE / ".venv" / "bin" / "python"), "-c", session]
    command += ["-q", "-p", "no:cacheprovider", "--snapshot=none", f"--junitxml={report}"]
    started = time.monotonic()
    with (WORK / f"{name}.log").open("wb") as log:
        words = [*command, *(f"--deselect={test}" for test in UNFIT), f"tests/{folder}"]
        process = subprocess.Popen(words, cwd=TREE, stdout=log, stderr=log)
        try:
            process.wait(max(deadline - time.monotonic(), 1))
            whole = True
        except subprocess.TimeoutExpired:
            whole = False
            process.send_signal(signal.SIGINT)
            process.wait(SAVING)
    seconds = round(time.monotonic() - started)
    return {"folder": folder, "whole": whole, "seconds": seconds, **outcomes(report)}


def outcomes(report: Path) -> dict[str, int]:
    """Return how many tests of a JUnit report passed, failed and were skipped."""
    found: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        bad = kinds & {"failure", "error"}
        found["failed" if bad else "skipped" if "skipped" in kinds else "passed"] += 1
    return dict(found)


def count_python() -> dict[str, Count]:
    """Return the counts of each file of the package."""
    tool = [str(TREE / ".venv" / "bin" / "python"), "-m", "coverage"]
    nothing = WORK / "nothing.py"
    nothing.touch()
    # Files that no test imports are counted as well.
    every = [f"--source={TREE}/ociruntime", f"--data-file={WORK}/unexecuted", str(nothing)]

    def run(*words: str) -> None:
        subprocess.run([*tool, *words], cwd=TREE, check=True, stdout=subprocess.DEVNULL)

    run("run", "--branch", "--rcfile=", *every)
    parts = [str(WORK / "data"), str(WORK / "unexecuted")]
    run("combine", "--quiet", "--keep", *parts)
    report = WORK / "python.json"
    run("json", "-q", "--ignore-errors", f"-o{report}")
    found = {}
    for name, file in json.loads(report.read_text())["files"].items():
        totals = file["summary"]
        found[os.path.relpath(TREE / name, TREE)] = Count(
            totals["num_statements"],
            totals["covered_lines"],
            totals["num_branches"],
            totals["covered_branches"],
        )
    for path in TREE.glob("ociruntime/**/*.py"):
        if (name := str(path.relative_to(TREE))) not in found:
            raise SystemExit(f"dev: {name} was not counted")
    return found


def count_native() -> dict[str, Count]:
    """Return the counts of each C file; csrc/libc is not part of the programs that count."""
    merged = WORK / "native.profdata"
    profiles = [str(path) for path in PROFILES.glob("*.profraw") if path.stat().st_size]
    subprocess.run(["llvm-profdata", "merge", "-o", str(merged), *profiles], check=True)
    programs = [str(TREE / name) for name in PROGRAMS]
    programs += [str(path) for path in TREE.glob("ociruntime/*.so")]
    objects = [word for program in programs[1:] for word in ("-object", program)]
    command = ["llvm-cov", "export", "-summary-only", programs[0], *objects]
    done = subprocess.run(
        [*command, f"-instr-profile={merged}"], check=True, stdout=subprocess.PIPE, cwd=TREE
    )
    found = {}
    for file in json.loads(done.stdout)["data"][0]["files"]:
        path = Path(TREE, file["filename"])
        if not path.is_relative_to(TREE / "csrc"):
            continue
        lines, branches = file["summary"]["lines"], file["summary"]["branches"]
        found[str(path.relative_to(TREE))] = Count(
            lines["count"], lines["covered"], branches["count"], branches["covered"]
        )
    return found


def by_folder(files: dict[str, Count], depth: int) -> dict[str, Count]:
    """Return the sums of the first ``depth`` folders of each path."""
    found: dict[str, Count] = {}
    for name, count in sorted(files.items()):
        folder = "/".join(name.split("/")[:-1][:depth])
        found.setdefault(folder, Count()).add(count)
    return found


def total(files: dict[str, Count]) -> Count:
    whole = Count()
    for count in files.values():
        whole.add(count)
    return whole


def text_of(tests: list[dict[str, Any]], python: dict[str, Count], native: dict[str, Count]) -> str:
    """Return the tables of the page."""
    lines = ["| tests | passed | failed | skipped | seconds |", "|---|---|---|---|---|"]
    for one in tests:
        name = f"`tests/{one['folder']}`{'' if one['whole'] else ', not to its end'}"
        lines.append(
            f"| {name} | {one['passed']} | {one['failed']} | {one['skipped']} | {one['seconds']} |"
        )
    lines += ["", "| folder | lines | branches |", "|---|---|---|"]
    for files, depth, name in ((python, 3, "all of Python"), (native, 2, "all of C")):
        lines += [f"| `{folder}` | {c.row} |" for folder, c in by_folder(files, depth).items()]
        lines.append(f"| {name} | {total(files).row} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    deadline = time.monotonic() + 60 * options.minutes
    lay_out()
    build()
    tests = run_all(options.folder, deadline)
    python, native = count_python(), count_native()
    whole = total(python | native)
    text = text_of(tests, python, native)
    print(text)
    project.replace_block(PAGE, BEGINNING, END, text)
    files = {name: vars(count) for name, count in sorted((python | native).items())}
    results = {"tests": tests, "files": files, "all": vars(whole)}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
