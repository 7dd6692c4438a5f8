"""Commands of ``ocictl`` that keep running, with pipes or a terminal."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.daemon import OCICTL, Daemon
from tests.support.terminal import PtyCommand


def command(daemon: Daemon, *words: str) -> list[str]:
    return [str(OCICTL), f"--socket={daemon.socket}", *words]


@contextmanager
def client(daemon: Daemon, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command with pipes as its streams; it is killed after the test."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(daemon, *words), stdin=pipe, stdout=pipe, stderr=pipe)
    with process:
        try:
            yield process
        finally:
            process.kill()
            daemon.pods.look()


@contextmanager
def terminal(daemon: Daemon, *words: str, **size: int) -> Iterator[PtyCommand]:
    one = PtyCommand(command(daemon, *words), **size)
    try:
        yield one
    finally:
        one.close()
        daemon.pods.look()


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]
