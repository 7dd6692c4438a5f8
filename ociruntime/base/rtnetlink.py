"""A client of rtnetlink(7): read and change the kernel's network devices, addresses and routes.

It uses no library: importing pyroute2 takes ten times as long as a whole ``create``.  Addresses and
routes are copied from one namespace to another with their attributes exactly as the kernel wrote
them.  Therefore this module defines only the few attributes that it reads or sets itself.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Callable, Iterator
from errno import ENODEV
from struct import calcsize, pack, unpack_from
from typing import TypeVar

from ociruntime.base.errors import HostError
from ociruntime.base.linux import CLONE_NEWNET

Made = TypeVar("Made")


OWN_NAMESPACE = "/proc/thread-self/ns/net"

NETLINK_ROUTE = 0
SOL_NETLINK = 270
NETLINK_CAP_ACK = 10  # an acknowledgement does not repeat the request
NETLINK_EXT_ACK = 11  # an acknowledgement explains the error as text
NETLINK_GET_STRICT_CHK = 12  # the kernel filters dumps by the request's fields
BUFFER = 1 << 17

NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP = 0x300
NLM_F_NEW = 0x200 | 0x400  # NLM_F_EXCL, NLM_F_CREATE
NLM_F_ACK_TLVS = 0x200
NLMSGERR_ATTR_MSG = 1

RTM_NEWLINK, RTM_GETLINK = 16, 18
RTM_NEWADDR, RTM_GETADDR = 20, 22
RTM_NEWROUTE, RTM_GETROUTE = 24, 26
RTM_DELLINKPROP = 109

HEADER = "=IHHII"  # struct nlmsghdr: length, type, flags, sequence, port
LINK = "=BxHiII"  # struct ifinfomsg: family, type, index, flags, change
ADDRESS = "=BBBBI"  # struct ifaddrmsg: family, prefix length, flags, scope, index
ROUTE = "=BBBBBBBBI"  # struct rtmsg: family, two lengths, tos, table, protocol, scope, type, flags

IFF_UP = 0x1
IFF_LOOPBACK = 0x8
IFLA_ADDRESS = 1
IFLA_IFNAME = 3
IFLA_NET_NS_FD = 28
IFLA_PROP_LIST = 52
IFLA_ALT_IFNAME = 53  # inside IFLA_PROP_LIST, once for each name
IFLA_NETNS_IMMUTABLE = 67  # Linux 6.15
NLA_F_NESTED = 0x8000


class Link:
    """A network device in the network namespace of a netlink socket."""

    __slots__ = ("alternative_names", "flags", "hardware", "immutable", "index", "name")

    def __init__(
        self,
        index: int,
        name: str,
        flags: int,
        hardware: bytes,
        immutable: bool = False,
        alternative_names: list[bytes] | None = None,
    ) -> None:
        self.index = index
        self.name = name
        self.flags = flags  # IFF_*
        self.hardware = hardware  # the hardware address, empty if there is none
        self.immutable = immutable  # True if it cannot be moved to another namespace
        self.alternative_names = alternative_names or []


class Rtnetlink:
    """A netlink socket, bound to the network namespace in which it was created.

    ``protocol`` is NETLINK_ROUTE by default, or another netlink family such as NETLINK_NETFILTER.
    """

    __slots__ = ("_sequence", "_socket")

    def __init__(self, protocol: int = NETLINK_ROUTE) -> None:
        self._sequence = 0
        self._socket = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, protocol)
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK):
            try:
                self._socket.setsockopt(SOL_NETLINK, option, 1)
            except OSError:
                pass  # an older kernel: less detailed errors, longer dumps

    def close(self) -> None:
        """Close the netlink socket."""
        self._socket.close()

    def request(self, kind: int, body: bytes, flags: int = 0) -> list[bytes]:
        """Send a netlink request of type ``kind`` (RTM_*); return the bodies of the replies.

        If the kernel refuses the request, raises OSError with the kernel's explanation.
        """
        self._sequence += 1
        flags |= NLM_F_REQUEST | NLM_F_ACK
        length = calcsize(HEADER) + len(body)
        self._socket.send(pack(HEADER, length, kind, flags, self._sequence, 0) + body)
        answers: list[bytes] = []
        while True:
            for answer, answer_flags, answer_body in self._receive():
                if answer in (NLMSG_ERROR, NLMSG_DONE):
                    _raise_error(answer_body, answer_flags)
                    return answers
                answers.append(answer_body)

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        """Receive one datagram; yield (type, flags, body) of each reply to the last request."""
        data = self._socket.recv(BUFFER)
        start = 0
        while start + calcsize(HEADER) <= len(data):
            length, kind, flags, sequence, _ = unpack_from(HEADER, data, start)
            if sequence == self._sequence:
                yield kind, flags, data[start + calcsize(HEADER) : start + length]
            start += _aligned(max(length, calcsize(HEADER)))

    def link(self, name: str) -> Link | None:
        """Return the device with this name or alternative name; None if there is none.

        Raises OSError.
        """
        return self._link(pack(LINK, 0, 0, 0, 0, 0) + attribute(IFLA_IFNAME, _text(name)))

    def link_at(self, index: int) -> Link | None:
        """Return the device with this interface index; None if there is none.  Raises OSError."""
        return self._link(pack(LINK, 0, 0, index, 0, 0))

    def _link(self, body: bytes) -> Link | None:
        try:
            answer = self.request(RTM_GETLINK, body)[0]
        except OSError as error:
            if error.errno == ENODEV:
                return None
            raise
        _, _, index, flags, _ = unpack_from(LINK, answer)
        values = attributes(answer[calcsize(LINK) :])
        return Link(
            index,
            values[IFLA_IFNAME].rstrip(b"\0").decode(errors="surrogateescape"),
            flags,
            values.get(IFLA_ADDRESS, b""),
            values.get(IFLA_NETNS_IMMUTABLE, b"\0") != b"\0",
            [
                name.rstrip(b"\0")
                for kind, name in attribute_pairs(values.get(IFLA_PROP_LIST, b""))
                if kind == IFLA_ALT_IFNAME
            ],
        )

    def move(self, index: int, namespace: int, name: str) -> None:
        """Move the device ``index`` to ``namespace`` (a descriptor) and rename it to ``name``."""
        changes = attribute(IFLA_NET_NS_FD, pack("=I", namespace))
        changes += attribute(IFLA_IFNAME, _text(name))
        self.request(RTM_NEWLINK, pack(LINK, 0, 0, index, 0, 0) + changes)

    def rename(self, index: int, name: str) -> None:
        """Rename the device ``index``, which must be down.

        In a name such as ``eth%d``, the kernel replaces ``%d`` with the lowest free number.
        """
        changes = attribute(IFLA_IFNAME, _text(name))
        self.request(RTM_NEWLINK, pack(LINK, 0, 0, index, 0, 0) + changes)

    def set_hardware(self, index: int, address: bytes) -> None:
        """Set the hardware (MAC) address of the device ``index``."""
        changes = attribute(IFLA_ADDRESS, address)
        self.request(RTM_NEWLINK, pack(LINK, 0, 0, index, 0, 0) + changes)

    def remove_alternative_name(self, index: int, name: bytes) -> None:
        """Remove an alternative name (altname) of the device ``index``."""
        unwanted = attribute(IFLA_ALT_IFNAME, name + b"\0")
        unwanted = attribute(IFLA_PROP_LIST | NLA_F_NESTED, unwanted)
        self.request(RTM_DELLINKPROP, pack(LINK, 0, 0, index, 0, 0) + unwanted)

    def set_up(self, index: int) -> None:
        """Bring the device ``index`` up."""
        self.request(RTM_NEWLINK, pack(LINK, 0, 0, index, IFF_UP, IFF_UP))


def in_namespace(namespace: int) -> Rtnetlink:
    """Return an Rtnetlink socket in the network namespace ``namespace`` (a descriptor).

    Raises OSError, or HostError if this process cannot return to its own namespace.
    """
    return inside(namespace, Rtnetlink)


def inside(namespace: int, act: Callable[[], Made]) -> Made:
    """Call ``act`` in the network namespace ``namespace`` (a descriptor); return its result.

    Raises OSError, or HostError if this process cannot return to its own namespace.
    """
    return _elsewhere(lambda: _enter(namespace), act)


def in_new_namespace(act: Callable[[], Made]) -> Made:
    """Call ``act`` in a new network namespace; return its result.

    Raises the same exceptions as ``inside``.
    """
    return _elsewhere(_unshare, act)


def _elsewhere(leave: Callable[[], None], act: Callable[[], Made]) -> Made:
    home = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        leave()
        try:
            return act()
        finally:
            try:
                _enter(home)
            except OSError as error:
                raise HostError("return to the runtime's network namespace", error) from None
    finally:
        os.close(home)


def _enter(namespace: int) -> None:
    from ociruntime._system_calls import lib

    _check(lib.oci_setns(namespace, CLONE_NEWNET))


def _unshare() -> None:
    from ociruntime._system_calls import lib

    _check(lib.oci_unshare(CLONE_NEWNET))


def _check(result: int) -> None:
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def _text(name: str) -> bytes:
    return name.encode(errors="surrogateescape") + b"\0"


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def attribute(kind: int, data: bytes) -> bytes:
    """Serialise a netlink attribute: its header (struct rtattr), data and padding."""
    padding = b"\0" * (_aligned(len(data)) - len(data))
    return pack("=HH", len(data) + 4, kind) + data + padding


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes of a netlink message as {type without NLA_F_* bits: data}."""
    return dict(attribute_pairs(data))


def attribute_pairs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type, data) of each attribute of a netlink message, including repeated types."""
    start = 0
    while start + 4 <= len(data):
        length, kind = unpack_from("=HH", data, start)
        yield kind & 0x3FFF, data[start + 4 : start + length]
        start += _aligned(max(length, 4))


def _raise_error(body: bytes, flags: int) -> None:
    """Raise OSError with the kernel's explanation if an NLMSG_ERROR body contains an errno."""
    number = -unpack_from("=i", body)[0] if len(body) >= 4 else 0
    if not number:
        return
    text = os.strerror(number)
    if flags & NLM_F_ACK_TLVS:
        explanation = attributes(body[4 + calcsize(HEADER) :]).get(NLMSGERR_ATTR_MSG, b"")
        if explanation:
            text += f": {explanation.rstrip(bytes(1)).decode(errors='replace')}"
    raise OSError(number, text)
