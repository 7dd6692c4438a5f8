"""Network devices that move into a container, in a network namespace of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.runtime.host.network_namespace import NetworkNamespace
from tests.support import isolation, processes
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import lacking
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")

MAC = "02:00:00:00:00:07"


@pytest.fixture(autouse=True)
def _own_network(nothing_left: None) -> Iterator[None]:
    """Give the runtime a host network with only ``lo``."""
    with isolation.own_network():
        yield


def ip(*words: str, inside: Container | None = None) -> str:
    enter = ["nsenter", "-t", str(inside.pid), "-n"] if inside else []
    return subprocess.run(
        [*enter, "ip", *words], check=True, capture_output=True, text=True, timeout=20
    ).stdout


def links(inside: Container | None = None) -> dict[str, Any]:
    """Return the devices by name, without lo and peers; in our namespace or in a container's."""
    found = json.loads(ip("-json", "link", "show", inside=inside))
    return {
        each["ifname"]: each for each in found if not each["ifname"].startswith(("lo", "peer-"))
    }


def addresses(name: str, inside: Container | None = None) -> dict[str, Any]:
    (found,) = json.loads(ip("-json", "address", "show", "dev", name, inside=inside))
    return {f"{each['local']}/{each['prefixlen']}": each for each in found["addr_info"]}


def routes(family: str, inside: Container | None = None) -> set[tuple[Any, ...]]:
    """Return (destination, gateway, metric) of routes that were added explicitly."""
    found = json.loads(ip("-json", family, "route", "show", "table", "all", inside=inside))
    return {
        (each["dst"], each.get("gateway"), each.get("metric"), each.get("table", "main"))
        for each in found
        if each.get("protocol") != "kernel" and each.get("type", "unicast") == "unicast"
    }


def device(name: str, *settings: str, inside: Container | None = None) -> None:
    """Create a veth pair; its other end stays, and is not listed here."""
    peer = f"peer-{name}"
    ip("link", "add", name, *settings, "type", "veth", "peer", "name", peer, inside=inside)
    ip("link", "set", peer, "up", inside=inside)


def with_devices(bundle: Bundle, **devices: str | None) -> Bundle:
    bundle.linux["netDevices"] = {
        old: {} if new is None else {"name": new} for old, new in devices.items()
    }
    return bundle


def dressed(name: str = "test0") -> None:
    """Create a device with every kind of attribute, address and route."""
    device(name, "address", MAC, "mtu", "1400")
    ip("link", "set", name, "up", "txqueuelen", "77", "alias", "an alias")
    for address in ("10.1.2.3/24", "10.1.2.4/24", "fd00::7/64"):
        ip("address", "add", address, "dev", name)
    ip("address", "add", "10.9.0.1", "peer", "10.9.0.2/32", "dev", name, "label", f"{name}:p")
    ip("address", "add", "10.3.0.1/24", "dev", name, "scope", "link")
    ip("address", "add", "10.4.0.1/24", "dev", name, "valid_lft", "600", "preferred_lft", "600")
    ip("route", "add", "default", "via", "10.1.2.1", "dev", name, "metric", "50")
    ip("route", "add", "10.77.0.0/16", "via", "10.1.2.9", "dev", name, "table", "100")
    ip("route", "add", "10.78.0.0/16", "dev", name, "src", "10.1.2.4", "mtu", "1300")
    ip("-6", "route", "add", "default", "via", "fd00::1", "dev", name)


KEPT = {"10.1.2.3/24", "10.1.2.4/24", "10.9.0.1/32", "fd00::7/64"}


def snapshot(name: str = "test0") -> tuple[Any, ...]:
    """Return what must be the same after the device was moved back; lifetimes excepted."""
    link = links()[name]
    return (
        link["flags"],
        link["mtu"],
        link["address"],
        link.get("ifalias"),
        {address: addresses(name)[address].get("label") for address in KEPT},
        routes("-4"),
        routes("-6"),
    )


