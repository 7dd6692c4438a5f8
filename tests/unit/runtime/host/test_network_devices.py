"""Network devices that cannot be moved, and those that change while they are moved."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.rtnetlink import ADDRESS, IFF_LOOPBACK, IFF_UP, ROUTE, Link, attribute
from ociruntime.runtime.host import network_devices as module
from ociruntime.runtime.host import network_namespace
from ociruntime.runtime.host.network_devices import Device
from ociruntime.runtime.host.network_namespace import NetworkNamespace

Fake = Any


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def device(**members: Any) -> Device:  # noqa: ANN401
    return Device(
        **{
            "name": "eth1",
            "wanted": "eth0",
            "temporary": "oci1",
            "identity": 42,
            "index": 7,
            "hardware": "02",
            "alternative_names": [],
            "up": True,
            "addresses": [],
            "routes": [],
            **members,
        }
    )


class Links:
    """The devices of a network namespace; the calls in ``errors`` fail."""

    def __init__(self, *links: Link, **errors: int) -> None:
        self.links = list(links)
        self.errors = errors
        self.calls: list[tuple[Any, ...]] = []

    def link(self, name: str) -> Link | None:
        return next((each for each in self.links if each.name == name), None)

    def link_at(self, index: int) -> Link | None:
        return next((each for each in self.links if each.index == index), None)

    def __getattr__(self, name: str) -> Fake:
        def call(*arguments: object) -> None:
            self.calls.append((name, *arguments))
            if name in self.errors:
                raise os_error(self.errors[name])

        return call


def namespace(*links: Link, found: Link | None = None, **errors: int) -> Fake:
    return SimpleNamespace(links=Links(*links, **errors), find=lambda identity, index=0: found)


LINK = Link(7, "eth1", IFF_UP, b"\x02")


@pytest.mark.parametrize(
    ("link", "wanted", "taken", "place", "words"),
    [
        (Link(1, "lo", IFF_LOOPBACK, b""), "lo", [], 'linux.netDevices["lo"]', "loopback"),
        (Link(7, "eth1", 0, b"", immutable=True), "eth1", [], 'linux.netDevices["eth1"]', "leave"),
        (LINK, "eth0", ["eth0"], 'linux.netDevices["eth1"].name', '"eth0" is already'),
        (LINK, "eth1", ["eth1"], 'linux.netDevices["eth1"]', '"eth1" is already'),
        (Link(7, "other", 0, b""), "eth0", [], 'linux.netDevices["eth1"]', 'device "other"'),
    ],
)
def test_refused_device(link: Link, wanted: str, taken: list[str], place: str, words: str) -> None:
    name = "eth1" if link.name == "other" else link.name
    target: Fake = Links(*(Link(9, each, 0, b"") for each in taken))
    with pytest.raises(ConfigError, match=words) as caught:
        module._check(name, link, wanted, target)
    assert caught.value.where == place


def test_chosen_name() -> None:
    """The kernel replaces a pattern by a free name, and no name is taken before a new namespace."""
    target: Fake = Links(Link(9, "eth%d", 0, b""))
    module._check("eth1", LINK, "eth%d", target)
    module._check("eth1", LINK, "eth0", None)
    module._check("eth1", None, "eth0", target)


@pytest.mark.parametrize(
    ("own", "target", "number", "words"),
    [
        (namespace(), namespace(), errno.ENODEV, "move the device"),
        (namespace(LINK), namespace(), errno.ENODEV, "move the device"),
        (namespace(LINK, move=errno.EPERM), namespace(), errno.EPERM, "move the device"),
        (namespace(LINK), namespace(found=LINK, rename=errno.EEXIST), errno.EEXIST, '"eth0"'),
        (namespace(LINK), namespace(found=LINK, set_up=errno.EIO), errno.EIO, "device up"),
    ],
)
def test_failed_move(own: Fake, target: Fake, number: int, words: str) -> None:
    """The error names the device, and what was tried."""
    records: list[Any] = []
    moved = device()
    with pytest.raises(HostError, match=words) as caught:
        module.carry_over([moved], own, target, 5, records.append)
    assert caught.value.errno == number
    assert 'linux.netDevices["eth1"]' in caught.value.message
    assert records[0] == [moved], "recorded before the first move"


def test_patterns_are_renamed_last() -> None:
    """The kernel must not choose a name that another device needs."""
    first, second = device(wanted="eth%d"), device(name="eth2", index=8, identity=43)
    own = namespace(LINK, Link(8, "eth2", 0, b""))
    target = namespace(found=LINK)
    module.carry_over([first, second], own, target, 5, lambda devices: None)
    renames = [call[2] for call in target.links.calls if call[0] == "rename"]
    assert renames == ["eth0", "eth%d"]


def address(*attributes: bytes) -> str:
    return (pack(ADDRESS, socket.AF_INET, 24, 0, 0, 0) + b"".join(attributes)).hex()


LOCAL = attribute(module.IFA_LOCAL, socket.inet_aton("10.0.0.1"))
PEER = attribute(module.IFA_ADDRESS, socket.inet_aton("10.0.0.2"))


@pytest.mark.parametrize(
    ("attributes", "text"),
    [((PEER, LOCAL), "10.0.0.1/24"), ((PEER,), "10.0.0.2/24"), ((LOCAL,), "10.0.0.1/24")],
)
def test_refused_address(attributes: tuple[bytes, ...], text: str) -> None:
    """A point-to-point address without a peer has no IFA_ADDRESS."""
    there: Fake = Links(request=errno.EINVAL)
    with pytest.raises(HostError, match=f"address {text}: invalid argument"):
        module._give_addresses(device(addresses=[address(*attributes)]), there, 7, True)


def test_address_that_is_there_already() -> None:
    there: Fake = Links(request=errno.EEXIST)
    module._give_addresses(device(addresses=[address(LOCAL), address(PEER)]), there, 7, True)
    assert len(there.calls) == 2


def route(*attributes: bytes, length: int = 0) -> str:
    header = pack(ROUTE, socket.AF_INET, length, 0, 0, 0, 0, 0, 0, 0)
    return (header + b"".join(attributes)).hex()


TO = attribute(module.RTA_DST, socket.inet_aton("10.1.0.0"))
VIA = attribute(module.RTA_GATEWAY, socket.inet_aton("10.0.0.9"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (route(TO, length=16), "route 10.1.0.0/16 is lost"),
        (route(TO, VIA, length=16), "route 10.1.0.0/16 via 10.0.0.9 is lost"),
        (route(VIA), "route default via 10.0.0.9 is lost"),
    ],
)
def test_lost_route(body: str, text: str) -> None:
    there: Fake = Links(request=errno.ENETUNREACH)
    (warning,) = module._give_routes([(device(routes=[body]), 7)], there)
    assert text in warning
    assert warning.endswith("network is unreachable")


def test_restored_device() -> None:
    """Names that were added, and another hardware address, do not come back with it."""
    links: Fake = Links()
    link = Link(7, "oci1", 0, b"\x03", alternative_names=[b"kept", b"new"])
    module._restore(device(alternative_names=[b"kept".hex()]), link, links)
    assert links.calls == [("remove_alternative_name", 7, b"new"), ("set_hardware", 7, b"\x02")]
    links.calls.clear()
    module._restore(
        device(hardware="03", alternative_names=[b"new".hex(), b"kept".hex()]), link, links
    )
    assert links.calls == []


def test_device_without_an_identity() -> None:
    """Without sysfs, only a device that has kept index and name counts as the same."""
    home: Fake = namespace(LINK)
    found = module._bring_back(device(identity=0), home, namespace(), namespace(), (5, 6))
    assert found is LINK
    assert home.links.calls == []
    home = namespace(Link(7, "other", 0, b""))
    assert module._bring_back(device(identity=0), home, namespace(), namespace(), (5, 6)) is None


def test_index_of_another_device_in_transit() -> None:
    """The kernel destroys it with the temporary namespace."""
    source, transit = namespace(found=LINK), namespace(found=None)
    assert module._carry_home(device(), namespace(), source, transit, (5, 6)) is None
    assert source.links.calls == [("move", 7, 5, "oci1")]


def test_no_temporary_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise os_error(errno.ENOSPC)

    monkeypatch.setattr(module, "transit_namespace", fail)
    with pytest.raises(HostError, match="namespace: no space left"):
        module.bring_back([device()], namespace(), namespace())


class Sysfs(NetworkNamespace):
    """A network namespace with a directory in place of /sys/class/net."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.links: Fake = Links(Link(7, "eth1", 0, b""), Link(8, "eth2", 0, b""))
        for index, name in ((7, "eth1"), (8, "eth2")):
            (path / name).mkdir()
            (path / name / "ifindex").write_text(f"{index}\n")
        (path / "bonding_masters").touch()
        self._devices = os.open(path, os.O_RDONLY)

    def inode(self, name: str) -> int:
        return (self.path / name).stat().st_ino


