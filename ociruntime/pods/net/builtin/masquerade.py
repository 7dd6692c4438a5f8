"""``ipMasq`` of the built-in plugins: source NAT of a pod's packets to the host's address."""

from __future__ import annotations

from ociruntime.pods.net import firewall
from ociruntime.pods.net.rules import Rules, tag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.net.addresses import Network
    from ociruntime.pods.net.plugin_call import PluginCall

PURPOSE = "nat"
AF_INET = 2


def want(call: PluginCall, networks: list[Network]) -> None:
    """Add the masquerading rules to those of the call."""
    for network in networks:
        family = 4 if network.family == AF_INET else 6
        name = tag(call.container, call.interface, PURPOSE)
        address = str(network.address)
        call.rules.append(Rules(name, family, address, str(network.subnet)))


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return the (tag, family) of all rules that ``want`` can add."""
    if not call.configuration.get("ipMasq"):
        return []
    name = tag(call.container, call.interface, PURPOSE)
    return [(name, family) for family in firewall.families(call.previous)]