@pytest.mark.parametrize("name", [None, "inner0"])
def test_keeps_what_it_has(container: MakeContainer, bundle: MakeBundle, name: str | None) -> None:
    """LNX-NETDEV-06, and routes."""
    dressed()
    before = (routes("-4"), routes("-6"))
    one = container(with_devices(bundle(), test0=name)).created()
    assert links() == {}
    ((found, link),) = links(one).items()
    assert found == (name or "test0")
    assert (link["mtu"], link["address"], link["ifalias"], link["txqlen"]) == (
        1400,
        MAC,
        "an alias",
        77,
    )
    kept = {text: each for text, each in addresses(found, one).items() if each["scope"] == "global"}
    assert set(kept) == KEPT
    assert kept["10.9.0.1/32"]["address"] == "10.9.0.2"
    assert not kept["fd00::7/64"].get("tentative")
    assert kept["10.1.2.3/24"]["label"] == found
    assert (routes("-4", one), routes("-6", one)) == before


def test_exchanged_names(container: MakeContainer, bundle: MakeBundle) -> None:
    device("test0", "mtu", "1400")
    device("test1", "mtu", "1500")
    one = container(with_devices(bundle(), test0="test1", test1="test0")).created()
    assert {name: link["mtu"] for name, link in links(one).items()} == {
        "test1": 1400,
        "test0": 1500,
    }


def test_settings_of_the_device(container: MakeContainer, bundle: MakeBundle) -> None:
    """A sysctl may be one of a device that moves."""
    device("test0")
    one = with_devices(bundle(), test0="inner0")
    one.linux["sysctl"] = {"net.ipv4.conf.inner0.forwarding": "1"}
    made = container(one).created()
    told = [
        "nsenter",
        "-t",
        str(made.pid),
        "-n",
        "cat",
        "/proc/sys/net/ipv4/conf/inner0/forwarding",
    ]
    assert subprocess.run(told, capture_output=True, text=True).stdout == "1\n"


def test_route_that_is_there_already(container: MakeContainer, bundle: MakeBundle) -> None:
    """In a joined namespace: lost settings cause a warning, and the container runs."""
    dressed()
    other = container().created()
    device("first0", inside=other)
    ip("link", "set", "first0", "up", inside=other)
    ip("address", "add", "10.1.2.100/24", "dev", "first0", inside=other)
    ip("route", "add", "default", "dev", "first0", "metric", "50", inside=other)
    one = with_devices(bundle(), test0=None).namespace("network", f"/proc/{other.pid}/ns/net")
    made = container(one)
    log = one.path / "log"
    made.runtime = made.runtime.logging_to(log)
    made.create().ok()
    assert "route default via 10.1.2.1 is lost: file exists" in log.read_text()
    assert "10.77.0.0/16" in {route[0] for route in routes("-4", other)}


@pytest.mark.parametrize("joined", [False, True])
def test_failing_create_brings_it_back(
    container: MakeContainer, bundle: MakeBundle, joined: bool
) -> None:
    """With its name, addresses and routes."""
    dressed()
    device("test1")
    before = snapshot()
    one = with_devices(bundle(), test0="inner0", test1="inner%d")
    one.hooks["createRuntime"] = [{"path": "/bin/false"}]
    other = container().created()
    if joined:
        one.namespace("network", f"/proc/{other.pid}/ns/net")
    container(one).create().failed("hooks.createRuntime[0]")
    assert snapshot() == before
    assert set(links()) == {"test0", "test1"}
    assert "UP" not in links()["test1"]["flags"]
    assert links(other) == {}


def test_failing_create_where_sysfs_must_be_mounted_apart(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, work: Path
) -> None:
    """A filter denies fsopen(2)."""
    dressed()
    before = snapshot()
    one = with_devices(bundle(), test0="inner0")
    one.hooks["createRuntime"] = [{"path": "/bin/false"}]
    made = container(one)
    made.runtime = lacking(runtime, work, "filter")
    made.create().failed("hooks.createRuntime[0]")
    assert snapshot() == before


