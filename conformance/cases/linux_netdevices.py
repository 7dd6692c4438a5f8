"""config-linux.md: network devices."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context

UP = 1


@contextmanager
def lent(c: Context, *names: str) -> Iterator[None]:
    """Create network devices in the runtime's namespace; remove them at the end.

    Each device is one end of a veth pair.  Its peer ``peer-NAME`` stays in the runtime's namespace:
    removing the peer removes the device wherever it is.
    """
    c.need_root()
    made = []
    try:
        for name in names:
            c.tool("ip", "link", "add", name, "type", "veth", "peer", "name", f"peer-{name}")
            made.append(f"peer-{name}")
        yield
    finally:
        for name in set(made) & interfaces():
            c.tool("ip", "link", "del", name, may_fail=True)


def interfaces() -> set[str]:
    """Return the names of the interfaces in the runtime's network namespace."""
    return {name for _, name in socket.if_nameindex()}


def with_devices(c: Context, **devices: str | None) -> Bundle:
    """Return a bundle with these network devices.

    Each value is the device's new name, or None.
    """
    bundle = c.bundle()
    bundle.linux["netDevices"] = {
        old: {} if new is None else {"name": new} for old, new in devices.items()
    }
    return bundle


def inside(c: Context, bundle: Bundle) -> Json:
    """Return the interfaces that the program sees."""
    found: Json = c.probe(bundle)["interfaces"]
    return found


def refused(c: Context, bundle: Bundle, what: str) -> None:
    """Require that create fails for ``bundle``, but not for one with a valid network device."""
    with lent(c, "any0"):
        c.create(with_devices(c, any0=None)).delete("--force")
    c.refused(bundle, what)


def enter(c: Context, box: Container, *words: str) -> str:
    """Run ip(8) in the container's network namespace; return its output."""
    return c.tool("nsenter", "-t", str(box.pid), "-n", "ip", *words).out


@case("LNX-NETDEV-01")
def moves(c: Context) -> None:
    """A listed device is moved from the runtime's network namespace into the container's."""
    with lent(c, "oct0"):
        box = c.create(with_devices(c, oct0=None))
        c.expect("oct0" not in interfaces(), "oct0 is still in the runtime's namespace")
        c.expect("oct0" in enter(c, box, "-o", "link", "show"), "oct0 is not inside")


@case("LNX-NETDEV-01")
def several_move(c: Context) -> None:
    """All listed devices are moved into the container; other devices are not."""
    with lent(c, "oct0", "oct1", "oct2"):
        found = set(inside(c, with_devices(c, oct0=None, oct1=None)))
        c.equal(found, {"lo", "oct0", "oct1"}, "interfaces inside")
        c.expect("oct2" in interfaces(), "a device that is not listed is gone")


@case("LNX-NETDEV-01")
def moves_to_joined_namespace(c: Context) -> None:
    """A listed device is moved into a joined network namespace."""
    with lent(c, "oct0"):
        other = c.create()
        bundle = with_devices(c, oct0=None).namespace("network", other.proc("ns/net"))
        c.expect("oct0" in inside(c, bundle), "oct0 is not inside")
        c.expect("oct0" in enter(c, other, "-o", "link", "show"), "oct0 is in no joined namespace")


@case("LNX-NETDEV-02")
def keeps_name(c: Context) -> None:
    """A device without a new name keeps its name inside the container."""
    with lent(c, "oct0"):
        c.equal(set(inside(c, with_devices(c, oct0=None))), {"lo", "oct0"}, "interfaces inside")


@case("LNX-NETDEV-02")
def gets_name(c: Context) -> None:
    """A device with a new name has this name inside the container."""
    with lent(c, "oct0"):
        c.equal(set(inside(c, with_devices(c, oct0="box0"))), {"lo", "box0"}, "interfaces inside")


@case("LNX-NETDEV-03")
def missing(c: Context) -> None:
    """A device that does not exist is rejected, and the other devices are not moved."""
    with lent(c, "oct0"):
        refused(c, with_devices(c, oct0=None, oct1=None), "a missing network device")
        c.expect("oct0" in interfaces(), "the other device is gone")


@case("LNX-NETDEV-03")
def no_own_namespace(c: Context) -> None:
    """A device is rejected if the container shares the runtime's network namespace."""
    with lent(c, "oct0"):
        bundle = with_devices(c, oct0=None).without_namespace("network")
        refused(c, bundle, "a network device without a network namespace")
        c.expect("oct0" in interfaces(), "the device is gone")


@case("LNX-NETDEV-03")
def loopback(c: Context) -> None:
    """The loopback device is rejected because it cannot be moved."""
    refused(c, with_devices(c, lo="box0"), "lo as a network device")
    c.expect("lo" in interfaces(), "the runtime's loopback device is gone")


@table(
    ("slash", "a/b"),
    ("long", "sixteen-letters-"),
    ("dot", "."),
    ("blank", "a b"),
    ids="LNX-NETDEV-03",
)
def impossible_name(c: Context, _what: str, name: str) -> None:
    """An invalid device name is rejected ({0})."""
    with lent(c, "oct0"):
        refused(c, with_devices(c, oct0=name), f"a network device called {name!r}")
        c.expect("oct0" in interfaces(), "the device is gone")


@case("LNX-NETDEV-04")
def name_taken(c: Context) -> None:
    """A name that already exists in a new namespace is rejected; the device is not moved."""
    with lent(c, "oct0"):
        refused(c, with_devices(c, oct0="lo"), "a second lo")
        c.expect("oct0" in interfaces(), "the device is gone")


