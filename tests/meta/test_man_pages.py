"""The manual pages name every command and option, and are clean roff."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ociruntime.cli.options import COMMANDS, GLOBAL_OPTIONS
from tests.support import project

NAMES = [command[0] for command in COMMANDS]
FILES = ["ociruntime.1", *(f"ociruntime-{name}.1" for name in NAMES)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("man")
    command = [sys.executable, "tools/build_man_pages.py", str(made)]
    subprocess.run(command, check=True, cwd=project.ROOT)
    return made / "man1"


def plain(page: Path) -> str:
    """The text without roff's escapes."""
    return re.sub(r"\\f[BIR]", "", page.read_text()).replace("\\-", "-")


def test_one_page_a_command(pages: Path) -> None:
    assert sorted(path.name for path in pages.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("command", [("", GLOBAL_OPTIONS), *((c[0], c[5]) for c in COMMANDS)])
def test_every_option(pages: Path, command: tuple[str, tuple[tuple[str, ...], ...]]) -> None:
    name, options = command
    text = plain(pages / (f"ociruntime-{name}.1" if name else "ociruntime.1"))
    for option in options:
        head = rf"(?m)^(-{option[1]}, )?--{option[0]}( {re.escape(option[3])})?$"
        assert bool(re.search(head, text)) == bool(option[4]), option


def test_main_page_leads_to_the_others(pages: Path) -> None:
    text = plain(pages / "ociruntime.1")
    for name in NAMES:
        assert text.count(f"ociruntime-{name}(1)") == 2  # in its group, and below SEE ALSO


@pytest.mark.parametrize("file", FILES)
def test_groff_has_no_complaint(pages: Path, file: str) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    command = ["groff", "-man", "-Tutf8", "-ww", str(pages / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    bare = re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout)
    assert max(map(len, bare.splitlines())) <= 80


@pytest.mark.parametrize("file", FILES)
def test_mandoc_has_no_complaint(pages: Path, file: str) -> None:
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    command = ["mandoc", "-T", "lint", "-W", "warning", str(pages / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    complaints = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert complaints == []
