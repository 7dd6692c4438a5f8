"""Exec processes in a container, started through the daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ociruntime.manager.client.connection import Connection
from ociruntime.manager.client.websocket import TEXT, open_websocket
from tests.support import processes
from tests.support.daemon import Daemon
from tests.support.daemon_clients import client, command, shell, terminal


def test_exec(daemon: Daemon, shell_root: str) -> None:
    (daemon.root.parent / "shell" / "bin" / "id").symlink_to("busybox")
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    done = daemon.ctl("exec", "c", *shell("echo out; echo err >&2; exit 7"))
    assert (done.status, done.out, done.err) == (7, "out\n", "err\n")
    words = ("-e", "A=a b", "-w", "/tmp", "-u", "33:44")
    done = daemon.ctl("exec", *words, "c", *shell('echo "$A $(pwd) $(id -u):$(id -g)"'))
    assert done.ok().out == "a b /tmp 33:44\n"
    with client(daemon, "exec", "-i", "c", "/bin/cat") as one:
        out, _ = one.communicate(b"x" * 500_000, timeout=60)
        assert (one.returncode, len(out)) == (0, 500_000)


def test_exec_that_writes_more_than_it_reads(daemon: Daemon, shell_root: str) -> None:
    """A client keeps reading while it sends."""
    (daemon.root.parent / "shell" / "bin" / "hexdump").symlink_to("busybox")
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    data = bytes(n * 7 % 251 for n in range(5_000_000))
    with client(daemon, "exec", "-i", "c", "hexdump", "-C") as one:
        out, err = one.communicate(data, timeout=120)
    assert (one.returncode, err) == (0, b"")
    lines = out.splitlines()
    assert len(lines) == len(data) // 16 + 1
    assert int(lines[-1], 16) == len(data)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_exec_with_input_that_nobody_reads(
    daemon: Daemon, shell_root: str, number: signal.Signals
) -> None:
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    script = "echo ready; exec sleep 1000"
    pipe = subprocess.PIPE
    words = command(daemon, "exec", "-i", "c", *shell(script))
    with open("/dev/zero", "rb") as zeros, subprocess.Popen(words, stdin=zeros, stdout=pipe) as one:
        try:
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n"
            assert processes.until(lambda: is_asleep(one.pid))
            one.send_signal(number)
            assert one.wait(30) == 128 + number
        finally:
            one.kill()


def is_asleep(pid: int) -> bool:
    """Return whether the process has been waiting for some time."""
    before = processor_time(pid)
    time.sleep(0.2)
    return processor_time(pid) == before


def processor_time(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]


def test_exec_that_is_refused(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    for options in ((), ("-i",), ("-d",)):
        missing = daemon.ctl("exec", *options, "c", "/no/program")
        assert missing.out == ""
        assert missing.err.count("/no/program") == 1, "it is said once"
        assert missing.err.startswith("ocictl: ")
    assert daemon.ctl("exec", "c", "/no/program").status == 127
    assert daemon.ctl("exec", "c", "/tmp").status == 126
    assert daemon.ctl("exec", "nobody", "true").status == 125
    daemon.verb("c", "stop?seconds=0").ok()
    stopped = daemon.ctl("exec", "c", "/bin/true")
    assert stopped.status == 125
    assert "stopped" in stopped.err


def asked(daemon: Daemon, *messages: object) -> dict[str, Any]:
    """Send messages to ``exec`` in container c; return the last answer."""
    return asked_by_bytes(daemon, *(json.dumps(message).encode() for message in messages))


def asked_by_bytes(daemon: Daemon, *messages: bytes) -> dict[str, Any]:
    """Do the same with messages that need not be JSON."""
    socket = open_websocket(Connection(str(daemon.socket)), "/v1/containers/c/exec")
    told: dict[str, Any] = {}
    try:
        for message in messages:
            socket.send(TEXT, message)
        while not socket.is_closed:
            told = (
                [json.loads(data) for kind, data in socket.receive() if kind == TEXT] or [told]
            )[-1]
    finally:
        socket.close()
    return told


def test_exec_of_what_no_command_line_can_have(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for wanted in (
        {"command": ["a\0b"]},
        {"command": ["a\ud800b"]},
        {"command": ["true"], "user": "0\0"},
        {"command": ["true"], "working_dir": "/\0"},
        {"command": ["true"], "env": ["A=\ud800"]},
        {"command": ["true", "x" * 200_000]},
    ):
        assert asked(daemon, wanted)["error"]["code"] in ("bad_request", "failed")
    killed = asked(daemon, {"command": ["sleep", "50"]}, {"signal": 9})["error"]
    assert (killed["code"], "KILL" in killed["message"]) == ("bad_request", True)
    assert processes.until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= before)


@pytest.mark.parametrize("message", [b"[" * 60_000, b"", b"{", b"[]", b"5", b'{"command": {}}'])
def test_exec_of_what_is_no_request(daemon: Daemon, shell_root: str, message: bytes) -> None:
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    assert asked_by_bytes(daemon, message)["error"]["code"] == "bad_request"
    deep = asked_by_bytes(daemon, b'{"command": ["/bin/sleep", "1"]}', b"[" * 60_000)
    assert deep == {"exit_code": 0}, "later unknown messages are ignored"


def test_exec_at_a_terminal(daemon: Daemon, shell_root: str) -> None:
    (daemon.root.parent / "shell" / "bin" / "stty").symlink_to("busybox")
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    with terminal(daemon, "exec", "-it", "c", "/bin/sh", rows=31, columns=99) as one:
        one.terminal.write("stty size; echo do''ne\r")
        assert "31 99" in one.terminal.read_until("done")
        one.terminal.resize(20, 70)

        def is_resized() -> bool:
            one.terminal.write("stty size\r")
            one.terminal.take()
            return b"20 70" in one.terminal.seen

        assert processes.until(is_resized)
        one.terminal.write("exit 6\r")
        assert one.wait() == 6


def test_exec_in_the_background(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    daemon.ctl("exec", "-d", "c", *shell("echo told >/tmp/told; sleep 60")).ok()
    assert processes.until(lambda: daemon.ctl("exec", "c", "cat", "/tmp/told").out == "told\n")
    assert "/no/program" in daemon.ctl("exec", "-d", "c", "/no/program").err


def test_a_client_that_goes_ends_its_program(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c", rootfs=shell_root, command=["/bin/sleep", "60"])
    script = "echo $$ >/tmp/pid; exec sleep 77"
    with client(daemon, "exec", "-i", "c", *shell(script)):
        read = ("exec", "c", "cat", "/tmp/pid")
        assert processes.until(lambda: daemon.ctl(*read).out != "")
    alive = ("exec", "c", *shell("kill -0 $(cat /tmp/pid)"))
    assert processes.until(lambda: daemon.ctl(*alive).status != 0)
