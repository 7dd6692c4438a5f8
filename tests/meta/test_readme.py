"""README.md lists all commands."""

from __future__ import annotations

import re

from ociruntime.runtime.cli.help import PROGRAM
from tests.support import project


def test_every_command_is_in_the_table() -> None:
    page = (project.ROOT / "README.md").read_text(encoding="utf-8")
    table = page.partition("| commands | for |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([\w-]+)`", table))
    assert named == set(PROGRAM.names)