def stuck_create(one: Container, moved: str) -> subprocess.Popen[bytes]:
    """A create that hangs in a hook after the move."""
    one.bundle.hooks["createRuntime"] = [{"path": "/bin/sleep", "args": ["sleep", "600"]}]
    one.bundle.save()
    process = one.runtime.popen("create", "--bundle", str(one.bundle.path), one.id)
    directory = one.runtime.root / f".creating-{one.id}"

    def hangs() -> bool:
        words = [processes.describe(pid) for pid in processes.descendants()]
        return any("sleep" in text and "600" in text for text in words)

    assert processes.until(lambda: (directory / "network.json").exists() and hangs())
    assert moved not in links()
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    processes.end({pid for pid in processes.descendants() if "600" in processes.describe(pid)})


@pytest.mark.parametrize("clearing", ["delete", "create"])
def test_killed_create_in_a_joined_namespace(
    container: MakeContainer, bundle: MakeBundle, clearing: str
) -> None:
    """The next command of that id moves it back."""
    dressed()
    before = snapshot()
    other = container().created()
    one = container(
        with_devices(bundle(), test0="inner%d").namespace("network", f"/proc/{other.pid}/ns/net")
    )
    end(stuck_create(one, "test0"))
    assert set(links(other)) == {"inner0"}
    if clearing == "create":
        del one.bundle.linux["netDevices"]
        one.bundle.hooks.clear()
        one.created()
    else:
        one.delete("--force").silent()
    assert snapshot() == before
    assert links(other) == {}


def test_killed_create_and_the_namespace_with_it(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """The kernel moves hardware back, down and with its old name; here the test does."""
    dressed()
    before = snapshot()
    one = container(with_devices(bundle(), test0="inner0"))
    process = stuck_create(one, "test0")
    home = os.stat("/proc/self/ns/net").st_ino
    (namespace,) = {
        os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        for pid in processes.descendants()
        if os.stat(f"/proc/{pid}/ns/net").st_ino != home
    }
    end(process)
    enter = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace}"]
    send = ["ip", "link", "set", "inner0", "netns", str(os.getpid())]
    subprocess.run([*enter, *send], check=True)
    os.close(namespace)
    device("bystander", "address", MAC)
    one.delete("--force").silent()
    assert snapshot() == before
    assert set(links()) == {"test0", "bystander"}


def test_killed_at_any_moment(container: MakeContainer, bundle: MakeBundle) -> None:
    """Nothing stays in a joined namespace, whichever step was the last."""
    dressed()
    before = snapshot()
    other = container().created()
    one = container(
        with_devices(bundle(), test0="inner0").namespace("network", f"/proc/{other.pid}/ns/net")
    )
    one.bundle.save()
    whole = 0
    for step in range(40):
        process = one.runtime.popen("create", "--bundle", str(one.bundle.path), one.id)
        try:
            process.wait(0.004 + step * 0.001)
            whole += 1
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        one.runtime("delete", "--force", one.id).silent()
        if "inner0" in links(other):  # the create was whole: then it stays (LNX-NETDEV-09)
            ip("link", "del", "inner0", inside=other)
            dressed()
        assert snapshot() == before, step
        assert links(other) == {}


def test_one_that_cannot_come_back(container: MakeContainer, bundle: MakeBundle) -> None:
    """Its name was reused meanwhile: the others are moved back nevertheless."""
    device("test0")
    device("test1", "address", MAC)
    ip("link", "set", "test1", "up")
    other = container().created()
    one = container(
        with_devices(bundle(), test0="inner0", test1="inner1").namespace(
            "network", f"/proc/{other.pid}/ns/net"
        )
    )
    end(stuck_create(one, "test1"))
    ip("link", "add", "test0", "type", "veth", "peer", "name", "peer-other")
    one.delete("--force").failed("test0", "move the device", "exists")
    assert "UP" in links()["test1"]["flags"]
    ip("link", "del", "test0")
    one.delete("--force").silent()
    assert set(links()) == {"test0", "test1"}
    assert links(other) == {}


