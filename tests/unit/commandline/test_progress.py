"""The bar for long work."""

from __future__ import annotations

import os
import pty

import pytest

from ociruntime.commandline.progress import Bar, amount, line


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_500_000, "1.5 MB"), (999_960, "1.0 MB")],
)
def test_amount(size: int, text: str) -> None:
    assert amount(size) == text


def test_line() -> None:
    assert line("copying", 5, 0) == "copying  5 B"
    assert line("x", 1, 2) == f"x [{'#' * 12}{'.' * 12}]  50%  1 B of 2 B"
    assert "100%" in line("x", 3, 2)


def test_only_a_terminal_sees_it(capfd: pytest.CaptureFixture[str]) -> None:
    with Bar() as bar:
        bar("copying", 1, 2)
    assert capfd.readouterr().err == ""


def test_on_a_terminal() -> None:
    master, slave = pty.openpty()
    saved = os.dup(2)
    try:
        os.dup2(slave, 2)
        with Bar() as bar:
            for done in range(1000):
                bar("copying", done, 999)
    finally:
        os.dup2(saved, 2)
        os.close(saved)
    text = ""
    while not text.endswith("\r\x1b[K") or "100%" not in text:
        text += os.read(master, 1 << 16).decode()
    os.close(master)
    os.close(slave)
    assert text.startswith("\rcopying [")
    assert "100%" in text
    assert text.endswith("\r\x1b[K")
    assert text.count("copying") < 100
