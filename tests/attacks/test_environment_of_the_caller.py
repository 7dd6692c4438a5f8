"""The environment comes from a caller who may have fewer privileges than the program (sudo).

Variables for tests must have no effect in production.  No program may be found through the
environment if another user can change it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import project
from tests.support.ordinary_user import UID
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

PACKAGE = project.PACKAGE
MARKER = "_faults"
CALL = """
import sys
sys.path.insert(0, sys.argv[1])
from ociruntime.base.fault_injection import fault
from ociruntime.pods.monitor.hibernation import first_timeout
fault("point")
print(first_timeout())
"""
FIND = """
import sys
sys.path.insert(0, sys.argv[1])
from ociruntime.base.errors import RuntimeFailure
from ociruntime.runtime.handlers.wasm import handle
from ociruntime.images.trust.openpgp import verify
from ociruntime.pods.bundle.runtime_calls import find_runtime
from ociruntime.runtime.lifecycle.ps import _run_ps
calls = {
    "gpgv": lambda: verify(b"x", b"y", []),
    "ps": lambda: _run_ps(["-ef"]),
    "iwasm": lambda: handle({"process": {"args": ["a.wasm"]}}, ""),
    "no-such-runtime": lambda: find_runtime("no-such-runtime"),
}
try:
    print(calls[sys.argv[2]]())
except RuntimeFailure as failure:
    print(failure)
"""


@pytest.fixture
def installed(work: Path) -> Path:
    """Return the package's directory as installed from a wheel, without ``./dev build``."""
    directory = work / "lib"
    package = directory / "ociruntime"
    package.mkdir(parents=True)
    for entry in PACKAGE.iterdir():
        if entry.name != MARKER:
            (package / entry.name).symlink_to(entry)
    return directory


def python(program: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    site = next(path for path in sys.path if path.endswith("site-packages"))
    run = f"import sys; sys.path.append({site!r})\n{program}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", run, *args],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@judge_by("ociruntime")
def test_faults_outside_of_a_test_build(runtime: Runtime, installed: Path) -> None:
    variables = {"OCIPOD_FAULT": "point:kill", "OCIPOD_IDLE_TIMEOUT": "0"}
    done = python(CALL, str(installed), **variables)
    assert (done.returncode, done.stdout) == (0, "5.0\n"), done
    (installed / "ociruntime" / MARKER).touch()  # and this is what the variables do
    assert python(CALL, str(installed), **variables).returncode == -9
    assert float(python(CALL, str(installed), OCIPOD_IDLE_TIMEOUT="0").stdout) == 0


@judge_by("ociruntime")
@pytest.mark.parametrize("mode", [0o755, 0o777], ids=["of another user", "writable by all"])
@pytest.mark.parametrize("name", ["gpgv", "ps", "iwasm", "no-such-runtime"])
def test_programs_on_a_path_of_the_callers(
    runtime: Runtime, installed: Path, work: Path, name: str, mode: int
) -> None:
    place = work / "bin"
    place.mkdir()
    planted = place / name
    planted.write_text(f"#!/bin/sh\necho sprung >{work}/sprung\n")
    planted.chmod(0o755)
    if mode == 0o755:
        os.chown(place, UID, UID)
    place.chmod(mode)
    done = python(FIND, str(installed), name, PATH=f"{place}:{os.environ['PATH']}")
    assert done.returncode == 0, done
    assert str(place) not in done.stdout + done.stderr
    assert not (work / "sprung").exists()