def test_namesake_with_the_same_address(container: MakeContainer, bundle: MakeBundle) -> None:
    """For example a VLAN and its parent: it is not taken for the moved device."""
    device("under", "address", MAC)
    device("upper", "address", MAC)
    one = container(with_devices(bundle(), upper="under"))
    end(stuck_create(one, "upper"))
    assert "upper" in one.delete("--force").ok().err  # it has ended with its namespace
    assert set(links()) == {"under"}


def test_devices_of_a_container_stay(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-NETDEV-09: the record of a creation is not used later."""
    device("test0")
    other = container().created()
    one = container(
        with_devices(bundle(), test0=None).namespace("network", f"/proc/{other.pid}/ns/net")
    ).started()
    one.delete("--force").silent()
    assert set(links(other)) == {"test0"}
    assert links() == {}


def test_further_name(container: MakeContainer, bundle: MakeBundle) -> None:
    device("test0")
    ip("link", "property", "add", "dev", "test0", "altname", "alsotest0")
    one = container(with_devices(bundle(), alsotest0=None))
    one.create().failed("linux.netDevices", "alternative name", "alsotest0")


def test_device_that_cannot_move(container: MakeContainer, bundle: MakeBundle) -> None:
    """A bridge; the others are not moved."""
    dressed()
    before = snapshot()
    ip("link", "add", "bridge0", "type", "bridge")
    one = container(with_devices(bundle(), test0=None, bridge0=None))
    one.create().failed("linux.netDevices", "cannot leave", "bridge0")
    assert snapshot() == before


def test_own_namespace_by_path(container: MakeContainer, bundle: MakeBundle) -> None:
    device("test0")
    one = with_devices(bundle(), test0="inner0")
    one.namespace("network", f"/proc/{os.getpid()}/ns/net")
    container(one).create().failed("linux.netDevices", "own network namespace")
    assert set(links()) == {"test0"}


def test_user_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    """The network namespace is then owned by the user namespace."""
    device("test0")
    one = with_devices(bundle(), test0=None).namespace("user")
    mapping = [{"containerID": 0, "hostID": 100000, "size": 1000}]
    one.linux["uidMappings"] = one.linux["gidMappings"] = mapping
    one.rootfs.chmod(0o755)
    made = container(one).created()
    assert set(links(made)) == {"test0"}


def test_foreground_run(container: MakeContainer, bundle: MakeBundle) -> None:
    device("test0")
    one = with_devices(bundle("cat", "/proc/net/dev"), test0="inner0")
    assert "inner0:" in container(one).run().ok().out


def test_nothing_is_made_before_the_refusal(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    one = container(with_devices(bundle(), missing0=None))
    one.create().failed("linux.netDevices", "missing0")
    assert not list(one.runtime.root.glob(f"*{one.id}*"))


RENAME = """
import itertools, sys
from ociruntime.base.rtnetlink import Rtnetlink
links = Rtnetlink()
for name in itertools.cycle(["test1", "test2", "zz"]):
    links.rename(int(sys.argv[1]), name)
"""


def test_a_device_that_is_renamed_all_the_time_is_found() -> None:
    """A process with CAP_NET_ADMIN can do that; one listing may miss it."""
    for number in range(20):
        device(f"other{number}")
    device("test0")
    namespace = NetworkNamespace()
    identity = namespace.identity("test0")
    link = namespace.find(identity)
    assert link is not None
    assert link.name == "test0"
    # A process of its own: a thread would take turns with us, and rename in each of our gaps.
    renaming = subprocess.Popen([sys.executable, "-c", RENAME, str(link.index)])
    try:
        for _ in range(300):
            found = namespace.find(identity, link.index)
            assert found is not None
            assert found.index == link.index
        assert namespace.find(identity + 1, link.index) is None
        assert renaming.poll() is None
    finally:
        renaming.kill()
        renaming.wait()
