"""Address files that cannot be read or written: no address stays assigned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, NetworkError
from ociruntime.pods.net import pod_records
from ociruntime.pods.net.builtin import host_local
from tests.unit.pods.net.test_leases import address, call, living

SUBNET = "10.0.0.0/24"


def leases(state: Path) -> set[str]:
    return {path.name for path in (state / "n").iterdir() if path.name[0] == "1"}


def test_the_last_address_cannot_be_recorded(tmp_path: Path) -> None:
    """The address file already exists: it is removed."""
    (tmp_path / "n" / "last_reserved_ip.0").mkdir(parents=True)
    with pytest.raises(NetworkError, match=r'network "n": assign address 10\.0\.0\.2: write '):
        host_local.add(call(tmp_path, subnet=SUBNET))
    assert leases(tmp_path) == set()


def test_an_address_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "write", full)
    path = tmp_path / "n" / "10.0.0.2"
    with pytest.raises(NetworkError, match=f'write "{path}": no space left on device'):
        host_local.add(call(tmp_path, subnet=SUBNET))
    assert leases(tmp_path) == set()


def test_a_directory_among_the_addresses(tmp_path: Path) -> None:
    path = tmp_path / "n" / "10.0.0.9"
    path.mkdir(parents=True)
    for action in (host_local.add, host_local.delete, host_local.check):
        with pytest.raises(NetworkError, match=f'"{path}": is a directory'):
            action(call(tmp_path, subnet=SUBNET))
    assert leases(tmp_path) == {"10.0.0.9"}


def test_check(tmp_path: Path) -> None:
    living(tmp_path, "a")
    host_local.add(call(tmp_path, "a", subnet=SUBNET))
    host_local.check(call(tmp_path, "a", subnet=SUBNET))
    with pytest.raises(NetworkError, match=r'network "n": pod b has no .* address'):
        host_local.check(call(tmp_path, "b", subnet=SUBNET))


def test_the_requested_address_of_a_dead_pod(tmp_path: Path) -> None:
    living(tmp_path, "new")
    host_local.add(call(tmp_path, "dead", "IP=10.0.0.9", subnet=SUBNET))
    made = host_local.add(call(tmp_path, "new", "IP=10.0.0.9", subnet=SUBNET))
    assert address(made) == "10.0.0.9/24"
    assert (tmp_path / "n" / "10.0.0.9").read_text().split() == ["new", "eth0"]


@pytest.mark.parametrize("name", ["n", "n/lock"])
def test_a_directory_that_cannot_be_locked(tmp_path: Path, name: str) -> None:
    if "/" in name:
        (tmp_path / name).mkdir(parents=True)
    else:
        (tmp_path / name).touch()
    with pytest.raises(NetworkError, match=str(tmp_path / "n")):
        host_local.add(call(tmp_path, subnet=SUBNET))


def test_it_is_only_a_plugin_for_addresses(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r'plugin "host-local" .* only be .* in "ipam"'):
        host_local.validate(call(tmp_path))
    assert host_local.tags(call(tmp_path)) == []


def test_a_damaged_record_counts_as_running(tmp_path: Path) -> None:
    """Its address is not given to another pod as long as the record exists."""
    living(tmp_path, "a")
    for content in ("{", "[]", '{"namespace": 5, "identity": [1, 2]}', '{"namespace": "/ns"}'):
        (tmp_path / ".pods" / "a").write_text(content)
        assert pod_records.dead_pods(str(tmp_path), {"a", "b"}) == {"b"}
    (tmp_path / ".pods" / "a").unlink()
    (tmp_path / ".pods" / "a").mkdir()
    assert pod_records.dead_pods(str(tmp_path), {"a", "b"}) == {"b"}
    with pytest.raises(HostError, match=f'remove the .* record "{tmp_path}/.pods/a"'):
        pod_records.forget(str(tmp_path), "a")
    pod_records.forget(str(tmp_path), "b")


def test_files_beside_the_records(tmp_path: Path) -> None:
    """The temporary file of a record being replaced occupies no port."""
    port = {"hostPort": 80, "containerPort": 80, "protocol": "tcp", "hostIP": ""}
    living(tmp_path, "a")
    record = (tmp_path / ".pods" / "a").read_text()
    pod_records.write_record(str(tmp_path), "b", "/ns", [1, 2], [port])
    os.rename(tmp_path / ".pods" / "b", tmp_path / ".pods" / ".b.new")
    pod_records.write_record(str(tmp_path), "c", "/ns", [1, 2], [port])
    assert (tmp_path / ".pods" / "a").read_text() == record
    assert pod_records.namesake(str(tmp_path / "none"), "a") == ""
