"""Addresses: never assigned twice, even concurrently; those of exited pods are reused."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError, NetworkError
from ociruntime.pods.net import pod_records
from ociruntime.pods.net.builtin import host_local
from ociruntime.pods.net.plugin_parameters import PluginCall
from tests.support import project
from tests.support.netns import NetworkNamespace
from tests.support.network_host import NetworkHost

PODS = 10
JOIN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ociruntime.pods.net.connect_pod import NetworkRequest, set_up
ports = [{"hostPort": int(sys.argv[5]), "containerPort": 80, "protocol": "tcp", "hostIP": ""}]
request = NetworkRequest(sys.argv[2], sys.argv[3], [("default", "")], ports, sys.argv[4], [])
sys.stdin.read(1)
print(json.dumps(set_up(request)))
"""


def call(state: Path, uuid: str = "u", arguments: str = "", **ipam: Any) -> PluginCall:  # noqa: ANN401
    settings = {"type": "host-local", "dataDir": str(state), **ipam}
    configuration = {"name": "n", "cniVersion": "1.0.0", "type": "ptp", "ipam": settings}
    return PluginCall(uuid, "/ns", "eth0", arguments, configuration, (), str(state), "")


def address(made: dict[str, Any]) -> str:
    return str(made["ips"][0]["address"])


def test_a_resolver_file_that_is_not_there(tmp_path: Path) -> None:
    ranges = [[{"subnet": "10.1.0.0/24"}]]
    with pytest.raises(NetworkError, match=f'network .*: read "{tmp_path}/none".*: no such file'):
        host_local.add(call(tmp_path, ranges=ranges, resolvConf=str(tmp_path / "none")))


