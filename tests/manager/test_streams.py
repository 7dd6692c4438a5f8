"""Streams of containers through the daemon: run, attach, logs, events."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support import processes
from tests.support.daemon import Daemon
from tests.support.daemon_clients import client, command, shell, terminal

COUNT = "i=0; while [ $i -lt 5 ]; do echo line $i; i=$((i+1)); done; echo bad >&2"


def run_words(root: str, *options: str) -> tuple[str, ...]:
    return ("run", "--network=none", f"--rootfs={root}", *options)


# --- run ---


def test_run_in_the_foreground(daemon: Daemon, shell_root: str) -> None:
    """All output arrives, each line on its stream, with the exit code."""
    words = run_words(shell_root, "--name=c", "--")
    done = daemon.ctl(*words, *shell("echo out; echo err >&2; exit 7"))
    assert (done.status, done.out, done.err) == (7, "out\n", "err\n")
    assert daemon.ctl("logs", "c").ok().out == "out\n"
    record = daemon.get("c")
    assert (record["status"], record["exit_code"]) == ("stopped", 7)


def test_run_with_input(daemon: Daemon, shell_root: str) -> None:
    """Input is sent before the container runs, and ended by the client."""
    words = run_words(shell_root, "-i", "--rm", "--name=c", "--", *shell("cat; echo end; exit 3"))
    with client(daemon, *words) as one:
        out, err = one.communicate(b"first\nsecond\n", timeout=60)
    assert (one.returncode, out, err) == (3, b"first\nsecond\nend\n", b"")
    assert processes.until(lambda: daemon.status("c") == "gone")


def test_much_in_both_directions(daemon: Daemon, shell_root: str) -> None:
    data = bytes(n * 7 % 256 for n in range(3_000_000))
    with client(daemon, *run_words(shell_root, "-i", "--rm", "--", "/bin/cat")) as one:
        out, err = one.communicate(data, timeout=120)
    assert (one.returncode, err) == (0, b"")
    assert out == data


def test_run_at_a_terminal(daemon: Daemon, shell_root: str) -> None:
    script = "stty size; while read -r line; do stty size; echo got $line; done; exit 5"
    (daemon.root.parent / "shell" / "bin" / "stty").symlink_to("busybox")
    words = run_words(shell_root, "-it", "--name=c", "--", *shell(script))
    with terminal(daemon, *words, rows=31, columns=99) as one:
        assert "31 99" in one.terminal.read_until("31 99")
        one.terminal.resize(20, 70)
        one.terminal.write("hello\r")
        assert "20 70" in one.terminal.read_until("got hello")
        one.terminal.write("\x10\x11")
        assert one.wait() == 0
        assert not one.terminal.is_raw()
    assert daemon.status("c") == "running"
    with terminal(daemon, "attach", "c") as two:
        assert processes.until(two.terminal.is_raw)
        two.terminal.write("again\r")
        two.terminal.read_until("got again")
        two.terminal.write("\x04")
        assert two.wait() == 5


def test_what_ends_us_ends_the_container(daemon: Daemon, shell_root: str) -> None:
    script = "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with client(daemon, *run_words(shell_root, "--name=c", "--", *shell(script))) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
        one.terminate()
        assert one.wait(30) == 9
        assert one.stdout.read() == b"bye\n"


@contextmanager
def ended_unread(
    daemon: Daemon, root: str, *options: str, size: int, code: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that has written ``size`` bytes and exited, before any of them was read."""
    script = f"head -c {size} /dev/zero; exit {code}"
    words = ("run", f"--rootfs={root}", "--name=c", *options, "--", *shell(script))
    with client(daemon, *words) as one:
        assert processes.until(lambda: "/start 200" in daemon.log.read_text())
        # What was not to happen would have by then.
        daemon.wait_for("c", "stopped", "gone")
        processes.until(lambda: daemon.status("c") == "gone", 1)
        yield one


