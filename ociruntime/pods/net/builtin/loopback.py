"""The plugin ``loopback``, which brings up the interface ``lo``."""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base.errors import NetworkError, reason
from ociruntime.base.rtnetlink import IFF_UP
from ociruntime.pods.net.links import LOOPBACK_INDEX, find, links_inside, open_namespace
from ociruntime.pods.net.plugin_parameters import PluginCall


def bring_up(path: str) -> None:
    """Bring up ``lo`` in the network namespace at ``path``; raise NetworkError if this fails."""
    namespace = open_namespace(path)
    try:
        links = links_inside(namespace, path)
        try:
            links.set_up(LOOPBACK_INDEX)
        except OSError as error:
            raise NetworkError(
                f'bring up interface "lo" in network namespace "{path}": {reason(error)}'
            ) from None
        finally:
            links.close()
    finally:
        os.close(namespace)


def validate(call: PluginCall) -> None:
    """Do nothing: ``loopback`` has no settings."""
    del call


def add(call: PluginCall) -> dict[str, Any]:
    """Bring up ``lo`` in the pod; return the CNI result.

    Returns the result of the previous plugin in the chain.  If there is no previous plugin, returns
    a result that describes ``lo``.  Raises NetworkError if ``lo`` cannot be brought up.
    """
    bring_up(call.namespace)
    if call.previous:
        return call.previous
    return {
        "cniVersion": call.configuration["cniVersion"],
        "interfaces": [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": call.namespace}],
        "ips": [{"interface": 0, "address": "127.0.0.1/8"}],
    }


def delete(call: PluginCall) -> None:
    """Do nothing: the kernel removes ``lo`` with its network namespace."""
    del call


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return [], because this plugin adds no packet filter rules."""
    del call
    return []


def check(call: PluginCall) -> None:
    """Check that ``lo`` is up in the pod.  Raises NetworkError if it is not."""
    namespace = open_namespace(call.namespace)
    try:
        links = links_inside(namespace, call.namespace)
        try:
            if not find(links, "lo").flags & IFF_UP:
                raise NetworkError(f'network "{call.network}": interface "lo" is down')
        except OSError as error:
            raise NetworkError(
                f'inspect interface "lo" in network namespace "{call.namespace}": {reason(error)}'
            ) from None
        finally:
            links.close()
    finally:
        os.close(namespace)
