"""State that no snapshot may hold, because all processes started from it would share it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEFT = {
    "an open file": ("import os; fd = os.open('/dev/null', os.O_RDONLY)", "1 open files"),
    "a socket": ("import socket; kept = socket.socket()", "1 open files"),
    "a thread": (
        "import _thread, time; _thread.start_new_thread(time.sleep, (60,))",
        "1 threads",
    ),
    "a TLS context": ("import ssl; kept = ssl.create_default_context()", "SSLContext"),
    "an event loop": (
        "import asyncio; kept = asyncio.new_event_loop(); kept.close()",
        "SelectorEventLoop",
    ),
    "nothing": ("import random, ssl, asyncio, socket, threading, logging", ""),
}
CHECK = """
import os
from ociruntime.startup.saved_process import _refuse_unfit
try:
    _refuse_unfit(-1)
except OSError as error:
    print(error.strerror)
os._exit(0)
"""


@pytest.mark.parametrize(("code", "expected"), LEFT.values(), ids=LEFT)
def test_what_modules_leave_behind(code: str, expected: str) -> None:
    command = [sys.executable, "-c", f"{code}\n{CHECK}"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    if expected:
        assert expected in done.stdout
    else:
        assert done.stdout == ""
