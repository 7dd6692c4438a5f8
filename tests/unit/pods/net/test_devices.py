"""Errors for devices that cannot be changed, or differ from the ones created."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net.builtin import bridge, loopback
from ociruntime.pods.net.plugin_parameters import PluginCall
from tests.support.netns import NetworkNamespace
from tests.support.privileges import CAP_NET_ADMIN, without


def call(namespace: str, state: Path, **settings: object) -> PluginCall:
    configuration = {"name": "n", "cniVersion": "1.0.0", **settings}
    return PluginCall("uuid", namespace, "eth0", "", configuration, (), str(state), "")


def test_a_loopback(namespaces: Callable[[], NetworkNamespace], tmp_path: Path) -> None:
    namespace = namespaces()
    one = call(namespace.path, tmp_path, type="loopback")
    with pytest.raises(NetworkError, match=r'network .*: interface "lo"'):
        loopback.check(one)
    with (
        without(CAP_NET_ADMIN),
        pytest.raises(NetworkError, match=r'"lo" in .*: operation not permitted'),
    ):
        loopback.add(one)
    loopback.add(one)
    loopback.check(one)
    namespace.run("ip", "link", "set", "lo", "down")
    namespace.run("ip", "link", "set", "lo", "name", "back")
    with pytest.raises(NetworkError, match=r'interface "lo" in .*: .*"lo" not found'):
        loopback.check(one)


def test_a_port_of_a_bridge(namespaces: Callable[[], NetworkNamespace], tmp_path: Path) -> None:
    one = call("", tmp_path, type="bridge", bridge="pods0", ipam={})
    with (
        namespaces().entered(),
        without(CAP_NET_ADMIN),
        pytest.raises(NetworkError, match='bridge "pods0": operation not permitted'),
    ):
        bridge.delete(one)
