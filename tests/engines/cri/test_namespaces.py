"""Namespaces of pods: the node's, the pod's, the container's, and another container's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import Both, MakePod
from tests.engines.cri.observe import facts, namespaces_of
from tests.engines.cri.pod import CONTAINER, NODE, POD, TARGET, Pod
from tests.support import processes

FIRST_ID, IDS = 200_000, 65_536
MAPPING = {"host_id": FIRST_ID, "container_id": 0, "length": IDS}
USERS = {"mode": POD, "uids": [MAPPING], "gids": [MAPPING]}


@pytest.mark.parametrize(
    ("namespaces", "expected"),
    [
        ({"network": POD}, {"net": "sandbox", "ipc": "sandbox", "uts": "sandbox", "pid": "own"}),
        ({"network": NODE}, {"net": "node", "ipc": "sandbox", "uts": "node", "pid": "own"}),
        ({"pid": POD}, {"pid": "sandbox", "ipc": "sandbox"}),
        ({"pid": NODE, "ipc": NODE}, {"pid": "node", "ipc": "node"}),
    ],
    ids=["pod's network", "host's network", "pod's processes", "host's processes and IPC"],
)
def test_namespaces(both: Both, namespaces: dict[str, int], expected: dict[str, str]) -> None:
    """A container has the right namespaces, and sees the same below both runtimes."""
    seen = both(facts, namespaces=namespaces)
    assert seen["whose"].items() >= {**expected, "user": "node"}.items()
    if namespaces.get("network") == POD:
        assert seen["hostname"] == "host-of-pod"


def test_host_processes(make_pod: MakePod, handler: str) -> None:
    """hostPID: the node's processes are visible, and survive the container."""
    pod = make_pod(handler, namespaces={"pid": NODE})
    one = pod.run("one", "sh", "-c", "sleep 1001 & sleep 1002")
    assert pod.shell(one, f"tr '\\0' ' ' </proc/{os.getpid()}/cmdline").startswith(
        Path(f"/proc/{os.getpid()}/cmdline").read_text().split("\0")[0]
    )
    before = processes.descendants(pod.cri.daemon.pid)
    children = processes.descendants(pod.cri.pid(one))
    assert children
    pod.cri.StopContainer(container_id=one, timeout=0)
    # The descendants have no PID namespace that would take them along.
    assert processes.until(lambda: not any(map(processes.alive, children)))
    assert all(map(processes.alive, before))


def test_target(make_pod: MakePod, handler: str) -> None:
    """An ephemeral container sees the processes of the container that it debugs."""
    pod = make_pod(handler)
    one = pod.run("one", "sleep", "1003")
    options = {"network": NODE, "pid": TARGET, "target_id": one}
    two = pod.run("two", "sleep", "1004", security={"namespace_options": options})
    assert namespaces_of(pod.cri.pid(two))["pid"] == namespaces_of(pod.cri.pid(one))["pid"]
    assert "sleep 1003" in pod.shell(two, "ps -o args")
    assert "sleep 1004" in pod.shell(one, "ps -o args")
    pod.cri.StopContainer(container_id=two, timeout=0)
    assert "sleep 1003" in pod.shell(one, "ps -o args")


def test_shared_memory_and_sysctls(both: Both) -> None:
    """The containers of a pod share /dev/shm and the sandbox's sysctls."""

    def look(pod: Pod) -> list[str]:
        first, second = pod.run("first", "sleep", "1000"), pod.run("second", "sleep", "1000")
        pod.shell(first, "echo word >/dev/shm/file")
        settings = "/proc/sys/kernel/shm_rmid_forced /proc/sys/net/ipv4/ip_unprivileged_port_start"
        return [pod.shell(second, f"cat /dev/shm/file {settings}"), pod.shell(first, "hostname")]

    sysctls = {"kernel.shm_rmid_forced": "1", "net.ipv4.ip_unprivileged_port_start": "99"}
    seen = both(look, namespaces={"network": POD}, sysctls=sysctls)
    assert seen == ["word\n1\n99\n", "host-of-pod\n"]


@pytest.fixture
def with_users(cri_host: Cri) -> dict[str, Any]:
    """Return options of a pod with a user namespace; skip if containerd does not support it."""
    if cri_host.installed.version < (2, 0):
        pytest.skip(f"containerd {cri_host.installed.version} has no user namespaces of pods")
    return {"namespaces": {"network": POD, "userns_options": USERS}}