def test_what_is_read_late_is_there(daemon: Daemon, shell_root: str) -> None:
    """The container removes itself."""
    (daemon.root.parent / "shell" / "bin" / "head").symlink_to("busybox")
    options = ("--rm", "--network=none")
    with ended_unread(daemon, shell_root, *options, size=1_150_000, code=3) as one:
        out, err = one.communicate(timeout=60)
    assert (one.returncode, len(out), err) == (3, 1_150_000, b"")
    assert daemon.list() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("--rm",)])
def test_a_signal_after_the_end(
    daemon: Daemon, shell_root: str, number: signal.Signals, options: tuple[str, ...]
) -> None:
    """The signal reaches no process, and the remaining output is not lost."""
    (daemon.root.parent / "shell" / "bin" / "head").symlink_to("busybox")
    options = ("--network=none", *options)
    with ended_unread(daemon, shell_root, *options, size=1_150_000, code=3) as one:
        one.send_signal(number)
        assert processes.until(lambda: "/kill 4" in daemon.log.read_text())
        out, err = one.communicate(timeout=60)
    assert (one.returncode, len(out), err) == (3, 1_150_000, b"")


def test_run_of_what_cannot_be_run(daemon: Daemon, shell_root: str) -> None:
    missing = daemon.ctl(*run_words(shell_root, "--rm", "--", "/no/program"))
    assert missing.status == 127
    assert "/no/program" in missing.err
    directory = daemon.ctl(*run_words(shell_root, "--rm", "--", "/bin"))
    assert directory.status == 126
    assert daemon.list() == []


# --- attach ---


def test_attach(daemon: Daemon, shell_root: str) -> None:
    script = "while read -r line; do echo got $line; [ $line = end ] && exit 4; done"
    daemon.run("c", rootfs=shell_root, command=shell(script), stdin=True)
    heard = daemon.root.parent / "heard"
    with heard.open("wb") as file, client(daemon, "attach", "c") as one:
        two = subprocess.Popen(command(daemon, "attach", "--no-stdin", "c"), stdout=file)
        assert one.stdin is not None
        stdin = one.stdin

        def is_heard() -> bool:
            stdin.write(b"hello\n")
            stdin.flush()
            return b"got hello\n" in heard.read_bytes()

        # A later client sees only later output.
        assert processes.until(is_heard)
        stdin.write(b"end\n")
        stdin.flush()
        assert (one.wait(30), two.wait(30)) == (4, 4)
    assert heard.read_bytes().endswith(b"got end\n")


@pytest.mark.parametrize("size", ["24", "24,x", "0,80", "24,80,1", "24,99999999"])
def test_attach_with_a_size_that_is_none(daemon: Daemon, shell_root: str, size: str) -> None:
    daemon.create("c", rootfs=shell_root, command=["/bin/true"], tty=True)
    refused = daemon("GET", f"/v1/containers/c/attach?wait=1&size={size}")
    refused.failed(400, f'size: invalid terminal size "{size}" (')


def test_attach_to_what_does_not_run(daemon: Daemon, shell_root: str) -> None:
    daemon.create("new", rootfs=shell_root, command=["/bin/true"])
    daemon.run("old", rootfs=shell_root, command=["/bin/true"])
    daemon.wait_for("old", "stopped")
    for name, status in (("new", "created"), ("old", "stopped")):
        told = f'container "{name}": its status is "{status}"'
        error = daemon("GET", f"/v1/containers/{name}/attach").failed(409, told)
        assert error["code"] == "conflict"
        refused = daemon.ctl("attach", name)
        assert (refused.status, refused.out) == (1, "")
        assert told in refused.err


# --- logs ---


