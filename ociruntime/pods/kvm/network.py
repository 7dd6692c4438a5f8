"""Connect a pod's virtual machine to the networks of the pod's network namespace.

In the namespace, each network interface of the pod is bridged with a tap device of the machine, and
the guest gets the interface's IPv4 addresses.  The kernel removes the bridges and tap devices with
the namespace.
"""

from __future__ import annotations

import fcntl
import os
from _socket import AF_INET
from struct import calcsize, pack, unpack_from
from typing import Any

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.linux import CLONE_NEWNET
from ociruntime.base.rtnetlink import ADDRESS, NLM_F_DUMP, RTM_GETADDR, Rtnetlink
from ociruntime.pods.net import links as devices
from ociruntime.pods.net.addresses import Address, parse_address, parse_network

DEVICE = "/dev/net/tun"
RTM_DELADDR = 21
_TUNSETIFF = 0x400454CA
_TAP = 0x0002 | 0x1000 | 0x4000  # IFF_TAP, IFF_NO_PI, IFF_VNET_HDR
_ALL = (1 << 32) - 1
_POINT_TO_POINT = "ptp"  # CNI plugin: the guest reaches every host through the gateway


def lines(networks: list[dict[str, Any]]) -> list[str]:
    """Return the guest's addresses and routes, as lines in the format of ``csrc/guest/network.c``.

    ``networks`` is the member ``networks`` of the pod's net-info.json.  Raises PodError for a
    network on which the pod has only IPv6 addresses.
    """
    guest_lines = []
    for number, network in enumerate(networks):
        result = network.get("result") or {}
        addresses = [ip["address"] for ip in result.get("ips") or ()]
        if addresses and all(parse_network(each).family != AF_INET for each in addresses):
            raise PodError(
                f'network "{network["name"]}": flavour kvm requires an IPv4 address',
                f"the pod has only {', '.join(addresses)}; IPv6 is not supported",
            )
        kind = network["plugins"][0]["configuration"].get("type")
        for ip in result.get("ips") or ():
            own = parse_network(ip["address"])
            if own.family != AF_INET:
                continue
            gateway = ip.get("gateway") or ""
            prefix = 32 if kind == _POINT_TO_POINT else own.prefix
            guest_lines.append(f"a {number} {own.address} {_mask(prefix)}")
            if prefix == 32 and gateway:
                guest_lines.append(f"r {number} {gateway} {_mask(32)}")
            guest_lines += _routes(number, result, gateway)
    return guest_lines


def _routes(number: int, result: dict[str, Any], gateway: str) -> list[str]:
    guest_lines = []
    for route in result.get("routes") or ():
        target = parse_network(route["dst"])
        if target.family == AF_INET:
            way = route.get("gw") or gateway
            guest_lines.append(f"r {number} {target.first} {_mask(target.prefix)} {way}".rstrip())
    return guest_lines


def _mask(prefix: int) -> str:
    return str(Address(AF_INET, _ALL >> (32 - prefix) << (32 - prefix)))


def hardware_address(address: str, number: int) -> str:
    """Return a MAC address for the guest's interface on a network.

    The MAC address is locally administered.  It is derived from ``number``, the index of the
    network, and ``address``, the interface's IP address or "".
    """
    packed = parse_address(address).packed[-4:] if address else bytes(4)
    return ":".join(f"{byte:02x}" for byte in (0x52, 0x54 ^ number, *packed))


def connect_taps(namespace: str, networks: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Create a tap device for each network, and bridge it with the pod's interface on the network.

    This process enters the network namespace with the path ``namespace``, and stays there.
    ``networks`` is the member ``networks`` of net-info.json.  Returns pairs (descriptor of the tap
    device, MAC address).  Raises NetworkError if the namespace cannot be opened or a sysctl cannot
    be set, HostError if another step fails.
    """
    from ociruntime._system_calls import lib

    fd = devices.open_namespace(namespace)
    result = lib.oci_setns(fd, CLONE_NEWNET)
    os.close(fd)
    if result < 0:
        raise HostError(
            f'enter the pod\'s network namespace "{namespace}"',
            OSError(-result, os.strerror(-result)),
        )
    try:
        netlink = Rtnetlink()
        try:
            return [_connect_tap(netlink, number, each) for number, each in enumerate(networks)]
        finally:
            netlink.close()
    except OSError as error:
        raise HostError("connect the virtual machine to a network", error) from error


def _connect_tap(netlink: Rtnetlink, number: int, network: dict[str, Any]) -> tuple[int, str]:
    tap = f"tap{number}"
    try:
        fd = os.open(DEVICE, os.O_RDWR)
    except OSError as error:
        raise HostError(
            f'open "{DEVICE}"', error, "load the kernel module with: modprobe tun"
        ) from None
    fcntl.ioctl(fd, _TUNSETIFF, pack("16sH14x", tap.encode(), _TAP))
    device = devices.find(netlink, network["interface"])
    bridge = f"machine{number}"
    devices.make_bridge(netlink, bridge, 0, "")
    index = devices.find(netlink, bridge).index
    _remove_addresses(netlink, device.index)
    for each in (device.index, devices.find(netlink, tap).index):
        devices.join_bridge(netlink, each, index, False)
        netlink.set_up(each)
    netlink.set_up(index)
    return fd, hardware_address(str(network.get("ip4") or ""), number)


def _remove_addresses(netlink: Rtnetlink, index: int) -> None:
    head = pack(ADDRESS, AF_INET, 0, 0, 0, index)
    for answer in netlink.request(RTM_GETADDR, head, NLM_F_DUMP):
        family, _, _, _, owner = unpack_from(ADDRESS, answer)
        if (family, owner) == (AF_INET, index):
            netlink.request(RTM_DELADDR, answer[: calcsize(ADDRESS)] + _attributes(answer))


def _attributes(answer: bytes) -> bytes:
    """Return the attributes in ``answer``, a reply to RTM_GETADDR, for an RTM_DELADDR request."""
    return answer[calcsize(ADDRESS) :]