def test_features_of_handlers(cri_host: Cri) -> None:
    """Each runtime reports its features; the kubelet passes them to the scheduler."""
    if cri_host.installed.version < (2, 0):
        pytest.skip(f"containerd {cri_host.installed.version} does not ask for features")
    handlers = {one.name: one.features for one in cri_host.Status().runtime_handlers}
    assert handlers["ociruntime"] == handlers["runc"]
    assert handlers["ociruntime"].user_namespaces
    assert handlers["ociruntime"].recursive_read_only_mounts


def test_users(
    cri_host: Cri, make_pod: MakePod, handler: str, with_users: dict[str, Any], work: Path
) -> None:
    """hostUsers: false.

    The pod's root is another user on the node; its volumes are id-mapped.
    """
    (work / "volume").mkdir()
    (work / "volume/file").write_text("of root\n")
    volume = {
        "container_path": "/volume",
        "host_path": str(work / "volume"),
        "uidMappings": [MAPPING],
        "gidMappings": [MAPPING],
    }
    pod = make_pod(handler, **with_users)
    one = pod.run("one", "sleep", "1000", mounts=[volume])
    status = Path(f"/proc/{cri_host.pid(one)}/status").read_text()
    uids = next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
    assert uids == [str(FIRST_ID)] * 4
    assert pod.shell(one, "cat /proc/self/uid_map").split() == ["0", str(FIRST_ID), str(IDS)]
    script = "stat -c %u:%g /volume/file /etc/passwd; echo new >/volume/new"
    assert pod.shell(one, script) == "0:0\n0:0\n"
    assert (work / "volume/new").stat().st_uid == 0
    # The sandbox's namespace owns the pod's others: its root may change them.
    pod_of_one = namespaces_of(cri_host.pid(one))
    assert pod_of_one["user"] == namespaces_of(cri_host.pid(pod.id))["user"]
    adding = {"capabilities": {"add_capabilities": ["NET_ADMIN"]}}
    two = pod.run("two", "sleep", "1000", security=adding)
    assert "192.0.2.9" in pod.shell(two, "ip address add 192.0.2.9/32 dev lo; ip address")


def test_users_see_the_same(cri_host: Cri, both: Both, with_users: dict[str, Any]) -> None:
    def look(pod: Pod) -> dict[str, Any]:
        found = facts(pod)
        # runc makes the namespace before it has a group there: the directory is nobody's.
        assert (found.pop("/dev/mqueue")["gid"] == 0) or pod.handler == "runc"
        return found

    seen = both(look, **with_users)
    assert seen["whose"]["user"] == "sandbox"
    assert seen["uid"] == 0


def test_users_with_everything_else(
    both: Both, with_users: dict[str, Any], shared_processes: dict[str, Any]
) -> None:
    """A user namespace with a filter, fewer capabilities, masked paths and a tty."""
    security = {
        "seccomp": {"profile_type": 0},
        "capabilities": {"drop_capabilities": ["ALL"], "add_capabilities": ["NET_RAW"]},
        "masked_paths": ["/proc/keys", "/sys/firmware"],
        "readonly_paths": ["/proc/sys"],
        "readonly_rootfs": True,
        "run_as_user": {"value": 1000},
        "supplemental_groups": [4000],
        "no_new_privs": True,
    }

    def look(pod: Pod) -> dict[str, Any]:
        found = facts(pod, security=security)
        del found["/dev/mqueue"]  # as in the test above
        one = pod.run("one", "sleep", "1000", security=security, terminal=True)
        script = (
            "id; cat /proc/keys; touch /x; stat -c '%u:%g' /dev/console /proc/1/fd/0; ps -o args"
        )
        status, out, err = pod.execute(one, "sh", "-c", script)
        return found | {"exec": (status, out, err)}

    namespaces = {**with_users["namespaces"], **shared_processes}
    seen = both(look, namespaces=namespaces, sysctls={"net.ipv4.ping_group_range": "0 0"})
    assert (seen["uid"], seen["seccomp"], seen["no_new_privs"]) == (1000, 2, 1)
    assert "Read-only" in seen["exec"][2]


@pytest.fixture(
    params=[POD, pytest.param(CONTAINER, marks=pytest.mark.long)],
    ids=["pod's processes", "own processes"],
)
def shared_processes(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"pid": request.param}