def test_logs(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c", rootfs=shell_root, command=shell(COUNT))
    daemon.wait_for("c", "stopped")
    done = daemon.ctl("logs", "c").ok()
    assert done.out == "".join(f"line {n}\n" for n in range(5))
    assert done.err == "bad\n"
    assert daemon.ctl("logs", "--tail=2", "c").out == "line 4\n"
    assert daemon.ctl("logs", "--since=1h", "--until=30m", "c").out == ""
    stamped = daemon.ctl("logs", "-t", "c").out.splitlines()[0]
    assert stamped.endswith("Z line 0")
    plain = daemon("GET", "/v1/containers/c/logs?stdout=1")
    assert plain.body == done.out.encode()
    daemon("GET", "/v1/containers/c/logs?tail=x").failed(400, "tail")
    daemon("GET", "/v1/containers/nobody/logs").failed(404, "nobody")


def test_logs_that_are_followed(daemon: Daemon, shell_root: str) -> None:
    """From before the start to the exit, including the last partial line."""
    daemon.create("c", rootfs=shell_root, command=shell(f"{COUNT}; sleep 0.3; printf half"))
    with client(daemon, "logs", "-f", "c") as one:
        daemon.verb("c", "start").ok()
        out, err = one.communicate(timeout=60)
    assert out == b"".join(b"line %d\n" % n for n in range(5)) + b"half"
    assert err == b"bad\n"


def test_who_does_not_read_logs_holds_up_nobody(daemon: Daemon, shell_root: str) -> None:
    script = "i=0; while [ $i -lt 30000 ]; do echo a line of some length $i; i=$((i+1)); done"
    daemon.run("c", rootfs=shell_root, command=shell(script))
    with client(daemon, "logs", "-f", "c"):
        assert daemon.wait_for("c", "stopped")["exit_code"] == 0


def test_logs_that_nobody_reads_any_more(daemon: Daemon, shell_root: str) -> None:
    script = "while read -r line; do echo got $line; done"
    daemon.run("c", rootfs=shell_root, command=shell(script), stdin=True)
    with client(daemon, "logs", "-f", "c") as one, client(daemon, "attach", "c") as two:
        assert one.stdout is not None
        assert two.stdin is not None
        assert two.stdout is not None
        for line in (b"1\n", b"2\n", b"3\n"):
            two.stdin.write(line)
            two.stdin.flush()
            assert two.stdout.readline() == b"got " + line
            if not one.stdout.closed:
                assert one.stdout.readline() == b"got 1\n"
                one.stdout.close()
        assert one.wait(30) == 1
    daemon.remove("c")


# --- events ---


def test_events(daemon: Daemon, shell_root: str) -> None:
    with client(daemon, "events", "--format=json") as live:
        assert live.stdout is not None
        identifier = daemon.run("c", rootfs=shell_root, command=shell("exit 3"))
        daemon.wait_for("c", "stopped")
        daemon.remove("c")
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1]["kind"] != "destroy":
            seen.append(json.loads(live.stdout.readline()))
    assert [event["kind"] for event in seen] == ["create", "start", "die", "destroy"]
    assert {(event["id"], event["name"]) for event in seen} == {(identifier, "c")}
    past = daemon.ctl("events", "--since=1h", "--until=0s", "--filter=event=die")
    if past.status:  # "0s" is not a valid duration everywhere
        past = daemon.ctl("events", "--since=1h", f"--until={seen[-1]['time']}", "-f", "event=die")
    [line] = past.ok().out.splitlines()
    assert f" die {identifier} (" in line
    assert "name=c" in line
    daemon("GET", "/v1/events?kind=party").failed(400, "party")


def test_events_that_nobody_reads_any_more(daemon: Daemon, shell_root: str) -> None:
    daemon.create("c", rootfs=shell_root, command=["/bin/true"])
    with client(daemon, "events", "--since=1h") as one:
        assert one.stdout is not None
        assert b" create " in one.stdout.readline()
        one.stdout.close()
        daemon.verb("c", "rename", {"name": "d"}).ok()
        daemon.verb("d", "rename", {"name": "e"}).ok()
        assert one.wait(30) == 1


@pytest.mark.parametrize("words", [("--filter=x",), ("--format=table Id",), ("--since=never",)])
def test_events_that_are_refused(daemon: Daemon, words: tuple[str, ...]) -> None:
    refused = daemon.ctl("events", *words)
    assert refused.status == 1
    assert words[0].partition("=")[0] in refused.err
