"""The lifecycle of pods below containerd's CRI plugin, configured by packaging/engines.

Every test runs the same pod below runc, which is the other handler of that configuration.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from tests.engines.cri.client import HOOKS, Cri
from tests.engines.cri.conftest import MakePod
from tests.engines.cri.pod import CREATED, EXITED, POD, READY, RUNNING, Pod
from tests.engines.scripts import MIB, WAITS_FOR_TERM
from tests.support import cgroupfs, processes
from tests.support.seccomp_agent import Agent


def test_sandbox(cri_host: Cri, pod: Pod, handler: str) -> None:
    status = cri_host.PodSandboxStatus(pod_sandbox_id=pod.id).status
    assert (status.state, status.runtime_handler) == (READY, handler)
    cri_host.StopPodSandbox(pod_sandbox_id=pod.id)
    assert cri_host.PodSandboxStatus(pod_sandbox_id=pod.id).status.state != READY


def test_two_containers(cri_host: Cri, pod: Pod) -> None:
    """They share the sandbox's namespaces, and exit by themselves, by TERM and by KILL."""
    first = pod.run("first", "sh", "-c", f"echo out; echo error >&2; {WAITS_FOR_TERM}")
    second = pod.create("second", "sleep", "1000")
    assert pod.status(second).state == CREATED
    cri_host.StartContainer(container_id=second)
    assert pod.status(second).state == RUNNING
    script = "readlink /proc/self/ns/ipc; readlink /proc/self/ns/net; readlink /proc/self/ns/uts"
    spaces = [pod.execute(one, "sh", "-c", script) for one in (first, second)]
    assert spaces[0] == spaces[1]
    assert processes.until(lambda: "stdout ready" in pod.log("first"))
    assert sorted(pod.log("first")) == ["stderr error", "stdout out", "stdout ready"]
    cri_host.StopContainer(container_id=first, timeout=10)
    assert pod.await_state(first, EXITED).exit_code == 3
    cri_host.StopContainer(container_id=second, timeout=1)
    ended = pod.await_state(second, EXITED)
    assert (ended.exit_code, ended.reason) == (137, "Error")
    for _ in range(2):
        cri_host.RemoveContainer(container_id=first)
    with pytest.raises(cri_host.Error, match="not found"):
        pod.status(first)


def test_execution(cri_host: Cri, pod: Pod) -> None:
    """An exec probe of the kubelet."""
    one = pod.run("one", "sleep", "1000")
    script = "echo out; echo error >&2; exit 7"
    assert pod.execute(one, "sh", "-c", script) == (7, "out\n", "error\n")
    with pytest.raises(cri_host.Error, match=r"executable file not found in \$PATH"):
        pod.execute(one, "no-such-program")


LIMITS = {"memory_limit_in_bytes": 64 * MIB, "cpu_shares": 512}


