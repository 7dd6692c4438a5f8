"""Networks of ``ocictl network``, and containers that find each other there by name.

Each test has a separate host: a network namespace in which all its processes run.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.daemon import STAYS, Daemon
from tests.support.images import make_layout
from tests.support.network_host import NetworkHost, namespaces, own_host

__all__ = ("namespaces", "own_host")


def make(daemon: Daemon, *words: str) -> str:
    return daemon.ctl("network", "create", *words).ok().out.strip()


def listed(daemon: Daemon, *filters: str) -> list[str]:
    words = [f"--filter={one}" for one in filters]
    return daemon.ctl("network", "ls", "--quiet", *words).ok().out.split()


def shown(daemon: Daemon, name: str) -> dict[str, Any]:
    found: dict[str, Any] = daemon("GET", f"/v1/networks/{name}").ok()
    return found


def run(daemon: Daemon, shell_root: str, name: str, *words: str, network: str = "back") -> str:
    options = ("-d", "--name", name, "--network", network, *words, f"--rootfs={shell_root}")
    return daemon.ctl("run", *options, *STAYS).ok().out.strip()


def hosts(daemon: Daemon, name: str) -> dict[str, list[str]]:
    """Return {name: addresses} of the container's hosts file, except those of ``lo``."""
    text = daemon.ctl("exec", name, "cat", "/etc/hosts").ok().out
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for one in names if not address.startswith(("127.", "fe00:", "ff0")) else ():
            found.setdefault(one, []).append(address)
    found.pop("localhost", None)
    return {one: found[one] for one in found if not one.startswith("ip6-")}


def end(daemon: Daemon, host: NetworkHost, *networks: str) -> None:
    for one in daemon.list():
        daemon.remove(one["id"])
    for name in networks:
        daemon.ctl("network", "rm", name).ok()
    host.assert_clean()
    assert [name for name in networks if (host.state / name).exists()] == []
    assert not (host.state / ".names").exists()
    assert [one for one in os.listdir(host.state.parent / "net.d") if one != ".lock"] == []


def test_containers_find_each_other(daemon: Daemon, host: NetworkHost, shell_root: str) -> None:
    assert make(daemon, "back", "--label=tier=b") == "back"
    one = run(daemon, shell_root, "web", "--network-alias", "www", "--hostname=front")
    other = run(daemon, shell_root, "db", "-p", "8080:80")
    names = {name: ["10.89.0.2"] for name in ("web", one[:12], "www", "front")}
    names |= {name: ["10.89.0.3"] for name in ("db", other[:12])}
    assert hosts(daemon, "web") == hosts(daemon, "db") == names
    daemon.ctl("exec", "web", "busybox", "ping", "-c1", "-W5", "db").ok()
    daemon.ctl("exec", "db", "busybox", "ping", "-c1", "-W5", "www").ok()
    assert daemon.get("db")["addresses"] == {"back": "10.89.0.3"}
    network = shown(daemon, "back")
    assert network["addresses"] == {"web": "10.89.0.2", "db": "10.89.0.3"}
    assert network["subnets"] == [{"subnet": "10.89.0.0/24", "gateway": "10.89.0.1"}]
    assert network["labels"] == {"tier": "b"}
    form = ("-f", "{{.Driver}} {{len .Containers}}")
    assert daemon.ctl("inspect", *form, "back").ok().out == "bridge 2\n"
    assert daemon.ctl("inspect", "--type=network", *form, "back").ok().out == "bridge 2\n"
    assert network["pods"] == []
    form = ("--format", "{{.Addresses.web}}")
    assert daemon.ctl("network", "inspect", *form, "back").ok().out == "10.89.0.2\n"
    form = ("--format", "{{.Name}} {{.Networks}} {{.Addresses.back}}")
    assert daemon.ctl("ps", "--filter=network=back", "--filter=name=d", *form).ok().out == (
        "db back 10.89.0.3\n"
    )
    assert daemon.ctl("ps", "--quiet", "--filter=network=front").ok().out == ""
    daemon.ctl("stop", "-t0", "db").ok()
    daemon.pods.wait_for(daemon.get("db")["pod"], "exited")
    assert set(hosts(daemon, "web")) == {"web", one[:12], "www", "front"}
    daemon.ctl("start", "db").ok()
    assert hosts(daemon, "web")["db"] == hosts(daemon, "db")["db"] != []
    end(daemon, host, "back")


