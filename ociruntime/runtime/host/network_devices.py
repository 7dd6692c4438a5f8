"""Network devices on their way into a container (config-linux.md#network-devices).

A device loses its addresses and routes when it changes namespaces, and is down then.  So all of
that is looked up before and given back after, there as well as on a way back.  It travels under
a name of its own: with that it is found again in any state in which a killed `create` leaves it,
and names can be exchanged, or be the kernel's choice (``eth%d``).

The kernel does not wait for us to end a namespace: with it die the virtual devices, while
hardware goes to the first network namespace, without addresses.
"""

from __future__ import annotations

import posix
from _socket import inet_ntop
from struct import calcsize, pack, unpack_from

from ociruntime.base.errors import ConfigError, HostError, reason
from ociruntime.base.rtnetlink import (
    IFF_LOOPBACK,
    IFF_UP,
    NLM_F_DUMP,
    NLM_F_NEW,
    OWN_NAMESPACE,
    RTM_GETADDR,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWROUTE,
    Rtnetlink,
    attribute,
    attributes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ociruntime.base.rtnetlink import Link
    from ociruntime.runtime.spec.document import NetDevice

AF_INET, AF_INET6 = 2, 10

ADDRESS = "=BBBBI"  # struct ifaddrmsg: family, prefix length, flags, scope, index
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

ROUTE = "=BBBBBBBBI"  # struct rtmsg: family, two lengths, tos, table, protocol, scope, type, flags
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_VIA, RTA_EXPIRES = 1, 4, 5, 18, 23
# RTA_DST, _SRC, _GATEWAY, _PRIORITY, _PREFSRC, _METRICS, _FLOW, _TABLE, _VIA, _PREF, _ENCAP_TYPE,
# _ENCAP
KEPT_OF_ROUTE = (1, 2, 5, 6, 7, 8, 11, 15, 18, 20, 21, 22)
RT_TABLE_LOCAL = 255
RTM_F_CLONED = 0x200
RTNH_F_ONLINK = 0x4
OTHERS_ROUTES = (1, 2, 9)  # RTPROT_REDIRECT, _KERNEL, _RA: they come by themselves

HINTS = {
    1: "it takes CAP_NET_ADMIN in the runtime's network namespace",
    22: "some devices cannot leave the namespace in which they were made",
}


class Device:
    """A device with the facts needed to move it into a namespace and back."""

    __slots__ = (
        "addresses",
        "hardware",
        "index",
        "name",
        "namesake",
        "routes",
        "temporary",
        "up",
        "wanted",
    )

    def __init__(
        self,
        *,
        name: str,
        wanted: str,
        temporary: str,
        hardware: str,
        up: bool,
        addresses: list[str],
        routes: list[str],
        namesake: int = 0,
        index: int = 0,
    ) -> None:
        self.name = name  # in the runtime's namespace
        self.wanted = wanted  # in the container's
        self.temporary = temporary  # on the way
        self.hardware = hardware  # its address in hexadecimal
        self.up = up
        self.addresses = addresses  # bodies of RTM_NEWADDR in hexadecimal, but for the index
        self.routes = routes  # of RTM_NEWROUTE
        self.namesake = namesake  # index of our device with the name ``wanted``, 0: none
        self.index = index  # in the container's namespace, 0: not known yet

    def record(self) -> dict[str, Any]:
        """Return the members, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def where(name: str) -> str:
    """Return the JSON path of a device."""
    return f'linux.netDevices["{name}"]'


def survey(
    wanted: Mapping[str, NetDevice], own: Rtnetlink, target: Rtnetlink | None
) -> list[Device]:
    """Return the devices as they are now, if all of them can be moved; change nothing.

    ``target`` is None as long as the namespace does not exist.  Raises ConfigError, OSError.
    """
    devices = []
    for name, settings in wanted.items():
        link = own.link(name)
        new_name = settings.get("name") or name
        _check(name, link, new_name, target)
        if link is None:
            raise ConfigError(where(name), f'the host has no network device "{name}"')
        namesake = None if new_name == name or "%" in new_name else own.link(new_name)
        devices.append(
            Device(
                name=name,
                wanted=new_name,
                temporary=f"oci{posix.urandom(4).hex()}",
                hardware=link.hardware.hex(),
                up=bool(link.flags & IFF_UP),
                addresses=[body.hex() for body in _addresses(own, link.index)],
                routes=[body.hex() for body in _routes(own, link.index)],
                namesake=namesake.index if namesake else 0,
            )
        )
    return devices


def _check(name: str, link: Link | None, new_name: str, target: Rtnetlink | None) -> None:
    """Check the devices and their new names (LNX-NETDEV-03, -04)."""
    if link is None:
        return
    if link.name != name:
        hint = f'use "{link.name}"'
        raise ConfigError(where(name), f'is an alternative name of device "{link.name}"', hint)
    if link.flags & IFF_LOOPBACK:
        raise ConfigError(where(name), "the loopback device cannot be moved")
    if link.immutable:
        raise ConfigError(where(name), "this device cannot leave its network namespace")
    if target is not None and "%" not in new_name and target.link(new_name) is not None:
        place = where(name) if new_name == name else f"{where(name)}.name"
        message = f'"{new_name}" is already taken in the container\'s network namespace'
        raise ConfigError(place, message)


def _addresses(own: Rtnetlink, index: int) -> list[bytes]:
    """Return the permanent addresses of global scope (LNX-NETDEV-06), to be added again."""
    kept = []
    for body in own.request(RTM_GETADDR, pack(ADDRESS, 0, 0, 0, 0, index), NLM_F_DUMP):
        family, prefix, flags, scope, device = unpack_from(ADDRESS, body)
        found = attributes(body[calcsize(ADDRESS) :])
        if IFA_FLAGS in found:
            flags = unpack_from("=I", found[IFA_FLAGS])[0]
        if device != index or scope != SCOPE_GLOBAL or not flags & IFA_F_PERMANENT:
            continue
        flags &= IFA_F_SETTABLE
        if family == AF_INET6:
            # It was found to be nobody else's when it was given to the device; without this a
            # program could not use it in its first second.
            flags |= IFA_F_NODAD
        message = pack(ADDRESS, family, prefix, 0, scope, 0)
        message += attribute(IFA_FLAGS, pack("=I", flags))
        message += b"".join(attribute(k, found[k]) for k in KEPT_OF_ADDRESS if k in found)
        kept.append(message)
    return kept


def _routes(own: Rtnetlink, index: int) -> list[bytes]:
    """Return the configured routes through this device alone; those to neighbours first."""
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
            if not ours or table == RT_TABLE_LOCAL or protocol in OTHERS_ROUTES:
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
    own: Rtnetlink,
    target: Rtnetlink,
    namespace: int,
    record: Callable[[list[Device]], None],
) -> list[str]:
    """Move the devices to the namespace of that descriptor; returns what could not be kept.

    ``record`` is called before the first is moved, and when their indexes are known.  Raises
    HostError; ``bring_back`` undoes what was done until then.
    """
    record(devices)
    for device in devices:
        try:
            link = own.link(device.name)
            if link is None:
                raise OSError(19, posix.strerror(19))
            own.move(link.index, namespace, device.temporary)
            moved = target.link(device.temporary)
        except OSError as error:
            raise _failure(device, "move it into the container", error) from None
        device.index = moved.index if moved else 0
    record(devices)
    # A pattern takes what the plain names have left.
    for device in sorted(devices, key=lambda each: "%" in each.wanted):
        try:
            target.rename(device.index, device.wanted)
        except OSError as error:
            raise _failure(device, f'call it "{device.wanted}"', error) from None
    for device in devices:
        _give_addresses(device, target, device.index, device.wanted == device.name)
        try:
            target.set_up(device.index)
        except OSError as error:
            raise _failure(device, "bring it up", error) from None
    return _give_routes([(device, device.index) for device in devices], target)


def bring_back(devices: list[Device], own: Rtnetlink, source: Rtnetlink) -> list[str]:
    """Move devices back as they were, except those that never left.

    ``source`` is ``own`` if their namespace is gone: hardware has come back by itself then.
    Returns what could not be restored.  Raises HostError.
    """
    returned: list[tuple[Device, int]] = []
    failure: HostError | None = None
    home = posix.open(OWN_NAMESPACE, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        for device in devices:
            try:
                index = _bring_back(device, own, source, home)
            except HostError as error:
                failure = failure or error  # the others come back nevertheless
                continue
            if index and device.up:
                returned.append((device, index))
    finally:
        posix.close(home)
    lost = _give_routes(returned, own)
    if failure is not None:
        raise failure
    return lost


def _bring_back(device: Device, own: Rtnetlink, source: Rtnetlink, home: int) -> int:
    """Bring a device back; return its index, or 0 if it was never moved.  Raises HostError."""
    try:
        found = _find(device, source, own)
        if found is None:
            return 0
        there, moved = found
        there.move(moved.index, home, device.name)
        link = own.link(device.name)
        if link is None:
            return 0
        _give_addresses(device, own, link.index, True)
        if device.up:
            own.set_up(link.index)
    except OSError as error:
        raise _failure(device, "bring it back from the container", error) from None
    return link.index


def _find(device: Device, source: Rtnetlink, own: Rtnetlink) -> tuple[Rtnetlink, Link] | None:
    """Find the moved device by name or hardware address, and where; None if it was not moved."""
    candidates = [(source, source.link(device.temporary))]
    if source is not own:
        if device.index:
            candidates.append((source, source.link_at(device.index)))
        candidates.append((own, own.link(device.temporary)))
    # The kernel sends hardware back under the name it had; and where a name is taken, it moves
    # the device before it refuses.
    if device.wanted != device.name and "%" not in device.wanted:
        candidates.append((own, own.link(device.wanted)))
    for there, link in candidates:
        if link is None or (there is own and link.index == device.namesake):
            continue  # a VLAN, for one, has the address of what carries it
        if link.hardware.hex() == device.hardware:
            return there, link
    return None


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
            address = found.get(IFA_LOCAL, found[IFA_ADDRESS])
            what = f"give it its address {inet_ntop(family, address)}/{prefix}"
            raise _failure(device, what, error) from None


def _give_routes(devices: list[tuple[Device, int]], there: Rtnetlink) -> list[str]:
    """Add the routes once all devices are up; return a warning for each that is impossible."""
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


def _failure(device: Device, what: str, error: OSError) -> HostError:
    return HostError(f"{where(device.name)}: {what}", error, HINTS.get(error.errno or 0, ""))
