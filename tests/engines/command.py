"""Run engines' commands in a process that reaps orphans at once, like a host's init."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.support.runtime import Result, content
from tests.support.terminal import PtyCommand


def execute(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
) -> Result:
    """Run a command to its end, with its output in files, which a container may keep open."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, env=env, cwd=cwd, stdin=stdin, stdout=out, stderr=err)
        try:
            await_end(process.pid)
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
        return Result(command, process.returncode, content(out), content(err))


def in_terminal(command: Sequence[str], env: Mapping[str, str]) -> PtyCommand:
    """Start a command in a pty of 33 rows and 101 columns."""
    words = [f"{name}={value}" for name, value in env.items()]
    return PtyCommand(["/usr/bin/env", "-i", *words, *command], 33, 101)


def await_end(pid: int) -> None:
    """Wait until the child has exited, but do not reap it.

    Other children that exit are reaped: podman treats a zombie as a working conmon, and waits 20
    seconds for its output.
    """
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        if ended.si_pid == pid:
            return
        os.waitpid(ended.si_pid, 0)