def test_a_restarted_daemon_changes_nothing(
    daemon: Daemon, host: NetworkHost, shell_root: str
) -> None:
    make(daemon, "back")
    run(daemon, shell_root, "web")
    daemon.kill()
    daemon.start()
    run(daemon, shell_root, "db")
    assert set(hosts(daemon, "web")) == set(hosts(daemon, "db"))
    assert listed(daemon, "type=custom") == ["back"]
    end(daemon, host, "back")


def test_a_killed_monitor(daemon: Daemon, host: NetworkHost, shell_root: str) -> None:
    """The names of its pod are removed when the next pod joins, and return with its next run."""
    make(daemon, "back")
    run(daemon, shell_root, "web")
    dead = run(daemon, shell_root, "dead")
    uuid, init = daemon.get(dead)["pod"], daemon.get(dead)["pid"]
    namespace = os.readlink(f"/proc/{init}/ns/net")
    os.kill(daemon.pods.monitor(uuid)["pid"], signal.SIGKILL)
    daemon.pods.wait_for(uuid, "exited")
    # The pod counts as live as long as a process, though killed, has its network namespace.
    assert processes.until(lambda: namespace not in processes.namespaces("net"))
    run(daemon, shell_root, "db")
    for name in ("web", "db"):
        assert {"web", "db"} <= set(hosts(daemon, name))
        assert "dead" not in hosts(daemon, name)
    daemon.ctl("start", "dead").ok()
    for name in ("web", "db", "dead"):
        assert {"web", "db", "dead"} <= set(hosts(daemon, name))
    end(daemon, host, "back")


def test_the_same_alias_twice_and_a_new_name(
    daemon: Daemon, host: NetworkHost, shell_root: str
) -> None:
    make(daemon, "back")
    run(daemon, shell_root, "a", "--network-alias=www")
    run(daemon, shell_root, "b", "--network-alias=www", "-p", "8080:80")
    assert hosts(daemon, "a")["www"] == ["10.89.0.2", "10.89.0.3"]
    daemon.ctl("rename", "b", "c").ok()
    daemon.ctl("stop", "-t0", "c").ok()
    daemon.pods.wait_for(daemon.get("c")["pod"], "exited")
    daemon.ctl("start", "c").ok()
    assert "c" in hosts(daemon, "a")
    assert "b" not in hosts(daemon, "a")
    end(daemon, host, "back")


def test_an_image_with_its_own_file(
    daemon: Daemon, host: NetworkHost, shell_root: str, work: Path
) -> None:
    """It is replaced by a file with names, as in docker; a volume there is not changed."""
    (Path(shell_root) / "etc/hosts").write_text("6.6.6.6 db\n")
    make(daemon, "back")
    run(daemon, shell_root, "db")
    assert hosts(daemon, "db")["db"] == ["10.89.0.2"]
    mine = work / "mine"
    mine.write_text("1.1.1.1 db\n")
    run(daemon, shell_root, "web", "-v", f"{mine}:/etc/hosts")
    assert hosts(daemon, "web") == {"db": ["1.1.1.1"]}
    assert mine.read_text() == "1.1.1.1 db\n"
    assert hosts(daemon, "db")["web"] == ["10.89.0.3"]
    daemon.ctl("run", "--rm", "--network=default", f"--rootfs={shell_root}", "true").ok()
    end(daemon, host, "back")


def test_a_hostile_container_stops_no_other(
    daemon: Daemon, host: NetworkHost, shell_root: str
) -> None:
    make(daemon, "back")
    run(daemon, shell_root, "bad")
    script = (
        "busybox chmod 0 /etc/hosts; busybox rm -f /etc/hosts; busybox mv /tmp/x /etc/hosts;"
        "busybox ln -sf /etc/passwd /etc/hosts; busybox truncate -s 9000000000 /etc/hosts;"
        "busybox mount -t tmpfs x /etc; exit 0"
    )
    daemon.ctl("exec", "bad", "sh", "-c", script).ok()
    run(daemon, shell_root, "web")
    assert hosts(daemon, "web")["bad"] == ["10.89.0.2"]
    uuid = daemon.get("bad")["pod"]
    assert (daemon.pods.path(uuid) / "hosts").stat().st_size == 9_000_000_000
    end(daemon, host, "back")


