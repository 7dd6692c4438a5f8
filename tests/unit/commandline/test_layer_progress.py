"""The lines of a pull."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import threading

import pytest

from ociruntime.commandline.layer_progress import Layers, duration


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1s"), (7.5, "8s"), (124, "2m05s"), (11_400, "3h10m"), (1e30, "100h00m")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_for_each_layer() -> None:
    clock = Clock()
    layers = Layers("busybox", quiet=True, clock=clock)
    for number in (1, 2, 3):
        layers(f"fetching layer {number} of 3", 0, 8_000_000)
    clock.now += 1
    layers("fetching layer 1 of 3", 2_000_000, 8_000_000)
    layers("fetching layer 2 of 3", 8_000_000, 8_000_000)
    assert [line.split() for line in layers.picture(20)] == [
        "layer 1 of 3 fetching [#####...............] 2.0 MB of 8.0 MB 2.0 MB/s 4s left".split(),
        "layer 2 of 3 fetched 8.0 MB".split(),
        "layer 3 of 3 waiting 8.0 MB".split(),
    ]
    layers("unpacking layer 2 of 3", 4_000_000, 0)
    assert layers.picture(20)[1].split() == "layer 2 of 3 unpacking 4.0 MB".split()
    # What is under way comes first where not all lines fit.
    assert [line.split()[1] for line in layers.picture(2)] == ["1", "complete,"]
    assert layers.picture(1) == ["0 complete, 1 waiting"]


def test_a_rate_is_that_of_the_last_seconds() -> None:
    clock = Clock()
    layers = Layers("busybox", quiet=True, clock=clock)
    for second in range(60):
        clock.now = 100.0 + second
        done = second * 1000 if second < 50 else 50_000 + (second - 50) * 10
        layers("fetching layer 1 of 1", done, 100_000)
    assert "10 B/s" in layers.picture(9)[0]


def test_plain_lines_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Layers("a\x1b[1m", clock=clock) as layers:
        layers("fetching layer 1 of 2", 0, 10)
        layers("fetching layer 1 of 2", 10, 10)
        layers("fetching layer 1 of 2", 10, 10)
        layers("fetching layer 2 of 2\x1b[2J", 2000, 2000)
        layers("unpacking layer 1 of 2", 5, 0)
        clock.now += 2
        layers.finish()
    lines = capfd.readouterr().err.splitlines()
    assert [line.split() for line in lines] == [
        "layer 1 of 2 fetched 10 B".split(),
        "layer 2 of 2\\x1b[2J fetched 2.0 kB".split(),
        "a\\x1b[1m: 2 layers, 2.0 kB in 2.0s (1.0 kB/s)".split(),
    ]


def test_what_is_there_already(capfd: pytest.CaptureFixture[str]) -> None:
    with Layers("busybox") as layers:
        layers.finish()
    assert capfd.readouterr().err == "busybox: up to date\n"
    with Layers("busybox", quiet=True) as layers:
        layers("fetching layer 1 of 1", 10, 10)
        layers.finish()
    assert capfd.readouterr().err == ""


def test_one_line_remains_on_a_terminal() -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    parts: list[bytes] = []
    reader = threading.Thread(target=_read, args=(master, parts))
    reader.start()
    saved = os.dup(2)
    clock = Clock()
    try:
        os.dup2(slave, 2)
        with Layers("busybox", clock=clock) as layers:
            for done in range(0, 101, 10):
                for number in range(1, 60):  # more than the terminal has lines
                    clock.now += 0.01
                    layers(f"fetching layer {number} of 59", done, 100)
            layers.finish()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(slave)
        reader.join()
        os.close(master)
    text = b"".join(parts).decode()
    assert re.search(r"\x1b\[\d+A\x1b\[Jbusybox: 59 layers, 5.9 kB in [\d.]+s \(.*/s\)\r\n$", text)
    # The display never has more lines than the terminal.
    assert max(int(up) for up in re.findall(r"\x1b\[(\d+)A", text)) <= 23


def _read(master: int, parts: list[bytes]) -> None:
    """Read until the other end is closed."""
    try:
        while part := os.read(master, 1 << 16):
            parts.append(part)
    except OSError:
        return


def test_too_many_layers() -> None:
    layers = Layers("hostile", quiet=True)
    for number in range(20_000):
        layers(f"fetching layer {number}", 0, 1)
    assert layers.picture(2) == ["0 complete, 10000 waiting"]
