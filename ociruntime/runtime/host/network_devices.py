"""Move network devices into a container, and back (config-linux.md#network-devices).

A device that moves to another namespace goes down, and loses its addresses and routes.  Therefore
addresses and routes are read before the move and restored after it, in both directions.  A device
is moved under a temporary name, so that two devices can swap names, or the kernel can choose the
new name (``eth%d``).

When a device is moved back, its inode number in sysfs identifies it (``network_namespace.py``):
another process in a joined namespace can create a device with any name, index and hardware address.
The device first moves to a new, empty namespace, where no other process can replace it while it is
checked.

When the last process of a namespace exits, the kernel removes the namespace at once.  The virtual
devices in it are destroyed; hardware devices move to the initial network namespace, but without
their addresses.
"""

from __future__ import annotations

import posix
from _socket import inet_ntop
from collections.abc import Callable, Mapping
from errno import EEXIST, ENODEV
from struct import calcsize, pack, unpack_from
from typing import Any

from ociruntime.base.errors import ConfigError, HostError, reason
from ociruntime.base.rtnetlink import (
    ADDRESS,
    IFF_LOOPBACK,
    IFF_UP,
    NLM_F_DUMP,
    NLM_F_NEW,
    OWN_NAMESPACE,
    ROUTE,
    RTM_GETADDR,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWROUTE,
    Link,
    Rtnetlink,
    attribute,
    attributes,
)
from ociruntime.runtime.host.network_namespace import NetworkNamespace, transit_namespace
from ociruntime.runtime.spec.config_types import NetDevice

AF_INET, AF_INET6 = 2, 10

IFA_LABEL = 3
IFA_FLAGS = 8
IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST, IFA_CACHEINFO, IFA_RT_PRIORITY, IFA_PROTO = 1, 2, 4, 6, 9, 11
KEPT_OF_ADDRESS = (
    IFA_ADDRESS,
    IFA_LOCAL,
    IFA_LABEL,
    IFA_BROADCAST,
    IFA_CACHEINFO,
    IFA_RT_PRIORITY,
    IFA_PROTO,
)
SCOPE_GLOBAL = 0
IFA_F_NODAD = 0x02
IFA_F_PERMANENT = 0x80
IFA_F_SETTABLE = 0x02 | 0x10 | 0x200 | 0x400  # NODAD, HOMEADDRESS, NOPREFIXROUTE, MCAUTOJOIN

RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_VIA, RTA_EXPIRES = 1, 4, 5, 18, 23
# RTA_DST, _SRC, _GATEWAY, _PRIORITY, _PREFSRC, _METRICS, _FLOW, _TABLE, _VIA, _PREF, _ENCAP_TYPE,
# _ENCAP
KEPT_OF_ROUTE = (1, 2, 5, 6, 7, 8, 11, 15, 18, 20, 21, 22)
RT_TABLE_LOCAL = 255
RTM_F_CLONED = 0x200
RTNH_F_ONLINK = 0x4
AUTOMATIC_ROUTES = (1, 2, 9)  # RTPROT_REDIRECT, _KERNEL, _RA: the kernel adds these routes

HINTS = {
    1: "requires CAP_NET_ADMIN in the runtime's network namespace",
    22: "the driver does not let the device leave its network namespace",
}


class Device:
    """A network device, with everything needed to move it into a namespace and back."""

    __slots__ = (
        "addresses",
        "alternative_names",
        "hardware",
        "identity",
        "index",
        "name",
        "routes",
        "temporary",
        "there",
        "up",
        "wanted",
    )

    def __init__(
        self,
        *,
        name: str,
        wanted: str,
        temporary: str,
        identity: int,
        index: int,
        hardware: str,
        alternative_names: list[str],
        up: bool,
        addresses: list[str],
        routes: list[str],
        there: int = 0,
    ) -> None:
        self.name = name  # name in the runtime's namespace
        self.wanted = wanted  # name in the container's namespace
        self.temporary = temporary  # name during the move
        self.identity = identity  # NetworkNamespace.identity; 0: unknown
        self.index = index  # in the runtime's namespace, before it was moved
        self.hardware = hardware  # hardware address in hexadecimal
        self.alternative_names = alternative_names  # in hexadecimal
        self.up = up
        self.addresses = addresses  # bodies of RTM_NEWADDR messages in hexadecimal, without index
        self.routes = routes  # bodies of RTM_NEWROUTE messages in hexadecimal
        self.there = there  # index in the container's namespace, 0: unknown

    def record(self) -> dict[str, Any]:
        """Return the device's attributes as a dict that can be stored as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def where(name: str) -> str:
    """Return a device's JSON path: ``linux.netDevices["eth0"]``."""
    return f'linux.netDevices["{name}"]'