@case("LNX-NETDEV-04")
def name_taken_in_joined_namespace(c: Context) -> None:
    """A name that already exists in a joined namespace is rejected; the device is not moved."""
    with lent(c, "oct0"):
        other = c.create()
        enter(c, other, "link", "add", "box0", "type", "veth", "peer", "name", "other")
        bundle = with_devices(c, oct0="box0").namespace("network", other.proc("ns/net"))
        refused(c, bundle, "a name that is taken")
        c.expect("oct0" in interfaces(), "the device is gone")


@case("LNX-NETDEV-04")
def name_twice(c: Context) -> None:
    """Two devices with the same new name are rejected, and neither is moved."""
    with lent(c, "oct0", "oct1"):
        refused(c, with_devices(c, oct0="box0", oct1="box0"), "one name for two devices")
        c.expect({"oct0", "oct1"} <= interfaces(), "a device is gone")


@case("LNX-NETDEV-05")
def pattern(c: Context) -> None:
    """The kernel expands the new name box%d to box0."""
    with lent(c, "oct0"):
        found = set(inside(c, with_devices(c, oct0="box%d")))
        c.equal(found, {"lo", "box0"}, "interfaces inside")


@case("LNX-NETDEV-05")
def pattern_twice(c: Context) -> None:
    """Two devices with the same name pattern get different names."""
    with lent(c, "oct0", "oct1"):
        found = set(inside(c, with_devices(c, oct0="box%d", oct1="box%d")))
        c.equal(found, {"lo", "box0", "box1"}, "interfaces inside")


@case("LNX-NETDEV-05")
def pattern_beside_taken_name(c: Context) -> None:
    """The kernel expands the new name box%d to box1 if the namespace already has box0."""
    with lent(c, "oct0"):
        other = c.create()
        enter(c, other, "link", "add", "box0", "type", "veth", "peer", "name", "other")
        bundle = with_devices(c, oct0="box%d").namespace("network", other.proc("ns/net"))
        c.expect("box1" in inside(c, bundle), "there is no box1 inside")


@table(
    ("mtu", ("mtu", "1400"), 1400),
    ("mac", ("address", "02:00:00:00:12:34"), "02:00:00:00:12:34"),
    ids="LNX-NETDEV-06",
)
def keeps_attribute(c: Context, key: str, words: tuple[str, ...], wanted: object) -> None:
    """The device keeps its {0}."""
    with lent(c, "oct0"):
        c.tool("ip", "link", "set", "oct0", *words)
        found = inside(c, with_devices(c, oct0="box0"))
        c.equal(found.get("box0", {}).get(key), wanted, key)


@table(("ipv4", "10.9.8.7/24"), ("ipv6", "fd00:9::7/64"), ids="LNX-NETDEV-06")
def keeps_address(c: Context, _family: str, address: str) -> None:
    """A permanent global {0} address is kept, with its prefix length."""
    with lent(c, "oct0"):
        c.tool("ip", "address", "add", address, "dev", "oct0")
        c.tool("ip", "link", "set", "oct0", "up")
        addresses = inside(c, with_devices(c, oct0=None)).get("oct0", {}).get("addresses", [])
        c.expect(address in addresses, f"addresses inside: {addresses}")


@case("LNX-NETDEV-06")
def keeps_all_addresses(c: Context) -> None:
    """A renamed device keeps all its addresses, even if it was down."""
    wanted = {"10.9.8.7/24", "10.9.8.9/32", "192.0.2.1/30"}
    with lent(c, "oct0"):
        for address in wanted:
            c.tool("ip", "address", "add", address, "dev", "oct0")
        addresses = inside(c, with_devices(c, oct0="box0")).get("box0", {}).get("addresses", [])
        c.expect(wanted <= set(addresses), f"addresses inside: {addresses}")


@table(("up",), ("down",), ids="LNX-NETDEV-07")
def is_up(c: Context, before: str) -> None:
    """A device that was {0} outside is up inside."""
    with lent(c, "oct0"):
        c.tool("ip", "link", "set", "oct0", before)
        found = inside(c, with_devices(c, oct0=None))
        c.expect(found.get("oct0", {}).get("flags", 0) & UP, "oct0 is not up inside")


@case("LNX-NETDEV-08")
def left_alone(c: Context) -> None:
    """Changes made to the device after create are not undone."""
    with lent(c, "oct0"):
        c.tool("ip", "address", "add", "10.9.8.7/24", "dev", "oct0")
        bundle = with_devices(c, oct0=None).args("/bin/probe", "facts", "--", "sleep")
        box = c.create(bundle)
        c.expect("oct0" in enter(c, box, "-o", "link", "show"), "oct0 is not inside")
        enter(c, box, "address", "flush", "dev", "oct0")
        enter(c, box, "link", "set", "oct0", "mtu", "1300", "down")
        box.state()
        box.start()
        found = box.wait_for_reports(1)[0]["interfaces"].get("oct0", {})
        c.equal(found.get("mtu"), 1300, "mtu")
        c.equal(found.get("addresses"), [], "addresses")
        c.expect(not found["flags"] & UP, "the device was set up again")


@case("LNX-NETDEV-09")
def not_moved_back(c: Context) -> None:
    """After delete, the device stays in the joined namespace."""
    with lent(c, "oct0"):
        other = c.create()
        bundle = with_devices(c, oct0="box0").namespace("network", other.proc("ns/net"))
        box = c.started(bundle)
        box.kill()
        box.wait()
        box.delete()
        c.equal(interfaces() & {"oct0", "box0"}, set(), "in the runtime's namespace")
        c.expect("box0" in enter(c, other, "-o", "link", "show"), "it is not in the joined one")
