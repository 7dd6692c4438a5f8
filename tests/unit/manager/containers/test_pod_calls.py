"""How the daemon starts ``ocipod``."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

import pytest

from ociruntime.manager.containers import pod_calls
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.pod_calls import Programs
from ociruntime.pods.manifest.request import AppRequest

# Prints its arguments, and what it can read.
READER = """
import json, sys
print(json.dumps([open('/proc/self/cmdline').read().split(chr(0)), sys.stdin.read()]))
"""


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "reader.py"
    program.write_text(READER)
    monkeypatch.setattr(pod_calls, "_ocipod", lambda: [sys.executable, str(program)])


def run(request: AppRequest | None) -> tuple[list[str], str]:
    async def output() -> str:
        return await Programs(Settings()).ocipod("verb", request=request)

    arguments, text = json.loads(asyncio.run(output()))
    return arguments, text


def test_a_request_is_read_from_standard_input() -> None:
    """Variables may be long or secret, and every user can read arguments."""
    request = AppRequest(image="i", environment={"SECRET": "x" * (1 << 20)})
    arguments, text = run(request)
    assert json.loads(text) == {"image": "i", "environment": request.environment}
    assert "xxx" not in "".join(arguments)


def test_without_a_request_there_is_nothing_to_read() -> None:
    assert run(None)[1] == ""


def test_a_command_gets_the_limit_of_descriptors_that_the_daemon_was_started_with() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert f"--nofile={soft}:{hard}" in run(None)[0]