def survey(
    configured: Mapping[str, NetDevice], own: NetworkNamespace, target: NetworkNamespace | None
) -> list[Device]:
    """Return the configured devices with their current attributes, without changing them.

    ``own`` is the host's network namespace, ``target`` the container's, None if it does not exist
    yet.  Raises ConfigError if a device is missing or cannot be moved, OSError if a request to the
    kernel fails.
    """
    devices = []
    for name, settings in configured.items():
        link = own.links.link(name)
        new_name = settings.get("name") or name
        _check(name, link, new_name, target.links if target else None)
        if link is None:
            raise ConfigError(where(name), f'the host has no network device "{name}"')
        devices.append(
            Device(
                name=name,
                wanted=new_name,
                temporary=f"oci{posix.urandom(4).hex()}",
                identity=own.identity(name),
                index=link.index,
                hardware=link.hardware.hex(),
                alternative_names=[each.hex() for each in link.alternative_names],
                up=bool(link.flags & IFF_UP),
                addresses=[body.hex() for body in _addresses(own.links, link.index)],
                routes=[body.hex() for body in _routes(own.links, link.index)],
            )
        )
    return devices


def _check(name: str, link: Link | None, new_name: str, target: Rtnetlink | None) -> None:
    """Raise ConfigError if the device ``name`` cannot be moved or renamed."""
    if link is None:
        return
    if link.name != name:
        hint = f'use "{link.name}"'
        raise ConfigError(where(name), f'is an alternative name of the device "{link.name}"', hint)
    if link.flags & IFF_LOOPBACK:
        raise ConfigError(where(name), "the loopback device cannot be moved")
    if link.immutable:
        raise ConfigError(where(name), "this device cannot leave its network namespace")
    if target is not None and "%" not in new_name and target.link(new_name) is not None:
        place = where(name) if new_name == name else f"{where(name)}.name"
        message = f'"{new_name}" is already taken in the container\'s network namespace'
        raise ConfigError(place, message)


def _addresses(own: Rtnetlink, index: int) -> list[bytes]:
    """Return the bodies of RTM_NEWADDR messages for the device's permanent global addresses."""
    messages = []
    for body in own.request(RTM_GETADDR, pack(ADDRESS, 0, 0, 0, 0, index), NLM_F_DUMP):
        family, prefix, flags, scope, device = unpack_from(ADDRESS, body)
        values = attributes(body[calcsize(ADDRESS) :])
        if IFA_FLAGS in values:
            flags = unpack_from("=I", values[IFA_FLAGS])[0]
        if device != index or scope != SCOPE_GLOBAL or not flags & IFA_F_PERMANENT:
            continue
        flags &= IFA_F_SETTABLE
        if family == AF_INET6:
            # Skip duplicate address detection: it would make the address unusable for a second.
            flags |= IFA_F_NODAD
        message = pack(ADDRESS, family, prefix, 0, scope, 0)
        message += attribute(IFA_FLAGS, pack("=I", flags))
        message += b"".join(attribute(k, values[k]) for k in KEPT_OF_ADDRESS if k in values)
        messages.append(message)
    return messages


def _routes(own: Rtnetlink, index: int) -> list[bytes]:
    """Return the bodies of RTM_NEWROUTE messages for the device's configured routes.

    Routes without a gateway come first: routes with a gateway depend on them.
    """
    near: list[bytes] = []
    far: list[bytes] = []
    oif = attribute(RTA_OIF, pack("=I", index))
    for family in (AF_INET, AF_INET6):
        request = pack(ROUTE, family, 0, 0, 0, 0, 0, 0, 0, 0) + oif
        for body in own.request(RTM_GETROUTE, request, NLM_F_DUMP):
            header = list(unpack_from(ROUTE, body))
            found = attributes(body[calcsize(ROUTE) :])
            table, protocol, flags = header[4], header[5], header[8]
            ours = found.get(RTA_OIF) == pack("=I", index) and header[0] == family
            if not ours or table == RT_TABLE_LOCAL or protocol in AUTOMATIC_ROUTES:
                continue
            if flags & RTM_F_CLONED or RTA_EXPIRES in found:
                continue
            header[8] = flags & RTNH_F_ONLINK
            message = pack(ROUTE, *header)
            message += b"".join(attribute(k, found[k]) for k in KEPT_OF_ROUTE if k in found)
            (far if RTA_GATEWAY in found or RTA_VIA in found else near).append(message)
    return near + far


