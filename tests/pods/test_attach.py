"""The streams and terminals of running apps, used by other processes and in the foreground."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell
from tests.support.terminal import PtyCommand

ECHO = "while read -r line; do echo got $line; [ $line = end ] && exit 7; done; exit 9"


def start(ocipod: Ocipod, work: Path, *options: str, script: str = ECHO) -> str:
    """Return the UUID of a pod with an app ``a`` whose streams are set by ``options``."""
    words = ("run", "--detach", "--net=none", busybox(work), "--name=a", *options)
    return ocipod(*words, *shell(script)).ok().out.strip()


def test_streams(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "--stdin=stream")
    assert ocipod("attach", "--mode=list", uuid).ok().out.split() == ["stdin", "stdout", "stderr"]
    one = ocipod.popen("attach", uuid, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with (work / "two").open("wb") as file:
        two = ocipod.popen("attach", "--mode=stdout", uuid, stdout=file)
    stdin, stdout = one.stdin, one.stdout
    assert stdin is not None
    assert stdout is not None

    def say(line: bytes) -> None:
        stdin.write(line + b"\n")
        stdin.flush()

    def is_heard_by_two() -> bool:
        say(b"hello")
        return b"got hello\n" in (work / "two").read_bytes()

    # A later client sees only later output.
    assert processes.until(is_heard_by_two)
    say(b"end")
    assert (one.wait(10), two.wait(10)) == (7, 7)
    assert stdout.read() == ocipod("logs", uuid).out.encode()
    assert (work / "two").read_bytes().endswith(b"got hello\ngot end\n")


def test_the_end_of_input(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "--stdin=stream")
    assert ocipod("attach", uuid, stdin=subprocess.DEVNULL).status == 9


def test_much_input_waits_for_the_app(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "--stdin=stream", script="sleep 1; wc -c")
    file = work / "input"
    file.write_bytes(b"x" * 3_000_000)
    with file.open("rb") as stdin:
        assert ocipod("attach", uuid, stdin=stdin).ok().out == "3000000\n"


def test_refusals(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, script="exec sleep 60")
    ocipod("attach", "--mode=stdin", uuid).failed("stdin")
    ocipod("attach", "--mode=stdin,tty", uuid).failed("--mode")
    ocipod("attach", "--detach-keys=ctrl-p,tab", uuid).failed("--detach-keys")
    ocipod("attach", "--app=b", uuid).failed('no app "b"')
    ocipod("stop", "--force", "--wait", uuid).ok()
    ocipod("attach", uuid).failed("exited")


def test_who_does_not_read_holds_up_nobody(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "--stdin=stream", script="read x; seq 1 400000; exit 3")
    slow = ocipod.popen("attach", uuid, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert slow.stdin is not None
    slow.stdin.write(b"go\n")
    slow.stdin.flush()
    ocipod.wait_for(uuid, "exited")
    assert (ocipod.path(uuid) / "apps" / "a" / "status").read_text() == "3\n"


def test_a_terminal(ocipod: Ocipod, work: Path) -> None:
    script = "stty size; tty; while read -r line; do stty size; echo got $line; done"
    uuid = start(ocipod, work, "--stdin=tty", "--stdout=tty", "--stderr=tty", script=script)
    assert ocipod("attach", "--mode=list", uuid).ok().out == "tty\n"
    one = PtyCommand(ocipod.command("attach", uuid), rows=33, columns=101)
    two = PtyCommand(ocipod.command("attach", uuid, "--mode=tty-out"))
    try:
        assert processes.until(one.terminal.is_raw)
        one.terminal.write("hello\r")
        assert "33 101" in one.terminal.read_until("got hello")
        two.terminal.write("not for the app\r")

        def is_seen_by_two() -> bool:
            one.terminal.write("again\r")
            two.terminal.take()
            return b"got again" in two.terminal.seen

        assert processes.until(is_seen_by_two)
        assert b"got not" not in two.terminal.seen
        one.terminal.resize(20, 70)
        one.terminal.write("size\r")
        assert "20 70" in one.terminal.read_until("got size")
        one.terminal.write("\x10\x11")
        assert one.wait() == 0
        assert ocipod.state(uuid) == "running"
        ocipod("stop", "--force", "--wait", uuid).ok()
        assert two.wait() == 137
    finally:
        one.close()
        two.close()
    assert "got hello" in ocipod("logs", uuid).out


def test_the_foreground_gives_its_terminal(ocipod: Ocipod, work: Path) -> None:
    script = "stty size; read -r line; echo got $line on $TERM; exit 4"
    words = ("run", "--net=none", "--interactive", busybox(work), *shell(script))
    command = PtyCommand(ocipod.command(*words), rows=31, columns=99)
    try:
        assert "31 99" in command.terminal.read_until("31 99")
        assert command.terminal.is_raw()
        command.terminal.write("hello\r")
        command.terminal.read_until("got hello on xterm")
        assert command.wait() == 4
    finally:
        command.close()


def test_the_foreground_gives_its_streams(ocipod: Ocipod, work: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"hello\nend\n")
    os.close(writer)
    words = ("run", "--net=none", "--interactive", busybox(work), *shell(ECHO))
    with os.fdopen(reader, "rb") as stdin:
        done = ocipod(*words, stdin=stdin)
    assert (done.status, done.out) == (7, "got hello\ngot end\n")


def test_a_command_with_a_terminal(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, script="exec sleep 60")
    command = PtyCommand(ocipod.command("enter", uuid))
    try:
        command.terminal.write("echo in$((1+1)); tty; echo on $TERM; exit 6\r")
        assert "/dev/pts/" in command.terminal.read_until("/dev/pts/")
        command.terminal.read_until("on xterm")
        assert command.wait() == 6
    finally:
        command.close()


def test_a_reader_without_room(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "--stdin=stream", script="while sleep 0.05; do echo more; done")
    with Path("/dev/full").open("wb") as full:
        process = ocipod.popen("attach", "--mode=stdout", uuid, stdout=full, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=30)
    assert said == b'ocipod: attach to app "a": no space left on device\n'
    assert process.returncode == 254
