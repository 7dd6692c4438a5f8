"""Delete stale connection tracking entries of forwarded UDP ports.

The kernel applies NAT rules only to the first packet of a flow.  If a client keeps sending UDP
packets from the same source port, a stale entry would direct them to the pod that used the host
port before.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from struct import pack, unpack

from ociruntime.base.rtnetlink import NLM_F_DUMP, Rtnetlink, attribute, attributes
from ociruntime.pods.net.firewall_rules import Forward

NETLINK_NETFILTER = 12
GET, DELETE = 1 << 8 | 1, 1 << 8 | 2  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_*
HEADER = "=BBH"  # struct nfgenmsg: family, version, resource
NESTED = 0x8000
CTA_TUPLE_ORIG = 1  # the first packet before NAT
CTA_ID = 12
CTA_ZONE = 18
CTA_TUPLE_IP, CTA_TUPLE_PROTO = 1, 2
CTA_PROTO_NUM, CTA_PROTO_DST_PORT = 1, 3
DESTINATION = {socket.AF_INET: 2, socket.AF_INET6: 4}  # CTA_IP_V4_DST, CTA_IP_V6_DST


def forget(forwards: Collection[Forward], family: int) -> None:
    """Delete the conntrack entries of UDP flows to the host ports of ``forwards``.

    ``family`` is the IP family, 4 or 6.  Does nothing if the kernel lacks ctnetlink or this process
    lacks permission; the entries then remain until they time out.
    """
    ports = {one.host_port for one in forwards if one.protocol == "udp"}
    if not ports:
        return
    domain = socket.AF_INET if family == 4 else socket.AF_INET6
    try:
        tracking = Rtnetlink(NETLINK_NETFILTER)
    except OSError:
        return
    try:
        _forget(tracking, domain, ports)
    except OSError:
        return  # ctnetlink is not compiled in, or we lack permission
    finally:
        tracking.close()


def _forget(tracking: Rtnetlink, domain: socket.AddressFamily, ports: set[int]) -> None:
    head = pack(HEADER, domain, 0, 0)
    for answer in tracking.request(GET, head, NLM_F_DUMP):
        flow = attributes(answer[len(head) :])
        port, address = _destination(flow[CTA_TUPLE_ORIG], domain)
        if port not in ports or not _is_here(address, domain):
            continue
        flow_key = attribute(CTA_TUPLE_ORIG | NESTED, flow[CTA_TUPLE_ORIG])
        for kind in (CTA_ID, CTA_ZONE):
            if kind in flow:
                flow_key += attribute(kind, flow[kind])
        try:
            tracking.request(DELETE, head + flow_key)
        except FileNotFoundError:
            pass  # the entry has timed out in the meantime


def _destination(flow: bytes, domain: socket.AddressFamily) -> tuple[int, str]:
    """Return (port, address) of the destination of ``flow``, or (0, "") if the flow is not UDP.

    ``flow`` contains the netlink attributes of a conntrack entry's tuple (CTA_TUPLE_*).
    """
    parts = attributes(flow)
    protocol = attributes(parts[CTA_TUPLE_PROTO])
    if protocol[CTA_PROTO_NUM] != bytes([socket.IPPROTO_UDP]):
        return 0, ""
    (port,) = unpack(">H", protocol[CTA_PROTO_DST_PORT])
    address = attributes(parts[CTA_TUPLE_IP])[DESTINATION[domain]]
    return port, socket.inet_ntop(domain, address)


def _is_here(address: str, domain: socket.AddressFamily) -> bool:
    """Return whether ``address`` is an address of the host.

    Packets to any other address are never forwarded to a pod.
    """
    trial = socket.socket(domain, socket.SOCK_DGRAM)
    try:
        trial.bind((address, 0))
    except OSError:
        return False
    finally:
        trial.close()
    return True
