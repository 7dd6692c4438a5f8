"""Only the end of a hook's output is kept."""

from __future__ import annotations

import os

import pytest

from tests.support import processes
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer


def printed(pid: int) -> int:
    """Return the size of the memory file that a hook prints to; -1 if there is none."""
    stdout = f"/proc/{pid}/fd/1"
    try:
        found = os.stat(stdout).st_size
        return found if os.readlink(stdout).startswith("/memfd:") else -1
    except OSError:
        return -1


@deviates(runc="reads it all", crun="hands its own standard streams on")
@pytest.mark.parametrize("kind", ["createRuntime", "createContainer"])
def test_output_without_end(container: MakeContainer, bundle: MakeBundle, kind: str) -> None:
    """It is truncated while the hook runs: on the host by Python, inside by the executor."""
    one = bundle()
    mark = one.path / "printed"
    script = f"head -c 10000000 /dev/zero; echo >{mark}; exec sleep 600"
    hook = {"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/usr/bin:/bin"]}
    one.hooks[kind] = [{**hook, "timeout": 30}]
    made = container(one)
    one.save()
    process = made.runtime.popen("create", "--bundle", str(one.path), made.id)
    try:
        assert processes.until(mark.exists)

        def cut() -> bool:
            sizes = [printed(pid) for pid in processes.descendants()]
            return 0 < max(sizes) <= 1 << 20

        assert processes.until(cut)
    finally:
        process.terminate()
        process.wait()
    made.runtime("delete", "--force", made.id).silent()
