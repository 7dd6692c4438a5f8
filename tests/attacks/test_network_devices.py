"""A process in a joined network namespace passes off its own device as the host's.

If ``create`` fails after a device of ``linux.netDevices`` has moved, the runtime moves it back.
With CAP_NET_ADMIN in that namespace, the process chooses the names, addresses and indexes of all
devices.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.test_network_devices import (
    MAC,
    _own_network,
    device,
    dressed,
    ip,
    links,
    snapshot,
    with_devices,
)
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer

pytestmark = judge_by("ociruntime")

__all__ = ["_own_network"]


def interrupted(bundle: Bundle, neighbour: Container, script: str) -> Bundle:
    """Add a hook that runs ``script`` in the joined namespace after the move, and fails.

    This gives the attacker enough time.
    """
    hook = bundle.path / "neighbour"
    hook.write_text(f"#!/bin/sh\nexec nsenter -t {neighbour.pid} -n sh -e -c '{script}\nexit 1'\n")
    hook.chmod(0o755)
    bundle.hooks["createRuntime"] = [{"path": str(hook)}]
    return bundle.namespace("network", f"/proc/{neighbour.pid}/ns/net")


def test_a_device_exchanged_for_a_forged_one(container: MakeContainer, bundle: MakeBundle) -> None:
    """It has index, name and hardware address of the host's device, which is hidden."""
    dressed()
    neighbour, elsewhere = container().created(), container().created()
    forging = f"""
        index=$(ip -o link show inner0 | cut -d: -f1)
        ip link set inner0 netns {elsewhere.pid}
        ip link add inner0 index $index address {MAC} type veth peer name far
        ip link set inner0 alias forged
    """
    one = interrupted(with_devices(bundle(), test0="inner0"), neighbour, forging)
    made = container(one)
    made.create().failed("hooks.createRuntime[0]", "linux.netDevices", "was not found")
    assert links() == {}
    assert links(neighbour)["inner0"]["ifalias"] == "forged"


@pytest.mark.parametrize("name", ["inner0", "inner%d"])
def test_a_device_in_disguise(container: MakeContainer, bundle: MakeBundle, name: str) -> None:
    """It comes back with its previous name and address, and without the added name."""
    dressed()
    before = snapshot()
    neighbour = container().created()
    disguise = """
        ip link set inner0 down
        ip link set inner0 name hidden address 02:00:00:00:00:66
        ip link property add dev hidden altname peer-test0 altname uplink
    """
    one = interrupted(with_devices(bundle(), test0=name), neighbour, disguise)
    container(one).create().failed("hooks.createRuntime[0]")
    assert snapshot() == before
    assert "altnames" not in links()["test0"]


def test_a_forged_device_before_a_killed_create_is_cleared(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """The same for a killed ``create``, before ``delete`` cleans up."""
    device("test0", "address", MAC)
    neighbour, elsewhere = container().created(), container().created()
    started = work / "started"
    one = with_devices(bundle(), test0="inner0").namespace(
        "network", f"/proc/{neighbour.pid}/ns/net"
    )
    one.hooks["createRuntime"] = [
        {"path": "/bin/sh", "args": ["sh", "-c", f": >{started}; kill -9 $PPID"]}
    ]
    made = container(one)
    made.create()
    assert started.exists()
    ip("link", "set", "inner0", "netns", str(elsewhere.pid), inside=neighbour)
    device("inner0", "address", MAC, inside=neighbour)
    ip("link", "set", "inner0", "alias", "forged", inside=neighbour)
    made.delete("--force")
    assert links() == {}
    assert "inner0" in links(neighbour)