def test_networks_are_isolated(daemon: Daemon, host: NetworkHost, shell_root: str) -> None:
    make(daemon, "back")
    make(daemon, "front")
    run(daemon, shell_root, "db", "-p", "127.0.0.1:8080:80")
    run(daemon, shell_root, "web", network="front")
    assert "db" not in hosts(daemon, "web")
    address = daemon.get("db")["addresses"]["back"]
    ping = ("busybox", "ping", "-c1", "-W1", address)
    assert daemon.ctl("exec", "web", *ping).status == 1
    run(daemon, shell_root, "both", network="front,back")
    assert {"web", "db", "both"} <= set(hosts(daemon, "both"))
    assert len(hosts(daemon, "both")["both"]) == 2
    assert daemon.ctl("exec", "both", *ping).status == 0
    end(daemon, host, "back", "front")


def test_internal(daemon: Daemon, host: NetworkHost, shell_root: str) -> None:
    make(daemon, "back", "--internal")
    assert shown(daemon, "back")["internal"] is True
    run(daemon, shell_root, "db")
    run(daemon, shell_root, "web")
    assert "default" not in daemon.ctl("exec", "db", "busybox", "ip", "route").ok().out
    daemon.ctl("exec", "web", "busybox", "ping", "-c1", "-W5", "db").ok()
    end(daemon, host, "back")


def test_subnets(daemon: Daemon, host: NetworkHost, shell_root: str) -> None:
    host.run("ip", "link", "add", "lan0", "type", "bridge")
    host.run("ip", "addr", "add", "10.89.0.77/24", "dev", "lan0")
    host.run("ip", "link", "set", "lan0", "up")
    host.run("ip", "route", "add", "10.89.1.0/25", "via", "10.89.0.1", "table", "77")
    make(daemon, "one")
    make(daemon, "two")
    make(daemon, "three", "--subnet=10.5.0.0/16", "--gateway=10.5.7.9")
    subnets = [shown(daemon, name)["subnets"] for name in ("one", "two", "three")]
    assert subnets == [
        [{"subnet": "10.89.2.0/24", "gateway": "10.89.2.1"}],
        [{"subnet": "10.89.3.0/24", "gateway": "10.89.3.1"}],
        [{"subnet": "10.5.0.0/16", "gateway": "10.5.7.9"}],
    ]
    for subnet, text in (
        ("10.89.3.128/25", 'overlaps with network "two"'),
        ("10.0.0.0/8", "overlaps"),
        ("172.16.28.0/24", 'network "default"'),
        ("10.89.0.0/28", 'overlaps with "10.89.0.0/24" '),
    ):
        result = daemon.ctl("network", "create", "x", f"--subnet={subnet}")
        assert result.status == 1
        assert text in result.err
    run(daemon, shell_root, "c", network="three")
    route = daemon.ctl("exec", "c", "busybox", "ip", "route").ok().out
    assert "default via 10.5.7.9" in route
    run(daemon, shell_root, "fixed", "--ip=10.5.200.1", network="three")
    assert hosts(daemon, "c")["fixed"] == ["10.5.200.1"]
    form = ("--format", "{{.Networks}}")
    assert daemon.ctl("ps", "--filter=name=fixed", *form).ok().out == "three\n"
    taken = ("run", "--network=three", "--ip=10.5.200.1", f"--rootfs={shell_root}", "true")
    assert "10.5.200.1: it is" in daemon.ctl(*taken).err
    host.run("ip", "link", "delete", "lan0")
    end(daemon, host, "one", "two", "three")