def test_update(cri_host: Cri, pod: Pod) -> None:
    """Containerd passes the complete resources on standard input."""
    one = pod.run("one", "sleep", "1000", resources=LIMITS)
    pid = cri_host.pid(one)
    limits = ("memory", "memory.limit_in_bytes", "memory.max")
    assert cgroupfs.setting(pid, *limits) == str(64 * MIB)
    more = cri_host.LinuxContainerResources(
        memory_limit_in_bytes=96 * MIB, cpu_quota=20000, cpu_period=100000
    )
    cri_host.UpdateContainerResources(container_id=one, linux=more)
    assert cgroupfs.setting(pid, *limits) == str(96 * MIB)
    quota = cgroupfs.setting(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
    assert quota in ("20000", "20000 100000")


def test_program_that_cannot_start(cri_host: Cri, pod: Pod) -> None:
    """The kubelet shows the message to the user; the container can be removed."""
    one = pod.create("one", "no-such-program")
    with pytest.raises(cri_host.Error, match=r"executable file not found in \$PATH"):
        cri_host.StartContainer(container_id=one)
    status = pod.status(one)
    assert (status.state, status.reason) == (EXITED, "StartError")


def test_shared_process_ids(cri_host: Cri, make_pod: MakePod, handler: str) -> None:
    """shareProcessNamespace: a container's exit does not end its descendants."""
    pod = make_pod(handler, namespaces={"pid": POD})
    first = pod.run("first", "sh", "-c", "sleep 1001 & exec sleep 1002")
    second = pod.run("second", "sleep", "1003")
    assert processes.until(lambda: len(seen(pod, second)) == 4)
    assert seen(pod, second) == ["sleep 10000", "sleep 1001", "sleep 1002", "sleep 1003"]
    cri_host.StopContainer(container_id=first, timeout=1)
    pod.await_state(first, EXITED)
    # When its init exits, all of a container's processes must be gone.
    assert processes.until(lambda: seen(pod, second) == ["sleep 10000", "sleep 1003"])


@pytest.fixture
def pod_with_hooks(cri_host: Cri, make_pod: MakePod, handler: str) -> Pod:
    """A sandbox of the handler with hooks and --debug."""
    for kind in HOOKS:
        (cri_host.home / kind).unlink(missing_ok=True)
    return make_pod(f"{handler}-more")


def test_hooks_and_debug(cri_host: Cri, pod_with_hooks: Pod) -> None:
    """The hooks of the base specification run with the state; a sandbox has no hooks."""
    pod = pod_with_hooks
    one = pod.run("one", "sh", "-c", f"echo out; {WAITS_FOR_TERM}")
    assert pod.execute(one, "echo", "more") == (0, "more\n", "")
    assert processes.until(lambda: "stdout ready" in pod.log("one"))
    assert pod.log("one") == ["stdout out", "stdout ready"]
    cri_host.StopContainer(container_id=one, timeout=10)
    assert pod.await_state(one, EXITED).exit_code == 3
    cri_host.RemoveContainer(container_id=one)
    for kind, status in (("createRuntime", "creating"), ("poststop", "stopped")):
        states = states_of(cri_host, kind)
        assert [state["status"] for state in states if state["id"] == one] == [status], kind
    for kind in ("createContainer", "poststart"):
        assert one in {state["id"] for state in states_of(cri_host, kind)}, kind


def test_debug_leaves_the_reason(cri_host: Cri, pod_with_hooks: Pod) -> None:
    """The reason is taken from the log, which has many more lines with --debug."""
    pod = pod_with_hooks
    one = pod.create("one", "no-such-program")
    with pytest.raises(cri_host.Error, match=r"executable file not found in \$PATH"):
        cri_host.StartContainer(container_id=one)
    two = pod.run("two", "sleep", "1000")
    with pytest.raises(cri_host.Error, match=r"executable file not found in \$PATH"):
        pod.execute(two, "no-such-program")


def test_terminal(cri_host: Cri, pod: Pod) -> None:
    """Kubernetes' ``tty: true``: the standard streams are one terminal."""
    script = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && tty && echo error >&2"
    one = pod.run("one", "sh", "-c", script, terminal=True)
    assert pod.await_state(one, EXITED).exit_code == 0
    assert processes.until(lambda: len(pod.log("one")) == 2)
    assert [line.rstrip("\r") for line in pod.log("one")] == ["stdout /dev/pts/0", "stdout error"]


def test_seccomp_agent(cri_host: Cri, pod: Pod, work: Path) -> None:
    """A profile of the node with SCMP_ACT_NOTIFY: the agent decides about the calls."""
    agent = Agent(work / "agent", lambda _: errno.EDOM)
    profile = work / "profile.json"
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_NOTIFY"}
    profile.write_text(
        json.dumps(
            {
                "defaultAction": "SCMP_ACT_ALLOW",
                "listenerPath": str(agent.path),
                "listenerMetadata": "of the node",
                "syscalls": [rule],
            }
        )
    )
    try:
        script = "mkdir /made && exit 5; exit 6"
        one = pod.run(
            "one", "sh", "-c", script, security={"seccomp_profile_path": f"localhost/{profile}"}
        )
        assert pod.await_state(one, EXITED).exit_code == 6
        (state,) = agent.states
        assert (state["metadata"], state["state"]["id"]) == ("of the node", one)
        assert agent.numbers
    finally:
        agent.close()


def states_of(cri: Cri, kind: str) -> list[dict[str, Any]]:
    """Return the states that hooks of one kind have got."""
    decoder, text, states = json.JSONDecoder(), (cri.home / kind).read_text(), []
    while text := text.strip():
        state, end = decoder.raw_decode(text)
        states.append(state)
        text = text[end:]
    return states


def seen(pod: Pod, container: str) -> list[str]:
    """Return the sleeping processes that a process of the container sees."""
    status, out, _ = pod.execute(container, "ps", "-o", "args")
    assert status == 0
    return sorted(line.strip() for line in out.splitlines() if line.strip().startswith("sleep"))
