"""Filters that notify an agent (SCMP_ACT_NOTIFY), about any system call."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.bundle import Bundle
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.seccomp_agent import Agent, Judge, lets_all

pytestmark = [
    pytest.mark.judge_by("ociruntime"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64"),
]

EXECVE = 59
MakeAgent = Callable[..., Agent]


@pytest.fixture
def agent(work: Path, isolated: None) -> Iterator[MakeAgent]:
    made: list[Agent] = []

    def make(judge: Judge = lets_all, name: str = "agent") -> Agent:
        made.append(Agent(work / name, judge))
        return made[-1]

    yield make
    for one in made:
        one.close()


def asking(bundle: Bundle, path: Path, *names: str, **more: Any) -> Bundle:  # noqa: ANN401
    """Return a filter that notifies about these calls, without names about all."""
    rules = [{"names": list(names), "action": "SCMP_ACT_NOTIFY"}] if names else []
    bundle.linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW" if names else "SCMP_ACT_NOTIFY",
        "syscalls": rules,
        "listenerPath": str(path),
        **more,
    }
    return bundle


@pytest.mark.parametrize(
    "names",
    [
        ("execve",),
        ("sendmsg", "sendto", "write"),
        ("recvmsg", "recvfrom", "read", "poll", "ppoll", "futex"),
        ("close", "prlimit64", "exit", "exit_group", "clone", "nanosleep"),
        (),
    ],
    ids=["execve", "sending", "waiting", "others", "every call"],
)
def test_any_call_may_be_asked_about(
    container: MakeContainer, bundle: MakeBundle, agent: MakeAgent, names: tuple[str, ...]
) -> None:
    one = agent()
    result = container(asking(bundle("echo", "runs"), one.path, *names)).run()
    assert result.ok().out == "runs\n"
    assert len(one.states) == 1


@pytest.mark.parametrize("no_new_privileges", [True, False])
@pytest.mark.parametrize("user_namespace", [True, False])
def test_for_every_kind_of_process(
    container: MakeContainer,
    bundle: MakeBundle,
    agent: MakeAgent,
    no_new_privileges: bool,
    user_namespace: bool,
) -> None:
    one = agent()
    made = asking(bundle("id", "-u"), one.path)
    made.process["noNewPrivileges"] = no_new_privileges
    made.process["user"] = {"uid": 1000, "gid": 1000}
    made.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 4, "hard": 4}]
    made.namespace("time")
    if user_namespace:
        made.user_namespace()
    assert container(made).run().ok().out == "1000\n"
    assert EXECVE in one.numbers


@pytest.mark.parametrize("flag", ["TSYNC", "WAIT_KILLABLE_RECV", "LOG"])
def test_flags(container: MakeContainer, bundle: MakeBundle, agent: MakeAgent, flag: str) -> None:
    one = agent()
    made = asking(bundle("echo", "runs"), one.path, flags=[f"SECCOMP_FILTER_FLAG_{flag}"])
    assert container(made).run().ok().out == "runs\n"


def test_what_the_agent_is_told(
    container: MakeContainer, bundle: MakeBundle, agent: MakeAgent
) -> None:
    one = agent()
    made = asking(bundle(), one.path, "getsid", listenerMetadata="m" * 500_000)
    made.config["annotations"] = {"org.example": "value"}
    box = container(made).started()
    assert processes.until(lambda: bool(one.states))
    state = one.states[0]
    assert state["fds"] == ["seccompFd"]
    assert (state["pid"], len(state["metadata"])) == (box.pid, 500_000)
    assert state["state"] == {
        "ociVersion": state["ociVersion"],
        "id": box.id,
        "status": "creating",
        "pid": box.pid,
        "bundle": str(made.path),
        "annotations": {"org.example": "value"},
    }


def test_nothing_of_the_handing_on_is_left(
    container: MakeContainer, bundle: MakeBundle, agent: MakeAgent
) -> None:
    """One thread, no child, no descriptor; and `delete` works as usual."""
    one = agent()
    box = container(asking(bundle(), one.path, "getsid")).started()
    assert os.listdir(f"/proc/{box.pid}/task") == [str(box.pid)]
    assert Path(f"/proc/{box.pid}/task/{box.pid}/children").read_text() == ""
    links = {os.readlink(f"/proc/{box.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{box.pid}/fd")}
    assert not any("seccomp" in link or "socket" in link for link in links)
    assert box.status == "running"
    box.kill("KILL").silent()
    assert box.wait() == 128 + signal.SIGKILL
    box.delete().silent()


def test_refused_exec(container: MakeContainer, bundle: MakeBundle, agent: MakeAgent) -> None:
    """The agent denies execve(2): `start` reports it."""
    one = agent(lambda number: errno.EACCES if number == EXECVE else 0)
    box = container(asking(bundle(), one.path)).created()
    box.start().failed("permission denied")
    assert processes.until(lambda: box.status == "stopped")


def test_absent_agent(container: MakeContainer, bundle: MakeBundle, agent: MakeAgent) -> None:
    """LNX-SECN-05: an error, and the container still waits."""
    made = asking(bundle(), bundle().path / "agent", "getsid")
    box = container(made).created()
    box.start().failed("seccomp agent", "no such file or directory")
    assert box.status == "created"
    one = Agent(Path(made.linux["seccomp"]["listenerPath"]))
    try:
        box.start().silent()
        assert box.status == "running"
    finally:
        one.close()


def hang_up(server: socket.socket) -> None:
    """Be an agent that accepts the connection and closes it."""
    server.accept()[0].close()


@pytest.mark.parametrize("how", ["start", "run"])
def test_agent_that_does_not_listen_to_the_end(
    container: MakeContainer, bundle: MakeBundle, work: Path, how: str
) -> None:
    """LNX-SECN-05: the program does not run without its agent."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "rude"))
        server.listen()
        thread = threading.Thread(target=hang_up, args=(server,))
        thread.start()
        one = bundle("touch", "/tmp/ran")
        # The process that passes the listener on waits for the hook, the agent does not.
        one.hooks["startContainer"] = [{"path": "/bin/sleep", "args": ["sleep", "0.3"]}]
        box = container(asking(one, work / "rude", "getsid"))
        if how == "start":
            box.created().start().failed("seccomp agent", "broken pipe")
            assert processes.until(lambda: box.status == "stopped")
        else:
            box.run().failed("seccomp agent", "broken pipe")
        thread.join()
    assert not (one.rootfs / "tmp" / "ran").exists()