def test_find(tmp_path: Path) -> None:
    """By the last known index or, if another device has it, by a look at all."""
    here = Sysfs(tmp_path)
    for name, index in (("eth1", 7), ("eth1", 8), ("eth2", 0), ("eth2", 99)):
        found = here.find(here.inode(name), index)
        assert found is not None
        assert found.name == name
    assert here.find(1 << 40, 7) is None
    assert here.find(0, 7) is None


def test_device_that_is_renamed_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that has missed a name is repeated, but not for ever."""
    here = Sysfs(tmp_path)
    identity = here.inode("eth2")
    listings: list[list[str]] = []

    def listdir(directory: int) -> list[str]:
        listings.append(["gone"] if len(listings) < 2 else ["gone", "eth2"])
        return listings[-1]

    monkeypatch.setattr(os, "listdir", listdir)
    found = here.find(identity)
    assert found is not None
    assert found.index == 8
    assert len(listings) == 3
    here.links.links[0].name = "renamed"
    monkeypatch.setattr(network_namespace, "_TRIES", 5)
    listings[:] = [[], []]
    assert here.find(identity, 7) is None, "its index leads to a name that is gone"
    assert len(listings) == 2


def test_no_sysfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices have no identity then."""
    blind: Fake = NetworkNamespace.__new__(NetworkNamespace)
    blind.links, blind._devices = Links(LINK), -1
    assert blind.identity("eth1") == 0
    assert blind.find(42, 7) is None
    refusing = SimpleNamespace(oci_own_sysfs=lambda: -errno.EPERM)
    monkeypatch.setattr("ociruntime._system_calls.lib", refusing)
    assert network_namespace._open_devices() == -1


def test_sysfs_without_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    empty = SimpleNamespace(oci_own_sysfs=lambda: os.open(tmp_path, os.O_RDONLY))
    monkeypatch.setattr("ociruntime._system_calls.lib", empty)
    assert network_namespace._open_devices() == -1
    assert len(os.listdir("/proc/self/fd")) == before
