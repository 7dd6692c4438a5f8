"""The built-in networks: addresses, routes, rules, and nothing left behind."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import NetworkError, UsageError
from tests.support.netns import seen_source
from tests.support.network_host import NetworkHost


def test_none_has_lo_alone(host: NetworkHost) -> None:
    pod = host.pod()
    info = host.join(pod, "none")
    assert info["networks"] == []
    assert "UP" in pod.run("ip", "link", "show", "lo").split("<")[1].split(">")[0].split(",")
    assert seen_source(pod.namespace, pod.namespace, "127.0.0.1", 80) == "127.0.0.1"
    assert host.leave(pod) == []
    host.assert_clean()


def test_host_is_left_alone(host: NetworkHost) -> None:
    pod = host.pod()
    assert host.join(pod, "host")["networks"] == []
    assert "state DOWN" in pod.run("ip", "link", "show", "lo")
    assert host.leave(pod) == []


def test_default(host: NetworkHost) -> None:
    pod = host.pod()
    info = host.join(pod)
    (network,) = info["networks"]
    assert (network["name"], network["interface"]) == ("default", "eth0")
    assert network["ip4"] == "172.16.28.2"
    assert network["result"]["ips"] == [
        {"interface": 1, "address": "172.16.28.2/24", "gateway": "172.16.28.1"}
    ]
    assert "default via 172.16.28.1 dev eth0" in pod.run("ip", "route")
    assert seen_source(pod.namespace, host.namespace, "172.16.28.1", 80)
    assert seen_source(host.namespace, pod.namespace, "172.16.28.2", 80)
    assert host.leases() == [f".pods/{pod.uuid}", "default/172.16.28.2"]
    assert host.leave(pod) == []
    host.assert_clean()
    assert host.leave(pod) == []


def test_pods_reach_each_other(host: NetworkHost) -> None:
    one, other = host.pod(), host.pod()
    host.join(one)
    host.join(other)
    assert other.info["networks"][0]["ip4"] == "172.16.28.3"
    assert seen_source(one.namespace, other.namespace, "172.16.28.3", 80)
    assert host.leave(one) == []
    assert seen_source(host.namespace, other.namespace, "172.16.28.3", 80)
    assert host.leave(other) == []
    host.assert_clean()


def test_restricted_reaches_the_host_alone(host: NetworkHost) -> None:
    pod = host.pod()
    info = host.join(pod, "default-restricted")
    assert [network["name"] for network in info["networks"]] == ["default-restricted"]
    assert "default" not in pod.run("ip", "route")
    assert seen_source(pod.namespace, host.namespace, "172.31.0.1", 80)
    assert host.rules() == ""
    assert host.leave(pod) == []
    host.assert_clean()


def test_unknown_network(host: NetworkHost) -> None:
    with pytest.raises(NetworkError, match='unknown network "elsewhere"'):
        host.join(host.pod(), "elsewhere")
    host.assert_clean()


@pytest.mark.parametrize("network", ["none", "host"])
def test_ports_need_a_network(host: NetworkHost, network: str) -> None:
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]
    with pytest.raises(UsageError, match=f"--net={network}"):
        host.join(host.pod(), network, ports=ports)


def test_a_namespace_that_is_gone(host: NetworkHost) -> None:
    pod = host.pod()
    pod.namespace.close()
    with pytest.raises(NetworkError, match="namespace"):
        host.join(pod)
    host.assert_clean()


def test_after_the_pod_has_died(host: NetworkHost) -> None:
    pod = host.pod()
    host.join(pod)
    pod.namespace.close()
    assert host.leave(pod) == []
    host.assert_clean()