@pytest.mark.parametrize("action", ["KILL_THREAD", "KILL_PROCESS", "TRAP"])
def test_exec_that_kills(
    container: MakeContainer, bundle: MakeBundle, agent: MakeAgent, action: str
) -> None:
    """The calling thread is the whole program: the container exits with it."""
    one = agent()
    made = asking(bundle(), one.path, "getsid")
    rule = {"names": ["execve"], "action": f"SCMP_ACT_{action}"}
    made.linux["seccomp"]["syscalls"].append(rule)
    box = container(made).created()
    box.start().silent()
    assert box.wait() == 128 + signal.SIGSYS


@pytest.fixture
def one_processor() -> Iterator[None]:
    """Restrict this process, and all that it starts, to one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_processor")
@pytest.mark.parametrize("program", ["echo", "/etc/hostname"], ids=["runs", "fails"])
@pytest.mark.parametrize("policy", ["SCHED_FIFO", "SCHED_RR"])
def test_waiting_for_the_agent_takes_no_processor_time(
    container: MakeContainer, bundle: MakeBundle, agent: MakeAgent, policy: str, program: str
) -> None:
    """With one CPU and a real-time policy, a busy loop would starve the agent."""
    one = agent()
    made = asking(bundle(program, "runs"), one.path, "getppid")
    (made.rootfs / "etc" / "hostname").chmod(0o755)
    (made.rootfs / "etc" / "hostname").write_bytes(b"\x7fELF, but no program\n")
    made.process["scheduler"] = {"policy": policy, "priority": 50}
    made.resources["cpu"] = {"realtimePeriod": 1000000, "realtimeRuntime": 400000}
    result = container(made).run(timeout=20)
    if program == "echo":
        assert result.ok().out == "runs\n"
    else:
        result.failed("exec")