def test_ipv6(daemon: Daemon, host: NetworkHost, shell_root: str) -> None:
    make(daemon, "back", "--ipv6")
    subnets = [one["subnet"] for one in shown(daemon, "back")["subnets"]]
    assert subnets[1].startswith("fd")
    run(daemon, shell_root, "web")
    run(daemon, shell_root, "db")
    assert len(hosts(daemon, "web")["db"]) == 2
    daemon.ctl("exec", "web", "busybox", "ping", "-6", "-c1", "-W5", "db").ok()
    end(daemon, host, "back")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "../x"},
        {"name": ".x"},
        {"name": "a/b"},
        {"name": "a b"},
        {"name": "a\nb"},
        {"name": "x" * 129},
        {"name": "ä"},
        *({"name": name} for name in ("default", "default-restricted", "none", "host", "all")),
        {"name": "bridge"},
        {"name": "x", "subnets": ["10.0.0.0"]},
        {"name": "x", "subnets": ["10.0.0.1/24"]},
        {"name": "x", "subnets": ["10.0.0.0/31"]},
        {"name": "x", "subnets": ["0.0.0.0/0"]},
        {"name": "x", "subnets": ["10.1.0.0/24", "10.2.0.0/24"]},
        {"name": "x", "gateways": ["10.0.0.1"]},
        {"name": "x", "subnets": ["10.1.0.0/24"], "gateways": ["10.1.0.0"]},
        {"name": "x", "subnets": ["10.1.0.0/24"], "gateways": ["10.1.0.255"]},
        {"name": "x", "subnets": ["10.1.0.0/24"], "gateways": ["10.2.0.1"]},
        {"name": "x", "labels": {"a": "x" * (70 << 10)}},
        {"name": "x", "labels": {"a": 1}},
        {"name": "x", "unknown": 1},
    ],
    ids=repr,
)
def test_bad_requests(shared_daemon: Daemon, body: dict[str, Any]) -> None:
    shared_daemon("POST", "/v1/networks", body).failed(400)
    assert listed(shared_daemon, "type=custom") == []


@pytest.mark.parametrize("name", ["..", ".lock", "%2e%2e%2fnet", "nope"])
def test_only_networks_are_found(shared_daemon: Daemon, name: str) -> None:
    for method in ("GET", "DELETE"):
        shared_daemon(method, f"/v1/networks/{name}").failed(404)


def test_ls_and_rm(daemon: Daemon, host: NetworkHost, shell_root: str) -> None:
    assert listed(daemon) == ["default", "default-restricted", "host", "none"]
    ipam = {"type": "host-local", "subnet": "10.44.0.0/24"}
    host.configure("10-lan.conf", {"name": "lan", "type": "ptp", "ipam": ipam})
    daemon.stop()
    daemon.start(f"--local-config={host.net_d.parent}")
    (host.state.parent / "net.d").mkdir(0o750, parents=True)
    temporary = host.state.parent / "net.d/.used.conflist.4711"
    temporary.write_text("{")
    make(daemon, "used")
    make(daemon, "spare")
    assert not temporary.exists()
    again = daemon.ctl("network", "create", "used")
    assert (again.status, '"used": it already exists' in again.err) == (1, True)
    daemon.create("c", rootfs=shell_root, command=STAYS, network="used")
    assert listed(daemon, "dangling=true", "type=custom") == ["spare"]
    assert listed(daemon, "type=custom") == ["spare", "used"]
    assert listed(daemon, "driver=ptp") == ["default", "default-restricted", "lan"]
    for name, text in (
        ("used", 'remove network "used": in use by'),
        ("lan", f'configured in "{host.net_d}/10-lan.conf"'),
        ("default", "built in"),
        ("none", "built in"),
        ("nope", 'network "nope" not found'),
    ):
        result = daemon.ctl("network", "rm", name)
        assert result.status == 1
        assert text in result.err
    daemon.ctl("network", "rm", "--force", "nope").ok()
    daemon.create("every", rootfs=shell_root, command=STAYS, network="all")
    assert "by container every" in daemon.ctl("network", "rm", "spare").err
    assert shown(daemon, "spare")["containers"] == ["every"]
    daemon.remove("every")
    assert "[y/N]" in daemon.ctl("network", "prune").ok().err
    assert daemon.ctl("network", "prune", "--force").ok().out == "spare\n"
    lines = daemon.ctl("network", "ls", "--filter=type=custom").ok().out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "DRIVER", "SUBNET", "CONTAINERS"],
        ["used", "bridge", "10.89.0.0/24", "c"],
    ]
    end(daemon, host, "used")


