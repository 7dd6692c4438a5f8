"""``ocictl`` starts as fast as it does because it leaves these alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import project

HEAVY = {
    *("aiohttp", "asyncio", "argparse", "dataclasses", "email", "http", "logging", "socket"),
    *("ssl", "subprocess", "tempfile", "typing", "urllib"),
}


@pytest.mark.parametrize(
    "words",
    [
        *(["ps"], ["start", "x"], ["stop", "x"], ["rm", "x"], ["inspect", "x"], ["images"]),
        *(
            ["run", "-d", "x"],
            ["container", "list"],
            ["container", "create", "x", "--image=x", "y"],
        ),
    ],
    ids=" ".join,
)
def test_what_a_command_loads(words: list[str]) -> None:
    interpreter = [os.path.realpath(sys.executable), "-I", "-S", "-B", "-X", "importtime"]
    program = str(project.PACKAGE / "manager" / "client" / "__main__.py")
    done = subprocess.run(
        [*interpreter, program, "--socket=/nowhere/ocid.sock", *words],
        capture_output=True,
        text=True,
    )
    assert "connect to /nowhere/ocid.sock" in done.stderr
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "ociruntime.manager.client.connection" in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
