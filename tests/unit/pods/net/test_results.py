"""Invalid results of plugins, and invalid settings of ``host-local``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net import call_plugins, ipam
from ociruntime.pods.net.builtin.host_local import add, delete, ranges_of
from ociruntime.pods.net.plugin_parameters import PluginCall, check_result, in_version

SUBNET = {"subnet": "10.1.0.0/24"}


def test_a_result_without_addresses_in_another_version() -> None:
    assert in_version({"ips": None}, "0.4.0") == {"cniVersion": "0.4.0", "ips": []}


@pytest.mark.parametrize(
    "result",
    [
        {"ips": [{"address": "10.1.0.2"}]},
        {"ips": [{"address": "10.1.0.2/24", "gateway": 5}]},
        {"ips": [{"address": "10.1.0.2/24"}], "routes": [{"dst": 5}]},
        {"ips": [{"address": "10.1.0.2/24"}], "routes": [{}]},
        {"ips": [{"address": "10.1.0.2/24"}], "routes": [{"dst": "0.0.0.0/0", "gw": "x"}]},
        {"ips": [{"address": "10.1.0.2/24"}], "routes": 5},
    ],
)
def test_addresses_that_are_none(result: dict[str, Any]) -> None:
    with pytest.raises(NetworkError, match="IPAM plugin: "):
        ipam.read(result, "lan")


@pytest.mark.parametrize(
    "address",
    [
        "10.9.9.9\n6.6.6.6 forged/24",
        "\x1b[31m",
        "",
        "10.1.0.300",
        "fe80::1%x\n\x1b[31mFORGED",
        "fe80::1%x\n\x1b[31mFORGED/64",
        "fe80::1%eth0/64",
        "fe80::1/\ud800",
        "fe80::\ud800",
    ],
)
def test_addresses_that_forge_lines(address: str) -> None:
    """They are displayed, recorded, and written to /etc/hosts."""
    with pytest.raises(
        NetworkError, match=r"plugin x: invalid address '.*' in its result"
    ) as caught:
        check_result({"ips": [{"address": address}]}, "plugin x")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("address", ["10.1.0.2", "10.1.0.2/24", "fe80::1", "fd00::2/64"])
def test_addresses_of_both_families(address: str) -> None:
    result = {"ips": [{"address": address}]}
    assert check_result(result, "x") == result


@pytest.mark.parametrize("output", ["{", "5", '{"ips": 5}', '{"ips": [{}]}', '{"dns": 5}'])
def test_a_wrong_result_names_network_and_plugin(tmp_path: Path, output: str) -> None:
    program = tmp_path / "wrong"
    program.write_text(f"#!/bin/sh\necho '{output}'\n")
    program.chmod(0o755)
    with pytest.raises(NetworkError, match=f'^network "net": plugin "{program}": '):
        call_plugins.add(str(program), call())


@pytest.mark.parametrize("name", ["dataDir", "resolvConf"])
@pytest.mark.parametrize("path", ["relative", 5, "/a\0b", "/\ud800", ["/x"]])
def test_paths_that_are_none(name: str, path: object) -> None:
    with pytest.raises(NetworkError, match=f'network "lan": "ipam.{name}"'):
        ranges_of({**SUBNET, name: path}, "lan")


def call(**configuration: object) -> PluginCall:
    whole = {"cniVersion": "1.0.0", "name": "net", "type": "ptp", **configuration}
    return PluginCall("id", "", "eth0", "", whole, (), "/nowhere", "", programs=False)


def test_configurations_that_are_not_carried_out() -> None:
    with pytest.raises(NetworkError, match=r'"net": .*ips"'):
        add(call(ipam=SUBNET, runtimeConfig={"ips": True}))
    with pytest.raises(NetworkError, match=r'"ipam\.dataDir"'):
        delete(call(ipam={**SUBNET, "dataDir": "\0"}))
