"""The manual pages contain every command and option, and are valid roff."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ociruntime.commandline.options import Option
from tests.support import project
from tools.programs import PROGRAMS, Program

PAGES = {
    page: options
    for program in PROGRAMS
    for page, options in (
        (program.name, program.options),
        *((program.page(command.name), command.options) for command in program.commands),
    )
}
EVERY_PAGE = pytest.mark.parametrize("page", PAGES)
EVERY_PROGRAM = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("man")
    command = [sys.executable, "tools/build_man_pages.py", str(made)]
    subprocess.run(command, check=True, cwd=project.ROOT)
    return made / "man1"


def plain(page: Path) -> str:
    """Return the text without roff's escapes."""
    return re.sub(r"\\f[BIR]", "", page.read_text()).replace("\\-", "-")


def test_one_page_a_command(pages: Path) -> None:
    assert sorted(path.stem for path in pages.iterdir()) == sorted(PAGES)


@EVERY_PAGE
def test_every_option(pages: Path, page: str) -> None:
    # Of a name that is there twice, the one that is shown.
    options: list[Option] = sorted(PAGES[page], key=lambda option: bool(option.help))
    options = list({option.name: option for option in options}.values())
    text = plain(pages / f"{page}.1")
    for option in options:
        value = rf"( {re.escape(option.value)}|\[={re.escape(option.value)}\])?"
        head = rf"(?m)^(-{re.escape(option.short)}, )?--{option.name}{value}$"
        assert bool(re.search(head, text)) == bool(option.help), option.name


@EVERY_PROGRAM
def test_main_page_leads_to_the_others(pages: Path, program: Program) -> None:
    text = plain(pages / f"{program.name}.1")
    for command in program.commands:
        reference = rf"(?<![\w-]){program.page(command.name)}\(1\)"
        assert len(re.findall(reference, text)) == 2  # in its group, and below SEE ALSO


@EVERY_PAGE
def test_groff_has_no_complaint(pages: Path, page: str) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    command = ["groff", "-man", "-Tutf8", "-ww", str(pages / f"{page}.1")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    bare = re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout)
    assert max(map(len, bare.splitlines())) <= 80


@EVERY_PAGE
def test_mandoc_has_no_complaint(pages: Path, page: str) -> None:
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    command = ["mandoc", "-T", "lint", "-W", "warning", str(pages / f"{page}.1")]
    done = subprocess.run(command, capture_output=True, text=True)
    complaints = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert complaints == []
