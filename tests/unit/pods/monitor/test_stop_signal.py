"""The stop signal of an image: a valid signal number, whatever the image declares."""

from __future__ import annotations

import signal

import pytest

from ociruntime.pods.monitor.app_run import stop_signal


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("9", 9), ("09", 9), ("64", 64), ("QUIT", 3), ("SIGQUIT", 3), ("SIGPOLL", 29)),
        *(("SIGRTMIN", 34), ("SIGRTMIN+3", 37), ("RTMIN+3", 37), ("SIGRTMIN+30", 64)),
        *(("SIGRTMAX", 64), ("SIGRTMIN+0", 34)),
    ],
)
def test_meant(text: str, number: int) -> None:
    assert stop_signal(text) == number
    assert number in signal.valid_signals()


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "-9", "999", "32", "9" * 5000, "²", "+9", "SIG", "SIG9", "sig_unblock"),
        *("SIG_UNBLOCK", "_UNBLOCK", "SIG_DFL", "_DFL", "SIGNONE", "NSIG", "SIGEV_NONE"),
        *("SIGRTMIN+99", "SIGRTMIN+31", "SIGRTMIN+x", "SIGRTMIN+²", "SIGRTMIN+", "SIGRTMIN+-3"),
        *("XRTMIN+3", "SIGRTMIN+1+2", "SIGRTMIN+" + "9" * 5000),
    ],
)
def test_not_to_be_understood(text: str) -> None:
    assert stop_signal(text) == signal.SIGTERM