def test_networks_of_corrupt_containers_are_kept(daemon: Daemon, shell_root: str) -> None:
    make(daemon, "back")
    one = daemon.create("c", rootfs=shell_root, command=STAYS, network="back")
    daemon.stop()
    (daemon.root / "containers" / one / "container.state").write_text("{")
    daemon.start()
    for words in (("rm", "back"), ("prune", "--force")):
        result = daemon.ctl("network", *words)
        assert result.status == 1
        assert "corrupt" in result.err
    daemon.ctl("rm", "-f", one).ok()
    daemon.ctl("network", "rm", "back").ok()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--network=nope",), 'network "nope" not found ('),
        (("--network-alias=www",), "support aliases"),
        (("--network=back", "--network-alias=a b"), '"a b" is not'),
        (("--network=back", "--network-alias=a\n1.1.1.1 b"), "valid host name"),
        (("--network=back", "--network-alias=localhost"), "not localhost"),
        (("--network=none", "-P"), "cannot forward ports"),
        (("--ip=10.89.0.7",), "exactly one named"),
        (("--network=back,default", "--ip=10.89.0.7"), "exactly one named"),
        (("--network=back", "--ip=1.1.1.1;X=1"), '"1.1.1.1;X=1"'),
    ],
)
def test_refused(shared_daemon: Daemon, shell_root: str, words: Any, text: str) -> None:  # noqa: ANN401
    make(shared_daemon, "back")
    try:
        result = shared_daemon.ctl("create", *words, f"--rootfs={shell_root}", "true")
        assert result.status in (1, 125)
        assert text in result.err
    finally:
        shared_daemon.ctl("network", "rm", "back").ok()


@pytest.mark.parametrize("verb", ["connect", "disconnect"])
def test_networks_of_a_container_do_not_change(shared_daemon: Daemon, verb: str) -> None:
    result = shared_daemon.ctl("network", verb, "back", "web")
    assert result.status == 1
    assert "--network=" in result.err


def test_publish_all(daemon: Daemon, host: NetworkHost, work: Path) -> None:
    exposed: dict[str, object] = {"80/tcp": {}, "53/udp": {}, "99/sctp": {}, "x": {}}
    make_layout(work / "web", config={"Cmd": STAYS, "ExposedPorts": exposed})
    words = ("-P", "-p", "8053:53/udp", "--expose=443", f"oci:{work}/web:latest")
    daemon.ctl("run", "-d", "--name=web", *words).ok()
    ports = {(one["port"], one["protocol"]): one["host_port"] for one in daemon.get("web")["ports"]}
    assert set(ports) == {(80, "tcp"), (53, "udp"), (443, "tcp")}
    assert ports[53, "udp"] == 8053
    assert f"80/tcp -> 0.0.0.0:{ports[80, 'tcp']}" in daemon.ctl("port", "web").ok().out
    daemon.ctl("rm", "-f", "web").ok()
    host.assert_clean()


def test_an_image_that_exposes_too_many_ports(
    daemon: Daemon, host: NetworkHost, work: Path
) -> None:
    exposed: dict[str, object] = {f"{port}/tcp": {} for port in range(1, 1000)}
    make_layout(work / "web", config={"Cmd": STAYS, "ExposedPorts": exposed})
    result = daemon.ctl("create", "-P", f"oci:{work}/web:latest")
    assert result.status == 1
    assert "exposes 999 ports" in result.err
    assert daemon.list() == []
    host.assert_clean()


def test_pods_of_ocipod_join(
    daemon: Daemon, host: NetworkHost, shell_root: str, work: Path
) -> None:
    make(daemon, "back")
    run(daemon, shell_root, "db")
    make_layout(work / "busybox", config={"Cmd": ["/bin/sh"]})
    image = f"oci:{work}/busybox:latest"
    look = ("--name=front", "--exec=/bin/sh", "--", "-c", "cat /etc/hosts; exec sleep 60")
    words = ("--detach", "--net=back", "--hostname=pod1", image, *look)
    uuid = daemon.pods("run", *words).ok().out.strip()
    assert processes.until(lambda: {"front", "pod1"} <= set(hosts(daemon, "db")))
    assert hosts(daemon, "db")["front"] == ["10.89.0.3"]
    log = daemon.pods.path(uuid) / "logs/front.log"
    assert processes.until(lambda: "10.89.0.2\tdb" in log.read_text())
    assert shown(daemon, "back")["pods"] == [uuid]
    daemon.remove("db")
    assert f"by pod {uuid}" in daemon.ctl("network", "rm", "back").err
    assert daemon.ctl("network", "prune", "--force").ok().out == ""
    daemon.pods("stop", uuid).ok()
    daemon.pods.wait_for(uuid, "exited")
    daemon.pods("rm", uuid).ok()
    end(daemon, host, "back")