def test_a_note_that_has_no_room(tmp_path: Path) -> None:
    state = str(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(HostError, match=f'{state}/.pods/u": file too large'):
            pod_records.write_record(state, "u", "/ns", [1, 2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(f"{state}/.pods") == []


def living(state: Path, *uuids: str) -> None:
    path = f"/proc/{os.getpid()}/ns/net"
    for uuid in uuids:
        pod_records.write_record(str(state), uuid, path, pod_records.namespace_identity(path))


def test_ten_pods_at_once(host: NetworkHost, namespaces: Callable[[], NetworkNamespace]) -> None:
    pods = [host.pod() for _ in range(PODS)]
    with host.namespace.entered():
        started = [
            subprocess.Popen(
                [
                    *(sys.executable, "-c", JOIN, str(project.ROOT)),
                    *(pod.uuid, pod.namespace.path, str(host.state), str(8000 + i)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for i, pod in enumerate(pods)
        ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("g")
        process.stdin.flush()
    for pod, process in zip(pods, started, strict=True):
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        pod.info = json.loads(out)
    found = {pod.info["networks"][0]["ip4"] for pod in pods}
    assert found == {f"172.16.28.{2 + i}" for i in range(PODS)}
    for i, pod in enumerate(pods):
        with pod.namespace.listen(80), host.namespace.connect("127.0.0.1", 8000 + i):
            pass
    for pod in pods:
        assert host.leave(pod) == []
    host.assert_clean()


def test_in_turn(tmp_path: Path) -> None:
    """A released address is not assigned again at once."""
    living(tmp_path, "a", "b", "c")
    subnet = "10.0.0.0/29"
    assert address(host_local.add(call(tmp_path, "a", subnet=subnet))) == "10.0.0.2/29"
    assert address(host_local.add(call(tmp_path, "b", subnet=subnet))) == "10.0.0.3/29"
    host_local.delete(call(tmp_path, "a", subnet=subnet))
    host_local.delete(call(tmp_path, "a", subnet=subnet))
    assert address(host_local.add(call(tmp_path, "c", subnet=subnet))) == "10.0.0.4/29"
    assert (tmp_path / "n" / "10.0.0.3").read_bytes() == b"b\r\neth0"


def test_exhausted(tmp_path: Path) -> None:
    uuids = [str(i) for i in range(5)]
    living(tmp_path, *uuids, "late")
    for uuid in uuids:
        host_local.add(call(tmp_path, uuid, subnet="10.0.0.0/29"))
    with pytest.raises(NetworkError, match=r"no free address .*10\.0\.0\.6"):
        host_local.add(call(tmp_path, "late", subnet="10.0.0.0/29"))
    host_local.delete(call(tmp_path, "3", subnet="10.0.0.0/29"))
    assert address(host_local.add(call(tmp_path, "late", subnet="10.0.0.0/29"))) == "10.0.0.5/29"


def test_addresses_of_dead_pods(tmp_path: Path, namespaces: Callable[[], NetworkNamespace]) -> None:
    """A record of another boot, a namespace that is gone, and no record."""
    dying = namespaces()
    living(tmp_path, "alive", "rebooted")
    pod_records.write_record(
        str(tmp_path), "dying", dying.path, pod_records.namespace_identity(dying.path)
    )
    for uuid in ("alive", "rebooted", "dying", "unknown"):
        host_local.add(call(tmp_path, uuid, subnet="10.0.0.0/29", rangeEnd="10.0.0.5"))
    living(tmp_path, "new", "newer", "newest")
    record = tmp_path / ".pods" / "rebooted"
    record.write_text(json.dumps({**json.loads(record.read_text()), "boot": "another"}))
    dying.close()
    for uuid, found in (("new", "10.0.0.3"), ("newer", "10.0.0.4"), ("newest", "10.0.0.5")):
        made = host_local.add(call(tmp_path, uuid, subnet="10.0.0.0/29", rangeEnd="10.0.0.5"))
        assert address(made) == f"{found}/29"
    with pytest.raises(NetworkError, match="no free address"):
        host_local.add(call(tmp_path, "late", subnet="10.0.0.0/29", rangeEnd="10.0.0.5"))


def test_others_leases_are_not_judged(tmp_path: Path) -> None:
    """In another directory, an unknown container may well be running."""
    theirs = str(tmp_path / "theirs")
    host_local.add(call(tmp_path, "a", subnet="10.0.0.0/30", dataDir=theirs))
    with pytest.raises(NetworkError, match="no free address"):
        host_local.add(call(tmp_path, "b", subnet="10.0.0.0/30", dataDir=theirs))


def test_one_that_was_killed_while_it_wrote(tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "10.0.0.2").write_text("")
    assert address(host_local.add(call(tmp_path, subnet="10.0.0.0/30"))) == "10.0.0.2/30"


def test_asking_for_one(tmp_path: Path) -> None:
    living(tmp_path, "a", "b")
    wish = "IgnoreUnknown=1;IP=10.0.0.9"
    assert address(host_local.add(call(tmp_path, "a", wish, subnet="10.0.0.0/24"))) == "10.0.0.9/24"
    for arguments, text in (
        (wish, r"10\.0\.0\.9: .*by pod a"),
        ("IP=10.0.1.9", r"address 10\.0\.1\.9: "),
        ("IP=nine", 'invalid IP address "nine"'),
        ("IP=10.0.0.1", r"address 10\.0\.0\.1: "),
    ):
        with pytest.raises(NetworkError, match=text):
            host_local.add(call(tmp_path, "b", arguments, subnet="10.0.0.0/24"))
    left = {path.name for path in (tmp_path / "n").iterdir()}
    assert left == {"10.0.0.9", "lock", "last_reserved_ip.0"}


def test_all_or_nothing(tmp_path: Path) -> None:
    living(tmp_path, "a", "b")
    ranges = [[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/126"}]]
    made = host_local.add(call(tmp_path, "a", ranges=ranges))
    assert [one["address"] for one in made["ips"]] == ["10.0.0.2/24", "fd00::2/126"]
    living(tmp_path, "c")
    host_local.add(call(tmp_path, "b", ranges=ranges))
    with pytest.raises(NetworkError, match=r"no free address .*fd00::1"):
        host_local.add(call(tmp_path, "c", ranges=ranges))
    assert not (tmp_path / "n" / "10.0.0.4").exists()


def test_dns_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 10.0.0.1\nsearch lan\n")
    made = host_local.add(
        call(tmp_path, subnet="10.0.0.0/24", resolvConf=str(tmp_path / "resolv.conf"))
    )
    assert made["dns"] == {"nameservers": ["10.0.0.1"], "search": ["lan"]}


@pytest.mark.parametrize(
    ("ipam", "text"),
    [
        ({}, '"ipam.subnet" or "ipam.ranges"'),
        ({"subnet": "10.0.0.1/24"}, "use 10.0.0.0/24"),
        ({"subnet": "10.0.0.0/31"}, "is too small"),
        ({"subnet": "10.0.0.0"}, "invalid network"),
        ({"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}, "rangeStart 10.0.1.1 is not in"),
        (
            {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.8"},
            "rangeStart is greater",
        ),
        ({"subnet": "10.0.0.0/24", "gateway": "up"}, 'invalid IP address "up"'),
        ({"ranges": [{"subnet": "10.0.0.0/24"}]}, "list of lists"),
        ({"ranges": [[5]]}, '"subnet"'),
    ],
)
def test_refused(tmp_path: Path, ipam: dict[str, Any], text: str) -> None:
    with pytest.raises(NetworkError, match=text):
        host_local.add(call(tmp_path, **ipam))
