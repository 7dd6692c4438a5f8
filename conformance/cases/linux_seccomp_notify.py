"""config-linux.md: the seccomp agent and the container process state."""

from __future__ import annotations

import errno
import json
import os
import socket
from pathlib import Path
from typing import Any

from conformance import seccomp_agent
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context
from conformance.documents import is_semver, state_faults
from conformance.seccomp_agent import Agent, Connection

METADATA = "what the agent is to know"


def notifying(c: Context, path: Path | None, *actions: str, **seccomp: Any) -> Bundle:
    """Return a bundle with a filter that notifies the agent at ``path`` of getsid calls.

    If ``path`` is None, the filter has no listenerPath.
    """
    c.need_kernel(5, 0)
    bundle = c.bundle(*actions)
    bundle.linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["getsid"], "action": "SCMP_ACT_NOTIFY"}],
    } | seccomp
    if path is not None:
        bundle.linux["seccomp"]["listenerPath"] = str(path)
    return bundle


def told(c: Context, *actions: str, **seccomp: Any) -> tuple[Container, Connection, Agent]:
    """Start a container; return it, what its agent received, and the agent."""
    agent = Agent(c.directory / "agent")
    # Concurrently with the runtime: a long state does not fit into the socket's buffer.
    agent.receive_ahead()
    box = c.started(notifying(c, agent.path, *actions, **seccomp))
    return box, agent.received(), agent


@case("LNX-SECN-01")
def stream_socket(c: Context) -> None:
    """An agent that listens on a stream socket receives the container's state."""
    _, connection, _ = told(c)
    c.expect(connection.text, "the agent got nothing")


@case("LNX-SECC-05")
def wait_killable(c: Context) -> None:
    """The flag WAIT_KILLABLE_RECV is accepted.

    The kernel accepts it only with an agent.
    """
    c.need_kernel(5, 19)
    _, connection, _ = told(c, "syscall getsid 0", flags=["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"])
    c.expect(connection.text, "the agent got nothing")


@table(
    ("datagram", socket.SOCK_DGRAM),
    ("seqpacket", socket.SOCK_SEQPACKET),
    ids="LNX-SECN-01",
)
def other_socket(c: Context, name: str, kind: int) -> None:
    """Create or start fails if the agent's socket is of another type ({0})."""
    sound = Agent(c.directory / "sound")
    c.started(notifying(c, sound.path))
    agent = Agent(c.directory / "agent", kind)
    c.refused(notifying(c, agent.path), f"an agent with a {name} socket", or_start=True)


@case("LNX-SECN-02")
def one_state(c: Context) -> None:
    """The agent receives one state over one connection."""
    _, connection, agent = told(c)
    c.expect(connection.state, "the state is empty")
    c.expect(not agent.pending(), "there is a second connection")


@case("LNX-SECN-03")
def connection_for_each_process(c: Context) -> None:
    """The state of an additional process in the container has its own connection."""
    box, first, agent = told(c, "sleep")
    c.expect(first.closed, "the first connection is still open")
    process = c.directory / "process.json"
    process.write_text(json.dumps(box.bundle.process))
    result = box.attempt("exec", "--detach", f"--process={process}")
    if not result.ok:
        c.skip(f"the runtime cannot run further processes: {result.complaint}")
    second = agent.receive()
    c.expect(second.state["pid"] != box.pid, "the second state is that of the init")


@case("LNX-SECN-04")
def connection_closed(c: Context) -> None:
    """The connection is closed while the container is still running."""
    box, connection, _ = told(c, "sleep")
    c.expect(connection.closed, "the connection is still open")
    c.equal(box.status, "running", "status")


@table(("absent", False), ("deaf", True), ids="LNX-SECN-05")
def no_agent(c: Context, name: str, there: bool) -> None:
    """Create or start fails if the agent cannot be reached ({0})."""
    sound = Agent(c.directory / "sound")
    c.started(notifying(c, sound.path))
    path = c.directory / "agent"
    if there:
        deaf = socket.socket(socket.AF_UNIX)
        deaf.bind(str(path))
    c.refused(notifying(c, path), f"{name} agent", or_start=True)


