"""Pods in networks, from the command line: names, ports, resolv.conf, and nothing left behind.

Each test has a separate host: a network namespace in which all its processes run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import leaks, processes
from tests.support.images import make_layout
from tests.support.netns import NetworkNamespace
from tests.support.network_host import NetworkHost, namespaces, own_host, page_at
from tests.support.ocipod import Ocipod

__all__ = ("namespaces", "own_host")

PAGE = "a page of the first app\n"
WEB = ("--name=web", "--exec=/bin/busybox", "--", "httpd", "-f", "-p", "80", "-h", "/srv")
# Until the other app listens.
ASK = "until wget -qO /tmp/page http://localhost/page 2>&-; do sleep 0.1; done; cat /tmp/page"


@pytest.fixture
def outside(namespaces: Callable[[], NetworkNamespace], host: NetworkHost) -> NetworkNamespace:
    """Another machine, 192.0.2.2, next to the host, 192.0.2.1."""
    other = namespaces()
    host.run("ip", "link", "add", "out0", "type", "veth", "peer", "eth0", "netns", str(other.pid))
    host.run("ip", "addr", "add", "192.0.2.1/24", "dev", "out0")
    host.run("ip", "link", "set", "out0", "up")
    other.run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
    other.run("ip", "link", "set", "eth0", "up")
    return other


@pytest.fixture
def image(work: Path) -> str:
    make_layout(
        work / "busybox",
        files={"srv/page": PAGE, "tmp/.keep": ""},
        config={"Cmd": ["/bin/sh"], "ExposedPorts": {"80/tcp": {}}},
    )
    return f"oci:{work}/busybox:latest"


def shell(text: str) -> list[str]:
    return ["--exec=/bin/sh", "--", "-c", text]


def detached(ocipod: Ocipod, *words: str) -> str:
    return ocipod("run", "--detach", *words).ok().out.strip()


def end(ocipod: Ocipod, uuid: str) -> None:
    """End the pod like a service manager."""
    pid = ocipod.monitor(uuid)["pid"]
    assert pid > 1
    os.kill(pid, signal.SIGTERM)
    ocipod.wait_for(uuid, "exited")


def logged(ocipod: Ocipod, uuid: str, app: str, count: int) -> list[str]:
    """Wait for that many lines of an app's log, and return them."""
    path = ocipod.path(uuid) / "logs" / f"{app}.log"

    def lines() -> list[str]:
        text = path.read_text() if path.exists() else ""
        return [line.split(" ", 3)[3] for line in text.splitlines()]

    assert processes.until(lambda: len(lines()) >= count, 20), lines()
    return lines()


def test_two_apps_a_port_and_names(
    outside: NetworkNamespace, ocipod: Ocipod, host: NetworkHost, work: Path, image: str
) -> None:
    make_layout(work / "plain", files={"tmp/.keep": ""})
    names = ["--dns=9.9.9.9", "--dns-search=lan", "--hosts-entry=10.0.0.9=db"]
    look = f"{ASK}; cat /etc/resolv.conf; grep 10.0.0.9 /etc/hosts; sleep 60"
    uuid = detached(
        ocipod,
        *("--net=default", "--port=80-tcp:8080", *names),
        *(image, *WEB, "---", f"oci:{work}/plain:latest", "--name=client", *shell(look)),
    )
    assert logged(ocipod, uuid, "client", 4) == [
        PAGE.strip(),
        "nameserver 9.9.9.9",
        "search lan",
        "10.0.0.9\tdb",
    ]
    for namespace, address in ((host.namespace, "127.0.0.1"), (outside, "192.0.2.1")):
        assert page_at(namespace, address, 8080).endswith(PAGE.encode())
    networks = ocipod("list").ok().out.splitlines()[1].split("\t")[-1]
    assert networks == "default:ip4=172.16.28.2"
    assert ocipod.status(uuid)["networks"] == "default:ip4=172.16.28.2"
    end(ocipod, uuid)
    host.run("ip", "link", "delete", "out0")
    host.assert_clean()


def test_none_has_lo_alone(ocipod: Ocipod, host: NetworkHost, image: str) -> None:
    done = ocipod("run", "--net=none", image, *shell("ls /sys/class/net; ip -o link show up"))
    lines = [line.split(": ", 1)[1] for line in done.ok().out.splitlines()]
    assert lines[0] == "lo"
    assert [line.split(": ")[1] for line in lines[1:]] == ["lo"]
    host.assert_clean()


@pytest.mark.parametrize("users", [(), ("--private-users",)], ids=["host", "private"])
def test_every_user_may_take_low_ports(
    ocipod: Ocipod, host: NetworkHost, image: str, users: tuple[str, ...]
) -> None:
    serve = shell("httpd -p 80 && echo listens; id -u")
    done = ocipod("run", "--net=none", *users, image, "--user=33", *serve).ok()
    assert [line.split(": ")[1] for line in done.out.splitlines()] == ["listens", "33"]
    host.assert_clean()


def test_host_is_the_callers(ocipod: Ocipod, host: NetworkHost, image: str) -> None:
    host.run("ip", "link", "add", "mine", "type", "bridge")
    done = ocipod("run", "--net=host", image, *shell("ip -o link")).ok()
    assert ": mine:" in done.out
    assert host.links() == ["lo", "mine"]


