"""The streams of `kubectl exec`, `attach`, `logs` and `port-forward`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import Both, MakePod
from tests.engines.cri.pod import EXITED, POD, Pod
from tests.engines.cri.streaming import STDERR, STDIN, STDOUT, Stream, exit_status
from tests.support import processes

Open = Callable[[str], Stream]
LARGE = 1_000_000
# An echo that says when it is there.
ECHO = "echo ready; while read line; do echo got $line; echo err $line >&2; done; exit 4"


@pytest.fixture
def stream() -> Iterator[Open]:
    """Open URLs of the streaming server; they are closed after the test."""
    made: list[Stream] = []

    def open_one(url: str) -> Stream:
        made.append(Stream(url))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


def test_exec(cri_host: Cri, both: Both, stream: Open) -> None:
    """Input, output and errors have separate streams; the exit status comes last."""

    def look(pod: Pod) -> tuple[bytes, bytes, int]:
        one = pod.run("one", "sleep", "1000")
        how = {"stdin": True, "stdout": True, "stderr": True}
        done = stream(cri_host.Exec(container_id=one, cmd=["sh", "-c", ECHO], **how).url)
        done.read_until(b"ready\n")
        done.send(STDIN, b"word\n")
        done.read_until(b"got word\n")
        done.read_until(b"err word\n", STDERR)
        done.send(STDIN, b"more\n")
        done.read_until(b"got more\n")
        done.read_until(b"err more\n", STDERR)
        # This protocol cannot close the input; a signal ends the program.
        pod.shell(one, "kill $(ps -o pid,args | grep [r]ead | cut -c1-6)")
        return done.seen[STDOUT], done.seen[STDERR], exit_status(done.finish())

    out, err, status = both(look)
    assert (out, err) == (b"ready\ngot word\ngot more\n", b"err word\nerr more\n")
    assert status == 143


def test_exec_exit_status_and_large_output(cri_host: Cri, both: Both, stream: Open) -> None:
    """All output arrives before the exit status."""

    def look(pod: Pod) -> tuple[int, int, int]:
        one = pod.run("one", "sleep", "1000")
        script = f"yes | head -c {LARGE}; exit 7"
        how = {"stdout": True, "stderr": True}
        done = stream(cri_host.Exec(container_id=one, cmd=["sh", "-c", script], **how).url)
        status = exit_status(done.finish())
        sync = cri_host.ExecSync(container_id=one, cmd=["sh", "-c", script], timeout=30)
        return status, len(done.seen[STDOUT]), len(sync.stdout)

    assert both(look) == (7, LARGE, LARGE)


def test_exec_terminal(cri_host: Cri, both: Both, stream: Open) -> None:
    """`kubectl exec -it`: the terminal follows the size of the user's terminal."""

    def look(pod: Pod) -> int:
        one = pod.run("one", "sleep", "1000")
        how = {"stdin": True, "stdout": True, "tty": True}
        shell = stream(cri_host.Exec(container_id=one, cmd=["sh"], **how).url)
        shell.read_until(b"# ")
        shell.resize(101, 33)
        shell.send(STDIN, b'until [ "$(stty size)" = "33 101" ]; do sleep 0.02; done; tty\n')
        shell.read_until(b"/dev/pts/0\r\n")
        shell.resize(55, 22)
        shell.send(STDIN, b'until [ "$(stty size)" = "22 55" ]; do sleep 0.02; done; echo a""b\n')
        shell.read_until(b"ab\r\n")
        # Ctrl-C reaches the foreground process, not the shell.
        shell.send(STDIN, b"sleep 1001\n")
        assert processes.until(lambda: "sleep 1001" in pod.shell(one, "ps -o args"))
        shell.send(STDIN, b"\x03")
        shell.send(STDIN, b"exit 5\n")
        return exit_status(shell.finish())

    assert both(look) == 5


def test_exec_that_does_not_start(cri_host: Cri, both: Both, stream: Open) -> None:
    def look(pod: Pod) -> str:
        one = pod.run("one", "sleep", "1000")
        how = {"stdout": True, "stderr": True}
        status = stream(cri_host.Exec(container_id=one, cmd=["no-such"], **how).url).finish()
        assert "executable file not found in $PATH" in status["message"]
        return str(status["status"])

    assert both(look) == "Failure"