def carry_over(
    devices: list[Device],
    own: NetworkNamespace,
    target: NetworkNamespace,
    namespace: int,
    record: Callable[[list[Device]], None],
) -> list[str]:
    """Move the devices into the container; return a warning for each route that was lost.

    ``own`` is the host's network namespace, ``target`` the container's; ``namespace`` is a
    descriptor of ``target``.  Calls ``record(devices)`` before the first device is moved, and again
    when their indexes in the container are known.  Raises HostError if a device cannot be moved or
    set up; the caller must then undo the moves with ``bring_back``.
    """
    record(devices)
    # Rename devices with a pattern last: the kernel must not choose a name that another one needs.
    devices = sorted(devices, key=lambda each: "%" in each.wanted)
    moved = [(device, _move(device, own, target, namespace)) for device in devices]
    record(devices)
    for device, index in moved:
        try:
            target.links.rename(index, device.wanted)
        except OSError as error:
            raise _failure(device, f'rename the device to "{device.wanted}"', error) from None
    for device, index in moved:
        _give_addresses(device, target.links, index, device.wanted == device.name)
        try:
            target.links.set_up(index)
        except OSError as error:
            raise _failure(device, "bring the device up", error) from None
    return _give_routes(moved, target.links)


def _move(device: Device, own: NetworkNamespace, target: NetworkNamespace, namespace: int) -> int:
    """Move a device to ``target`` under its temporary name; return its new index.

    Raises HostError if the device cannot be moved.
    """
    try:
        link = own.links.link(device.name)
        if link is None:
            raise _gone()
        own.links.move(link.index, namespace, device.temporary)
        moved = target.find(device.identity) or target.links.link(device.temporary)
        if moved is None:
            raise _gone()
    except OSError as error:
        raise _failure(device, "move the device into the container", error) from None
    device.there = moved.index
    return moved.index


