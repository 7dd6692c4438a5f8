"""The plugin ``loopback``: brings ``lo`` up."""

from __future__ import annotations

import posix

from ociruntime.base.errors import NetworkError, reason
from ociruntime.base.rtnetlink import IFF_UP
from ociruntime.pods.net.links import LOOPBACK_INDEX, find, links_inside, open_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.net.plugin_call import PluginCall


def bring_up(path: str) -> None:
    """``lo`` of the namespace at ``path``.  Raises NetworkError."""
    namespace = open_namespace(path)
    try:
        links = links_inside(namespace, path)
        try:
            links.set_up(LOOPBACK_INDEX)
        except OSError as error:
            raise NetworkError(f"bring lo up: {reason(error)}") from None
        finally:
            links.close()
    finally:
        posix.close(namespace)


def validate(call: PluginCall) -> None:
    """There is nothing to configure."""
    del call


def add(call: PluginCall) -> dict[str, Any]:
    """Raises NetworkError."""
    bring_up(call.namespace)
    if call.previous:
        return call.previous
    return {
        "cniVersion": call.configuration["cniVersion"],
        "interfaces": [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": call.namespace}],
        "ips": [{"interface": 0, "address": "127.0.0.1/8"}],
    }


def delete(call: PluginCall) -> None:
    """The namespace takes its ``lo`` along."""
    del call


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """It makes no rules."""
    del call
    return []


def check(call: PluginCall) -> None:
    """Raises NetworkError."""
    namespace = open_namespace(call.namespace)
    try:
        links = links_inside(namespace, call.namespace)
        try:
            if not find(links, "lo").flags & IFF_UP:
                raise NetworkError("lo is down")
        except OSError as error:
            raise NetworkError(f"look at lo: {reason(error)}") from None
        finally:
            links.close()
    finally:
        posix.close(namespace)