def test_exec_timeout(cri_host: Cri, both: Both) -> None:
    """A probe that times out: its process is killed, and the container keeps running."""

    def look(pod: Pod) -> bool:
        one = pod.run("one", "sleep", "1000")
        began = time.monotonic()
        with pytest.raises(cri_host.Error, match="DEADLINE_EXCEEDED"):
            cri_host.ExecSync(container_id=one, cmd=["sleep", "1001"], timeout=1)
        assert time.monotonic() - began >= 1
        return processes.until(lambda: "sleep 1001" not in pod.shell(one, "ps -o args"))

    assert both(look)


def test_exec_leaves_a_process(cri_host: Cri, both: Both) -> None:
    """A probe whose child keeps the output open does not block the answer forever."""

    def look(pod: Pod) -> tuple[int, str]:
        one = pod.run("one", "sleep", "1000")
        script = "sleep 1002 >/dev/null 2>&1 & echo out"
        status, out, _ = pod.execute(one, "sh", "-c", script)
        assert "sleep 1002" in pod.shell(one, "ps -o args")
        return status, out

    assert both(look) == (0, "out\n")


def test_attach(cri_host: Cri, both: Both, stream: Open) -> None:
    """The streams are those of the container's init; its output is logged as well."""

    def look(pod: Pod) -> list[str]:
        one = pod.create("one", "sh", "-c", ECHO, stdin=True)
        cri_host.StartContainer(container_id=one)
        how = {"container_id": one, "stdin": True, "stdout": True, "stderr": True}
        attached = stream(cri_host.Attach(**how).url)
        assert processes.until(lambda: pod.log("one") == ["stdout ready"])
        attached.send(STDIN, b"word\n")
        attached.read_until(b"got word\n")
        attached.read_until(b"err word\n", STDERR)
        # A second one sees the same, and the first goes without ending the container.
        second = stream(cri_host.Attach(**how).url)
        attached.close()
        second.send(STDIN, b"more\n")
        second.read_until(b"got more\n")
        assert processes.until(lambda: len(pod.log("one")) == 5)
        return sorted(pod.log("one"))

    assert both(look) == [
        "stderr err more",
        "stderr err word",
        "stdout got more",
        "stdout got word",
        "stdout ready",
    ]


def test_attach_to_a_terminal(cri_host: Cri, both: Both, stream: Open) -> None:
    def look(pod: Pod) -> int:
        one = pod.run("one", "sh", terminal=True)
        how = {"stdin": True, "stdout": True, "tty": True}
        shell = stream(cri_host.Attach(container_id=one, **how).url)
        shell.resize(101, 33)
        shell.send(STDIN, b'until [ "$(stty size)" = "33 101" ]; do sleep 0.02; done; tty\n')
        shell.read_until(b"/dev/pts/0\r\n")
        shell.send(STDIN, b"exit 6\n")
        code: int = pod.await_state(one, EXITED).exit_code
        return code

    assert both(look) == 6


def test_rotated_log(cri_host: Cri, both: Both) -> None:
    """The kubelet renames the log and requests a new one."""

    def look(pod: Pod) -> list[str]:
        script = "echo first; until [ -e /go ]; do sleep 0.02; done; echo second; sleep 1000"
        one = pod.run("one", "sh", "-c", script)
        assert processes.until(lambda: pod.log("one") == ["stdout first"])
        (pod.logs / "one.log").rename(pod.logs / "one.log.1")
        cri_host.ReopenContainerLog(container_id=one)
        pod.shell(one, "touch /go")
        assert processes.until(lambda: bool(pod.log("one")))
        return pod.log("one")

    assert both(look) == ["stdout second"]


@pytest.mark.parametrize("network", ["of the pod", "of the node"])
def test_port_forward(
    cri_host: Cri, make_pod: MakePod, handler: str, stream: Open, network: str
) -> None:
    """A connection to a port in the sandbox's network namespace."""
    pod = make_pod(handler, namespaces={"network": POD} if network == "of the pod" else None)
    port = 40_000 + cri_host.daemon.pid % 10_000
    one = pod.run("one", "nc", "-ll", "-p", str(port), "-e", "sh", "-c", "read x; echo got $x")
    hexadecimal = f":{port:04X} "
    assert processes.until(lambda: hexadecimal in pod.shell(one, "cat /proc/net/tcp*"))
    forwarded = stream(cri_host.PortForward(pod_sandbox_id=pod.id, port=[port]).url)
    number = port.to_bytes(2, "little")
    forwarded.read_until(number, 0)
    forwarded.send(0, b"word\n")
    assert forwarded.read_until(b"got word\n", 0) == number + b"got word\n"
