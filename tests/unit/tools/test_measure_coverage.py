"""What ``./dev coverage`` counts and writes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import coverage
import pytest

from tests.support import project
from tools import measure_coverage
from tools.measure_coverage import Count

PROGRAM = """\
import posix, sys
{hook}
def run():
    child = posix.fork()
    if child == 0:
        in_child()
    if posix.waitpid(child, 0) is None:
        never = 1
    {end}

def in_child():
    posix._exit(0)

run()
"""
NEVER, WITHIN = 9, {5, 6, 7, 8, 9, 10, 13}  # the lines of the functions


def test_percents_are_never_rounded_up() -> None:
    assert Count(1000, 999, 3, 2).row == "999 of 1000 (99 %) | 2 of 3 (66 %)"
    assert Count().row == "0 of 0 (0 %) | 0 of 0 (0 %)"


def test_sums_of_folders() -> None:
    files = {"a/b/c/one.py": Count(1, 1), "a/b/two.py": Count(2, 1), "a/b/c/d/e.py": Count(4, 0, 2)}
    found = measure_coverage.by_folder(files, 3)
    assert found == {"a/b": Count(2, 1), "a/b/c": Count(5, 1, 2)}
    assert measure_coverage.total(files) == Count(7, 2, 2)


def test_outcomes_and_tables(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite><testcase/><testcase/><testcase><failure/><error/></testcase>"
        "<testcase><skipped/></testcase></testsuite></testsuites>"
    )
    tests = {"folder": "unit", "whole": False, "seconds": 9, **measure_coverage.outcomes(report)}
    text = measure_coverage.text_of([tests], {"o/r/p/x.py": Count(2, 1)}, {"csrc/e/x.c": Count(1)})
    assert "| `tests/unit`, not to its end | 2 | 1 | 1 | 9 |" in text
    assert "| `o/r/p` | 1 of 2 (50 %) | 0 of 0 (0 %) |" in text
    assert "| `csrc/e` | 0 of 1 (0 %) | 0 of 0 (0 %) |" in text


@pytest.mark.parametrize(
    "end", ["posix._exit(3)", "posix.execv('/bin/sh', ['sh', '-c', 'exit 3'])"]
)
def test_a_program_that_ends_at_once_is_counted(end: str, tmp_path: Path) -> None:
    """Programs of the package start without site, and end without Python's own exit."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "data").mkdir()
    shutil.copy(project.ROOT / "tools" / "coverage_hook.py", tmp_path / "tools")
    packages = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    library = tmp_path / ".venv" / "lib" / packages.parent.name
    library.mkdir(parents=True)
    (library / "site-packages").symlink_to(packages)
    settings = measure_coverage.SETTINGS.format(work=tmp_path, tree=tmp_path)
    (tmp_path / ".coveragerc").write_text(settings)
    package = tmp_path / "ociruntime"
    package.mkdir()
    hook = measure_coverage.HOOK.format(path=str(tmp_path / "tools" / "coverage_hook.py"))
    program = package / "program.py"
    program.write_text(PROGRAM.format(hook=hook, end=end))
    done = subprocess.run([sys.executable, "-I", "-S", "-B", program], check=False)
    assert done.returncode == 3
    counted = coverage.Coverage(
        str(tmp_path / "data" / "of"), config_file=str(tmp_path / ".coveragerc")
    )
    counted.combine([str(tmp_path / "data")])
    missing = counted.analysis2(str(program))[3]
    assert [line for line in missing if line in WITHIN] == [NEVER]