@case("LNX-SECN-05")
def no_listener_path(c: Context) -> None:
    """Create or start fails if a rule has the action NOTIFY but there is no listenerPath."""
    sound = Agent(c.directory / "sound")
    c.started(notifying(c, sound.path))
    c.refused(notifying(c, None), "NOTIFY without listenerPath", or_start=True)


@case("LNX-SECN-06")
def path_without_notify(c: Context) -> None:
    """A listenerPath where nothing listens is ignored if no rule has the action NOTIFY."""
    bundle = notifying(c, c.directory / "nobody", "syscall getsid 0")
    bundle.linux["seccomp"]["syscalls"][0]["action"] = "SCMP_ACT_ERRNO"
    c.equal(c.run(bundle).reports[0]["error"], "EPERM", "error of the call")


@case("LNX-SECN-06")
def agent_without_notify(c: Context) -> None:
    """The runtime does not connect to the agent if no rule has the action NOTIFY."""
    agent = Agent(c.directory / "agent")
    bundle = notifying(c, agent.path, "exit 4")
    bundle.linux["seccomp"]["syscalls"][0]["action"] = "SCMP_ACT_ERRNO"
    c.equal(c.run(bundle).exit_status, 4, "exit status")
    c.expect(not agent.pending(), "the agent received a container without NOTIFY")


@case("LNX-SECN-07", "LNX-SECC-10")
def answered_call(c: Context) -> None:
    """The agent can answer the program's call through the descriptor that it received."""
    box, connection, _ = told(c, "syscall getsid 0", "sleep")
    seccomp_agent.answer(connection.filter_fd(), errno.EXDEV)
    c.equal(box.wait_for_reports()[0]["error"], "EXDEV", "error of the call")


@case("LNX-SECN-08")
def metadata_alone(c: Context) -> None:
    """A listenerMetadata without listenerPath is rejected."""
    rule = {"names": ["getsid"], "action": "SCMP_ACT_ERRNO"}
    sound, bad = notifying(c, None, syscalls=[rule]), notifying(c, None, syscalls=[rule])
    bad.linux["seccomp"]["listenerMetadata"] = METADATA
    c.refused_beside(sound, bad, "listenerMetadata without listenerPath")


@case("LNX-SECN-09")
def payload(c: Context) -> None:
    """The state is sent as JSON, together with a file descriptor."""
    _, connection, _ = told(c)
    c.expect(isinstance(connection.state, dict), "the state is no object")
    c.expect(connection.fds, "no descriptor came")


@case("LNX-SECN-10")
def descriptors_come_first(c: Context) -> None:
    """If the state is too long for one message, the first message has the descriptors."""
    _, connection, _ = told(c, listenerMetadata=METADATA * 20000)
    c.expect(len(connection.chunks) > 1, "the state came in one piece")
    c.expect(connection.chunks[0].fds, "the first message has no descriptors")
    c.equal([chunk.fds for chunk in connection.chunks[1:] if chunk.fds], [], "later descriptors")
    c.equal(len(connection.state.get("metadata", "")), len(METADATA) * 20000, "metadata")


@case("LNX-SECN-11")
def process_state(c: Context) -> None:
    """The container process state has all required properties, in the right format."""
    box, connection, _ = told(c)
    state = connection.state
    c.expect(is_semver(state.get("ociVersion")), f"ociVersion: {state.get('ociVersion')!r}")
    c.equal(state.get("pid"), box.pid, "pid")
    c.equal(state_faults(state.get("state")), [], "faults of the container's state")
    c.equal(state["state"]["id"], box.id, "id")


@case("LNX-SECN-11")
def metadata(c: Context) -> None:
    """The listenerMetadata is sent as metadata."""
    _, connection, _ = told(c, listenerMetadata=METADATA)
    c.equal(connection.state.get("metadata"), METADATA, "metadata")


@case("LNX-SECN-12")
def names_of_descriptors(c: Context) -> None:
    """The list fds names each descriptor; seccompFd is at the index of the seccomp one."""
    _, connection, _ = told(c)
    names = connection.state.get("fds")
    c.equal(len(names or []), len(connection.fds), "number of names")
    link = os.readlink(f"/proc/self/fd/{connection.filter_fd()}")
    c.equal(link, "anon_inode:seccomp notify", "what seccompFd is")
