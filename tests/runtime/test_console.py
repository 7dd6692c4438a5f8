"""Terminals: sent over a console socket, and used in the foreground."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bundle import Bundle
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer, Probe
from tests.support.refusal import needs_joined_proc
from tests.support.terminal import ConsoleSocket, PtyCommand


@pytest.fixture
def console(work: Path) -> Iterator[ConsoleSocket]:
    one = ConsoleSocket(work / "console.sock")
    yield one
    one.close()


def with_terminal(bundle: Bundle, script: str) -> Bundle:
    bundle.process["terminal"] = True
    return bundle.shell(script)


def test_create_sends_the_master(
    container: MakeContainer, bundle: MakeBundle, console: ConsoleSocket
) -> None:
    """CFG-PROC-02: one message with one descriptor, then end of file."""
    script = "tty; echo size $(stty size); read line; echo got $line; exit 5"
    shell = with_terminal(bundle(), script)
    shell.process["consoleSize"] = {"height": 33, "width": 101}
    one = container(shell)
    one.create("--console-socket", str(console.path)).silent()
    terminal = console.receive()
    one.start().silent()
    seen = terminal.read_until("size 33 101")
    assert "/dev/pts/0" in seen or "/dev/console" in seen
    terminal.write("hello\n")
    terminal.read_until("got hello")
    terminal.read_all()
    assert one.wait() == 5
    terminal.close()
    assert one.output == ""


@pytest.mark.parametrize("shared_pids", [False, pytest.param(True, marks=needs_joined_proc)])
def test_container_owns_the_terminal(
    container: MakeContainer, bundle: MakeBundle, console: ConsoleSocket, shared_pids: bool
) -> None:
    """It leads the session, so that ^C reaches it."""
    script = "trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    made = with_terminal(bundle(), script)
    if shared_pids:
        made.namespace("pid", f"/proc/{container().started().pid}/ns/pid")
    one = container(made)
    one.create("--console-socket", str(console.path)).silent()
    terminal = console.receive()
    one.start().silent()
    terminal.read_until("ready")
    terminal.write("\x03")
    terminal.read_until("interrupted")
    assert one.wait() == 3
    terminal.close()


def test_dev_console_is_the_terminal(
    container: MakeContainer, bundle: MakeBundle, console: ConsoleSocket
) -> None:
    """LNX-DEFDEV-02 and -03, and stdin, stdout and stderr are all the slave."""
    script = """
        echo written to the console > /dev/console
        test -c /dev/console && echo console is a device
        echo ptmx $(readlink /dev/ptmx)
        for fd in 0 1 2; do test -t $fd && echo terminal $fd; done
        echo done; sleep 100
    """
    one = container(with_terminal(bundle(), script))
    one.create("--console-socket", str(console.path)).silent()
    terminal = console.receive()
    one.start().silent()
    seen = terminal.read_until("done")
    for words in ("written to the console", "console is a device", "ptmx pts/ptmx"):
        assert words in seen
    for fd in (0, 1, 2):
        assert f"terminal {fd}" in seen
    terminal.close()


def test_no_dev_console_without_a_terminal(probe: Probe) -> None:
    facts = probe()
    assert facts["tty"] is None
    assert "console" not in facts["devices"]


def test_console_size_without_a_terminal_is_ignored(probe: Probe, bundle: MakeBundle) -> None:
    """CFG-PROC-03."""
    plain = bundle()
    plain.process["consoleSize"] = {"height": 1, "width": 1}
    assert probe(plain)["tty"] is None


def test_terminal_for_an_unprivileged_user(
    container: MakeContainer, bundle: MakeBundle, console: ConsoleSocket
) -> None:
    """The slave belongs to the user, who can reopen it by its name."""
    shell = with_terminal(bundle(), "echo again > $(tty); id -u; echo done; sleep 100")
    shell.process["user"] = {"uid": 1000, "gid": 1000}
    one = container(shell)
    one.create("--console-socket", str(console.path)).silent()
    terminal = console.receive()
    one.start().silent()
    seen = terminal.read_until("done")
    assert "again" in seen
    assert "1000" in seen
    terminal.close()


def test_terminal_needs_a_socket(container: MakeContainer, bundle: MakeBundle) -> None:
    """A-109."""
    container(with_terminal(bundle(), "true")).create().failed("console")


@deviates(crun="ignores the socket")
def test_socket_needs_a_terminal(container: MakeContainer, console: ConsoleSocket) -> None:
    container().create("--console-socket", str(console.path)).failed()


def test_socket_that_is_not_there(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    one = container(with_terminal(bundle(), "true"))
    one.create("--console-socket", str(work / "missing")).failed("missing")


def test_detached_run_sends_the_master(
    container: MakeContainer, bundle: MakeBundle, console: ConsoleSocket
) -> None:
    one = container(with_terminal(bundle(), "echo here; sleep 100"))
    one.create("--detach", "--console-socket", str(console.path), verb="run").ok()
    terminal = console.receive()
    terminal.read_until("here")
    terminal.close()


def run_in_pty(container: MakeContainer, bundle: Bundle, rows: int, columns: int) -> PtyCommand:
    one = container(bundle)
    one.bundle.save()
    command = one.runtime.command("run", "--bundle", str(bundle.path), one.id)
    return PtyCommand(command, rows, columns)


def test_line_feeds_stay_line_feeds(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """The caller's terminal adds carriage returns; a file gets the program's output."""
    one = container(with_terminal(bundle(), "echo one; echo two"))
    one.bundle.save()
    run = one.runtime.command("run", "--bundle", str(one.bundle.path), one.id)
    shown = PtyCommand(run)
    assert shown.wait() == 0
    assert shown.terminal.seen == b"one\r\ntwo\r\n"
    shown.close()
    written = PtyCommand(["/bin/sh", "-c", f"exec {shlex.join(run)} >{work}/file"])
    assert written.wait() == 0
    assert (work / "file").read_bytes() == b"one\ntwo\n"
    written.close()


def test_run_in_a_pty(container: MakeContainer, bundle: MakeBundle) -> None:
    """Exit status and window size are passed on."""
    script = "echo size $(stty size); read line; echo got $line; exit 42"
    command = run_in_pty(container, with_terminal(bundle(), script), 31, 97)
    command.terminal.read_until("size 31 97")
    command.terminal.write("words\r")
    command.terminal.read_until("got words")
    assert command.wait() == 42
    command.close()


def test_run_in_a_pty_follows_the_window(container: MakeContainer, bundle: MakeBundle) -> None:
    script = """
        trap 'echo now $(stty size)' WINCH; trap 'exit 8' TERM
        echo ready; while :; do sleep 0.05; done
    """
    command = run_in_pty(container, with_terminal(bundle(), script), 20, 60)
    command.terminal.read_until("ready")
    command.terminal.resize(44, 122)
    command.terminal.read_until("now 44 122")
    os.kill(command.pid, signal.SIGTERM)
    assert command.wait() == 8
    command.close()


def test_run_in_a_pty_is_raw_and_gives_the_mode_back(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """^C is a byte for the container's terminal, not a signal to the runtime."""
    script = "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    command = run_in_pty(container, with_terminal(bundle(), script), 24, 80)
    command.terminal.read_until("ready")
    assert command.terminal.is_raw()
    command.terminal.write("\x03")
    command.terminal.read_until("interrupted")
    assert command.wait() == 9
    command.close()


def test_run_with_terminal_but_no_tty(container: MakeContainer, bundle: MakeBundle) -> None:
    """In a separate session, there is not even /dev/tty."""
    one = container(with_terminal(bundle(), "true"))
    one.bundle.save()
    with (one.bundle.path / "err").open("w+b") as err:
        process = one.runtime.popen(
            "run", "--bundle", str(one.bundle.path), one.id, stderr=err, start_new_session=True
        )
        assert process.wait(20) == 1
        err.seek(0)
        assert err.read()
