"""The commands in README.md that need root print the output shown there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support import readme
from tests.support.peers import judge_by
from tests.support.refusal import needs_joined_proc
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")

# What a host lacks, no page can foretell.
DEPENDS_ON_THE_HOST = ("ociruntime check",)


@needs_joined_proc
def test_session(runtime: Runtime, work: Path) -> None:
    """All commands run in one shell, started in the reader's home directory."""
    session = readme.Session(without="Named containers")
    script = session.script()
    # A fresh directory is one beside the last.
    script = re.sub(r"(?m)^mkdir ", f"cd {work} && mkdir ", script)
    state = work / "run"
    bin = work / "bin"
    bin.mkdir()
    (bin / "ociruntime").write_text(f'#!/bin/sh\nexec {runtime.path} --root {state} "$@"\n')
    options = f"--runtime {runtime.path} --dir {work / 'pods'}"
    ocipod = runtime.path.with_name("ocipod")
    (bin / "ocipod").write_text(f'#!/bin/sh\nexec {ocipod} {options} "$@"\n')
    for program in bin.iterdir():
        program.chmod(0o755)
    environment = {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(work)}
    try:
        with (work / "out").open("w+") as out:
            subprocess.run(
                ["sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            out.seek(0)
            text = out.read()
    finally:
        for id in ("first", "second"):
            subprocess.run([str(bin / "ociruntime"), "delete", "--force", id], check=True)
    session.check(text, work, DEPENDS_ON_THE_HOST)