def test_own_configurations(ocipod: Ocipod, host: NetworkHost, work: Path, image: str) -> None:
    """A configuration called ``default`` replaces the built-in one; plugins get the arguments."""
    ipam = {"type": "host-local", "subnet": "10.44.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}
    host.configure("10-default.conf", {"name": "default", "type": "ptp", "ipam": ipam})
    bridge: dict[str, object] = {"type": "bridge", "bridge": "pods0", "isGateway": True}
    bridge["ipam"] = {"type": "host-local", "subnet": "10.45.0.0/24"}
    host.configure("20-lan.conflist", {"name": "lan", "cniVersion": "1.0.0", "plugins": [bridge]})
    local = f"--local-config={work}/etc"
    look = shell("ip -4 -o addr")
    done = ocipod(local, "run", "--net=default,lan:IP=10.45.0.77", image, *look).ok()
    words = done.out.split()
    assert words[words.index("eth0") + 2] == "10.44.0.2/24"
    assert words[words.index("eth1") + 2] == "10.45.0.77/24"
    host.run("ip", "link", "delete", "pods0", status=None)  # the CNI project's own leaves it
    host.assert_clean()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--net=nowhere"], 'unknown network "nowhere"'),
        (["--net=default,default"], '"default" is given twice'),
        (["--net=none", "--port=80-tcp:8080"], "--net=none"),
        (["--net=host", "--port=80-tcp:8080"], "--net=host"),
        (["--dns=host", "--dns=9.9.9.9"], "--dns: host"),
        (["--hosts-entry=db"], '--hosts-entry: invalid entry "db"'),
    ],
)
def test_refused(
    ocipod: Ocipod, host: NetworkHost, image: str, words: list[str], text: str
) -> None:
    ocipod("run", *words, image).failed(text)
    assert ocipod.pods("run") == []
    host.assert_clean()


def test_a_network_that_cannot_be_made(
    ocipod: Ocipod, host: NetworkHost, work: Path, image: str
) -> None:
    host.configure("10-bad.conf", {"name": "bad", "type": "bad"})
    host.plugin("bad", "#!/bin/sh\n[ $CNI_COMMAND = DEL ] || { echo not today >&2; exit 1; }\n")
    local = f"--local-config={work}/etc"
    ocipod(local, "run", "--net=default,bad", image).failed('network "bad"', "not today")
    host.assert_clean()


def test_a_plugin_that_lingers_keeps_no_pod(
    ocipod: Ocipod, host: NetworkHost, work: Path, image: str
) -> None:
    """A plugin's background process does not hold the pod's lock."""
    pids = work / "pids"
    result = {"cniVersion": "1.0.0", "ips": [{"address": "10.5.0.7/24"}]}
    host.configure("10-slow.conf", {"name": "slow", "type": "slow"})
    host.plugin("slow", f"#!/bin/sh\nsleep 60 &\necho $! >> {pids}\necho '{json.dumps(result)}'\n")
    try:
        done = ocipod(f"--local-config={work}/etc", "run", "--net=slow", image, *shell("exit 0"))
        done.ok()
        (uuid,) = ocipod.pods("run")
        assert ocipod.state(uuid) == "exited"
        ocipod("rm", uuid).ok()
    finally:
        for pid in pids.read_text().split() if pids.exists() else ():
            os.kill(int(pid), signal.SIGKILL)
        processes.reap_orphans()
    host.assert_clean()


def test_gc_takes_down_what_a_killed_monitor_left(
    ocipod: Ocipod, host: NetworkHost, image: str
) -> None:
    uuid = detached(ocipod, "--port=80-tcp:8080", image, *shell("sleep 60"))
    assert len(host.links()) == 2
    assert len(host.leases()) == 2
    os.kill(ocipod.monitor(uuid)["pid"], signal.SIGKILL)

    def is_over() -> bool:
        processes.reap_orphans()  # as the host's init does
        return ocipod.state(uuid) == "exited"

    assert processes.until(is_over, 20)
    assert host.rules() != ""
    ocipod("gc", "--grace-period=0s").ok()
    ocipod("gc", "--grace-period=0s").ok()
    host.assert_clean()


def test_pods_at_once_have_addresses_of_their_own(
    ocipod: Ocipod, host: NetworkHost, image: str
) -> None:
    ocipod("fetch", image).ok()
    started = [
        ocipod.popen(
            *("run", "--detach", f"--port=80-tcp:{8000 + i}", image, *shell("sleep 60")),
            stdout=subprocess.PIPE,
        )
        for i in range(4)
    ]
    uuids = [process.communicate(timeout=60)[0].decode().strip() for process in started]
    found = {ocipod.status(uuid)["networks"] for uuid in uuids}
    assert found == {f"default:ip4=172.16.28.{i}" for i in range(2, 6)}
    for uuid in uuids:
        end(ocipod, uuid)
    host.assert_clean()


def test_killed_while_it_joined(ocipod: Ocipod, host: NetworkHost, image: str) -> None:
    """The network worker is killed: the pod fails, and no network is left behind."""
    words = ("run", "--port=80-tcp:8080", image, *shell("exit 0"))
    done = ocipod(*words, fault="network.after-links:kill")
    assert done.status == 254
    assert "network" in done.err
    host.assert_clean()


@pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed")
def test_what_the_tests_look_for(ocipod: Ocipod, host: NetworkHost, image: str) -> None:
    """Everything that a pod leaves behind is found by the pod's name in it."""
    ocipod("run", image, *shell("exit 0")).ok()
    (uuid,) = ocipod.pods()
    device, table = f"veth{uuid[:8]}-7", f"ocipod-{uuid[:8]}"
    lease = host.state / "default" / "172.16.28.77"
    present = leaks.mount_table(), frozenset(processes.descendants())
    before = set(ocipod.left(*present))
    host.run("ip", "link", "add", device, "type", "veth")
    host.run("nft", "add", "table", "ip", table)
    lease.write_text(uuid)
    found = set(ocipod.left(*present)) - before
    assert found == {f"link {device}", "lease default/172.16.28.77", f"rule table ip {table} {{"}
    host.run("ip", "link", "delete", device)
    host.run("nft", "delete", "table", "ip", table)
    lease.unlink()
