"""Programs for containers: shell scripts, and a dialogue with a shell in a terminal."""

from __future__ import annotations

from tests.engines.command import await_end
from tests.support.terminal import PtyCommand, Terminal

WAITS_FOR_TERM = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done"
WAITS_FOR_USR1 = WAITS_FOR_TERM.replace("trap 'exit 3' TERM", "trap 'exit 9' USR1")
MIB = 1 << 20


def _resize_until_seen(terminal: Terminal) -> None:
    """Resize repeatedly: docker's client misses resizes before it handles SIGWINCH."""
    for _ in range(3):
        try:
            terminal.read_until("resized\r", 6)
        except AssertionError:
            terminal.resize(22, 54)
            terminal.resize(22, 55)
        else:
            return
    terminal.read_until("resized\r")


def converse(command: PtyCommand) -> None:
    """Check that a shell has the terminal and its size, and that its exit status is returned."""
    terminal = command.terminal
    try:
        terminal.read_until("# ")
        terminal.write("tty; stty size; echo e''nd\n")
        seen = terminal.read_until("end\r")
        assert "/dev/pts/0" in seen
        assert "33 101" in seen
        terminal.resize(22, 55)
        terminal.write('until [ "$(stty size)" = "22 55" ]; do sleep 0.02; done; echo re""sized\n')
        _resize_until_seen(terminal)
        terminal.write("exit 5\n")
        await_end(command.pid)
        assert command.wait() == 5
    finally:
        command.close()
