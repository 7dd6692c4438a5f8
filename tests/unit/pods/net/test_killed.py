"""A process killed during network setup leaves a document by which everything is removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import project
from tests.support.network_host import NetworkHost, Pod

MAKE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ociruntime.pods.net import network_configs
from ociruntime.pods.net.connect_pod import NetworkRequest, carry_out, plan
network_configs.PLUGIN_DIRECTORIES = ()
words = json.load(sys.stdin)
info = plan(NetworkRequest(*words))
with open(sys.argv[2], "w") as file:
    json.dump(info, file)
carry_out(info)
"""
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]
POINTS = ("after-note", "after-address", "after-links", "after-plugin", "after-rules")


def make_killed(host: NetworkHost, pod: Pod, point: str, path: Path, *networks: str) -> None:
    request = host.request(pod, *networks, ports=PORTS)
    words = [
        *(request.uuid, request.namespace_path, request.networks, request.ports),
        *(request.state_directory, request.config_directories),
    ]
    with host.namespace.entered():
        done = subprocess.run(
            [sys.executable, "-c", MAKE, str(project.ROOT), str(path)],
            input=json.dumps(words),
            text=True,
            env={**os.environ, "OCIPOD_FAULT": f"network.{point}:kill"},
            timeout=60,
        )
    assert done.returncode == -signal.SIGKILL
    pod.info = json.loads(path.read_text())


@pytest.mark.parametrize("network", ["default", "lan"])
@pytest.mark.parametrize("point", POINTS)
def test_half_made(
    host: NetworkHost,
    tmp_path: Path,
    point: str,
    network: str,
) -> None:
    ipam = {"type": "host-local", "subnet": "10.7.0.0/24"}
    bridge = {"type": "bridge", "isGateway": True, "ipMasq": True, "ipam": ipam}
    host.configure("n.conflist", {"name": "lan", "cniVersion": "1.0.0", "plugins": [bridge]})
    pod = host.pod()
    make_killed(host, pod, point, tmp_path / "info", network)
    assert host.leases() != []
    assert host.leave(pod) == []
    host.assert_clean()
    assert host.leave(pod) == []


def test_after_a_reboot(host: NetworkHost, tmp_path: Path) -> None:
    """Links and rules are gone; only files are left."""
    pod = host.pod()
    host.join(pod, ports=PORTS)
    pod.info["boot"] = "another"
    pod.namespace.close()
    rebooted = NetworkHost(lambda: host.pod().namespace, tmp_path / "again")
    rebooted.state = host.state
    assert rebooted.leases() == [f".pods/{pod.uuid}", "default/172.16.28.2"]
    assert rebooted.leave(pod) == []
    rebooted.assert_clean()