def bring_back(devices: list[Device], own: NetworkNamespace, source: NetworkNamespace) -> list[str]:
    """Move devices from the container's namespace ``source`` back to ``own`` and restore them.

    ``source`` is ``own`` if the container's namespace no longer exists: the kernel has then moved
    hardware devices back.  Returns a warning for each lost device or route.  If a device cannot be
    moved or restored, continues with the others and raises HostError at the end.
    """
    lost: list[str] = []
    returned: list[tuple[Device, int]] = []
    failure: HostError | None = None
    try:
        transit, namespace = transit_namespace()
    except OSError as error:
        raise HostError("linux.netDevices: create a temporary network namespace", error) from None
    home = posix.open(OWN_NAMESPACE, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        for device in devices:
            try:
                link = _bring_back(device, own, source, transit, (namespace, home))
            except HostError as error:
                failure = failure or error  # continue with the other devices
                continue
            if link is None:
                lost.append(_not_found(device, gone=source is own))
            elif device.up and not link.flags & IFF_UP:
                returned.append((device, link.index))
    finally:
        posix.close(home)
        posix.close(namespace)
    lost += _give_routes(returned, own.links)
    if failure is not None:
        raise failure
    return lost


def _bring_back(
    device: Device,
    own: NetworkNamespace,
    source: NetworkNamespace,
    transit: NetworkNamespace,
    namespaces: tuple[int, int],
) -> Link | None:
    """Move a device back and restore it; return its link, or None if the device is not found.

    The device moves from ``source`` to the empty namespace ``transit``, and then to ``own``.
    ``namespaces``: descriptors of ``transit`` and of ``own``.  Raises HostError if the device
    cannot be moved or restored.
    """
    try:
        if device.identity:
            link = own.find(device.identity, device.index)
        else:
            link = own.links.link_at(device.index)
        if link is None or link.name != device.name:
            link = _carry_home(device, own, source, transit, namespaces)
        # The kernel sets a moved device down, so a device that is up was never moved.
        if link is not None and not link.flags & IFF_UP:
            _give_addresses(device, own.links, link.index, True)
            if device.up:
                own.links.set_up(link.index)
    except OSError as error:
        raise _failure(device, "move the device back from the container", error) from None
    return link


def _carry_home(
    device: Device,
    own: NetworkNamespace,
    source: NetworkNamespace,
    transit: NetworkNamespace,
    namespaces: tuple[int, int],
) -> Link | None:
    """Move a device from ``source`` to ``own`` by way of ``transit``; return its link.

    Returns None if the device is not found.  Raises OSError if the kernel refuses a request.
    """
    there, link = own, own.find(device.identity, device.index)
    if link is None:
        there, link = source, source.find(device.identity, device.there)
    if link is None:
        return None
    there.links.move(link.index, namespaces[0], device.temporary)
    link = transit.find(device.identity)
    if link is None:
        return None  # another device has its index; the kernel destroys it with ``transit``
    _restore(device, link, transit.links)
    transit.links.move(link.index, namespaces[1], device.name)
    return own.find(device.identity)


def _restore(device: Device, link: Link, there: Rtnetlink) -> None:
    """Restore the device's hardware address, and remove alternative names added in the container.

    ``there`` is a netlink socket in the device's present namespace, ``link`` the device there.
    Raises OSError if the kernel refuses a request.
    """
    for name in link.alternative_names:
        if name.hex() not in device.alternative_names:
            there.remove_alternative_name(link.index, name)
    if link.hardware.hex() != device.hardware:
        there.set_hardware(link.index, bytes.fromhex(device.hardware))


def _not_found(device: Device, *, gone: bool) -> str:
    fate = (
        "the device was destroyed with the container's network namespace"
        if gone
        else "the device was not found in the container's network namespace, and was not moved back"
    )
    return f"{where(device.name)}: {fate}"


def _give_addresses(device: Device, there: Rtnetlink, index: int, same_name: bool) -> None:
    for text in device.addresses:
        body = bytes.fromhex(text)
        family, prefix, flags, scope, _ = unpack_from(ADDRESS, body)
        found = attributes(body[calcsize(ADDRESS) :])
        if not same_name:
            found.pop(IFA_LABEL, None)  # it begins with the device's name
        message = pack(ADDRESS, family, prefix, flags, scope, index)
        message += b"".join(attribute(kind, data) for kind, data in found.items())
        try:
            there.request(RTM_NEWADDR, message, NLM_F_NEW)
        except OSError as error:
            if error.errno == EEXIST:
                continue  # the device has the address already
            address = found.get(IFA_LOCAL) or found[IFA_ADDRESS]
            action = f"add address {inet_ntop(family, address)}/{prefix}"
            raise _failure(device, action, error) from None


def _give_routes(devices: list[tuple[Device, int]], there: Rtnetlink) -> list[str]:
    """Add the devices' routes; return a warning for each route that cannot be added.

    All the devices must be up.  ``devices`` are pairs (device, index of the device); ``there`` is a
    netlink socket in their namespace.
    """
    warnings = []
    for device, index in devices:
        for text in device.routes:
            body = bytes.fromhex(text)
            message = body + attribute(RTA_OIF, pack("=I", index))
            try:
                there.request(RTM_NEWROUTE, message, NLM_F_NEW)
            except OSError as error:
                route = _route_text(body)
                warnings.append(f"{where(device.name)}: route {route} is lost: {reason(error)}")
    return warnings


def _route_text(body: bytes) -> str:
    family, length = unpack_from("=BB", body)
    found = attributes(body[calcsize(ROUTE) :])
    text = f"{inet_ntop(family, found[RTA_DST])}/{length}" if RTA_DST in found else "default"
    if RTA_GATEWAY in found:
        text += f" via {inet_ntop(family, found[RTA_GATEWAY])}"
    return text


def _gone() -> OSError:
    return OSError(ENODEV, posix.strerror(ENODEV))


def _failure(device: Device, action: str, error: OSError) -> HostError:
    return HostError(f"{where(device.name)}: {action}", error, HINTS.get(error.errno or 0, ""))
