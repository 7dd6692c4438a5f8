"""Count the lines and branches that the corpora reach in the files that each target tests."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz import corpus, native, table
from tests.support import project

PAGE = project.ROOT / "docs" / "reliability.md"
BEGINNING, END = "<!-- reached by ./dev fuzz -->", "<!-- end of what is reached -->"


@dataclass
class Count:
    """Lines and branches, and how many of them were executed."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    @property
    def row(self) -> str:
        """Return the cells of the table."""
        lines = 100 * self.lines_reached // max(self.lines, 1)
        branches = 100 * self.branches_reached // max(self.branches, 1)
        return (
            f"{self.lines_reached} of {self.lines} ({lines} %) "
            f"| {self.branches_reached} of {self.branches} ({branches} %)"
        )


def replay(name: str) -> None:
    """Run a Python target on its seeds and its corpus, in this process."""
    from tests.fuzz.target import remove_directories

    target = table.load(name)
    try:
        for data in [*target.seeds(), *corpus.inputs(name)]:
            target.run(data)
    finally:
        remove_directories()


def novel(name: str, inputs: Iterable[bytes]) -> list[bytes]:
    """Return the inputs of a Python target that reach more than its seeds, smallest first.

    A step is a transition from one line to another in the files that the target tests.
    """
    target = table.load(name)
    patterns = _files(name)
    seen: set[tuple[CodeType, int, int]] = set()
    wanted: dict[CodeType, bool] = {}

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401
        code = frame.f_code
        if code not in wanted:
            path = f"{project.PACKAGE}/{code.co_filename.rpartition('/ociruntime/')[2]}"
            wanted[code] = any(fnmatch(path, pattern) for pattern in patterns)
        if not wanted[code]:
            return None
        last = frame.f_lineno

        def step(inner: FrameType, event: str, _: object) -> Any:  # noqa: ANN401
            nonlocal last
            seen.add((code, last, inner.f_lineno))
            last = inner.f_lineno
            return step

        return step

    def gain(data: bytes) -> int:
        before = len(seen)
        sys.settrace(trace)
        try:
            target.run(data)
        finally:
            sys.settrace(None)
        return len(seen) - before

    for data in target.seeds():
        gain(data)
    return [data for data in sorted(inputs, key=len) if gain(data)]


def _files(name: str) -> list[str]:
    """Return the files that a Python target tests, as patterns of the coverage tool."""
    covers = table.load(name).covers
    return [f"{project.PACKAGE}/{one}{'*' if one.endswith('/') else ''}" for one in covers]


def count_python(name: str) -> Count:
    with tempfile.TemporaryDirectory() as directory:
        data, report = f"{directory}/data", Path(directory, "report.json")
        tool = [sys.executable, "-m", "coverage"]
        own = f"from tests.fuzz.reached import replay; replay({name!r})"
        script = Path(directory, "script.py")
        script.write_text(f"import sys; sys.path.append({str(project.ROOT)!r})\n{own}\n")
        include = f"--include={','.join(_files(name))}"
        run = [*tool, "run", "--branch", f"--data-file={data}", include, str(script)]
        subprocess.run(run, check=True, cwd=directory, stdout=subprocess.DEVNULL)
        written = [*tool, "json", f"--data-file={data}", "-q", f"-o{report}"]
        subprocess.run(written, check=True, cwd=directory)
        totals = json.loads(report.read_text())["totals"]
    return Count(
        totals["num_statements"],
        totals["covered_lines"],
        totals["num_branches"],
        totals["covered_branches"],
    )


def count_native(name: str) -> Count:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        program = native.build_counting(name, place)
        inputs = place / "inputs"
        inputs.mkdir()
        paths = []
        for number, data in enumerate([*native.seeds(name), *corpus.inputs(name)]):
            paths.append(inputs / str(number))
            paths[-1].write_bytes(data)
        subprocess.run([program, *paths], check=True, cwd=place, stderr=subprocess.DEVNULL)
        total = Count()
        seen: set[str] = set()
        command = ["gcov", "--json-format", "--stdout", "--branch-probabilities"]
        done = subprocess.run(
            [*command, *place.glob("*.gcda")], check=True, cwd=place, capture_output=True
        )
        for document in done.stdout.splitlines():
            for file in json.loads(document)["files"]:
                _add(total, file, native.SOURCES[name].covers, seen)
    return total


def _add(total: Count, file: dict[str, object], covers: tuple[str, ...], seen: set[str]) -> None:
    path = str(file["file"])
    if path in seen or not path.endswith(tuple(f"csrc/{one}" for one in covers)):
        return
    seen.add(path)
    lines = file["lines"]
    assert isinstance(lines, list)
    for line in lines:
        total.lines += 1
        total.lines_reached += line["count"] > 0
        total.branches += len(line["branches"])
        total.branches_reached += sum(branch["count"] > 0 for branch in line["branches"])


def table_of(names: Iterable[str]) -> str:
    rows = ["| target | aims at | lines | branches |", "|---|---|---|---|"]
    for name in names:
        count = count_python(name) if name in table.PYTHON else count_native(name)
        text = (table.PYTHON | table.NATIVE)[name]
        rows.append(f"| `{name}` | {text} | {count.row} |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def document(names: Iterable[str]) -> None:
    """Print the table, and write it to the page if it contains all targets."""
    chosen = list(names)
    made = table_of(chosen)
    if chosen == table.NAMES:
        project.replace_block(PAGE, BEGINNING, END, made)
