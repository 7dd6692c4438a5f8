"""Installed plugins: their input, their results, and the processes that they leave."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net import call_plugins, connect_pod
from tests.support.descriptors import targets
from tests.support.network_host import NetworkHost

# Notes environment, input and open descriptors in LOG, answers with ANSWER, then does MORE.
PLUGIN = """#!/bin/sh
log={log}/$(basename "$0").$CNI_COMMAND.$(ls {log} | wc -l)
mkdir "$log"
cat > "$log/stdin"
env > "$log/env"
ls -l /proc/self/fd > "$log/fds"
{more}
"""
RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "eth0", "sandbox": "/x"}],
    "ips": [{"address": "10.5.0.7/24", "interface": 0}],
    "dns": {"nameservers": ["10.5.0.1"], "search": ["lan"]},
}


class Noted:
    """A call of a plugin."""

    def __init__(self, directory: Path) -> None:
        self.plugin, self.command, _ = directory.name.split(".")
        self.configuration = json.loads((directory / "stdin").read_text() or "null")
        lines = (directory / "env").read_text().splitlines()
        self.environment = dict(line.split("=", 1) for line in lines)
        listed = (directory / "fds").read_text().splitlines()[1:]
        self.descriptors = {line.split(" -> ")[1] for line in listed}


class Fakes:
    def __init__(self, host: NetworkHost, directory: Path) -> None:
        self._host = host
        self._log = directory / "log"
        self._log.mkdir()

    def make(self, name: str, answer: object = None, more: str = "") -> None:
        text = f"[ $CNI_COMMAND = ADD ] && echo '{json.dumps(answer)}'" if answer else ""
        self._host.plugin(name, PLUGIN.format(log=self._log, more=f"{more}\n{text}\nexit 0"))

    def calls(self) -> list[Noted]:
        by_number = sorted(self._log.iterdir(), key=lambda path: int(path.suffix[1:]))
        return [Noted(path) for path in by_number]


@pytest.fixture
def fakes(host: NetworkHost, tmp_path: Path) -> Fakes:
    return Fakes(host, tmp_path)


def conflist(*plugins: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"name": "lan", "cniVersion": "1.0.0", "plugins": list(plugins), **more}


def test_the_protocol(host: NetworkHost, fakes: Fakes) -> None:
    fakes.make("first", RESULT)
    second = {**RESULT, "ips": [{"address": "10.5.0.8/24"}]}
    fakes.make("second", second)
    host.configure("10.conflist", conflist({"type": "first", "x": [1]}, {"type": "second"}))
    pod = host.pod()
    lock = os.open("/etc", os.O_RDONLY)
    os.set_inheritable(lock, True)
    try:
        info = host.join(pod, "lan:IP=10.5.0.7;K=V", "default-restricted")
    finally:
        os.close(lock)
    one, two = fakes.calls()
    assert (one.plugin, one.command, two.plugin, two.command) == ("first", "ADD", "second", "ADD")
    environment = {k: v for k, v in one.environment.items() if k.startswith("CNI_")}
    directories = [str(host.net_d), "/usr/lib/ociruntime/plugins/net"]
    assert environment.pop("CNI_PATH").split(":") == [*directories, "/opt/cni/bin", "/usr/lib/cni"]
    assert environment == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": pod.uuid,
        "CNI_NETNS": pod.namespace.path,
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "IgnoreUnknown=1;IP=10.5.0.7;K=V",
    }
    assert one.configuration == {"type": "first", "x": [1], "name": "lan", "cniVersion": "1.0.0"}
    assert two.configuration["prevResult"] == RESULT
    assert not any("/etc" in target for target in one.descriptors)
    assert len(one.descriptors) == 4  # the standard streams, and the directory that is listed
    network = info["networks"][0]
    assert (network["ip4"], network["result"]) == ("10.5.0.8", second)
    assert info["dns"] == RESULT["dns"]

    assert host.leave(pod) == []
    three, four = fakes.calls()[2:]
    assert [(one.plugin, one.command) for one in (three, four)] == [
        ("second", "DEL"),
        ("first", "DEL"),
    ]
    assert three.configuration["prevResult"] == four.configuration["prevResult"] == second
    assert three.environment["CNI_NETNS"] == pod.namespace.path
    host.assert_clean()


def test_networks_are_left_in_reverse(host: NetworkHost, fakes: Fakes) -> None:
    for name in ("a", "b"):
        fakes.make(f"p{name}", RESULT)
        host.configure(f"{name}.conf", {"name": name, "type": f"p{name}"})
    pod = host.pod()
    host.join(pod, "b", "a")
    pod.namespace.close()
    assert host.leave(pod) == []
    calls = fakes.calls()
    assert [(one.plugin, one.command) for one in calls] == [
        ("pa", "ADD"),
        ("pb", "ADD"),
        ("pb", "DEL"),
        ("pa", "DEL"),
    ]
    assert [one.environment["CNI_IFNAME"] for one in calls] == ["eth0", "eth1", "eth1", "eth0"]
    assert calls[2].environment["CNI_NETNS"] == ""  # the pod is gone
    host.assert_clean()


def test_a_failure_undoes_what_was_made(host: NetworkHost, fakes: Fakes) -> None:
    said = {"cniVersion": "1.0.0", "code": 11, "msg": "no luck", "details": "at all"}
    fakes.make("good", RESULT)
    fails = f"[ $CNI_COMMAND = DEL ] || {{ echo '{json.dumps(said)}'; exit 1; }}"
    fakes.make("bad", more=fails)
    host.configure("10.conf", {"name": "a", "type": "good"})
    host.configure("20.conflist", conflist({"type": "good"}, {"type": "bad"}))
    with pytest.raises(NetworkError, match=r'"lan".*/bad": ADD: no luck: at all$'):
        host.join(host.pod(), "a", "lan", "default-restricted")
    assert [(one.plugin, one.command) for one in fakes.calls()] == [
        ("good", "ADD"),
        ("good", "ADD"),
        ("bad", "ADD"),
        ("bad", "DEL"),
        ("good", "DEL"),
        ("good", "DEL"),
    ]
    host.assert_clean()


def test_what_lingers_is_not_waited_for(host: NetworkHost, fakes: Fakes, tmp_path: Path) -> None:
    """It keeps the pipes, but no other descriptor of ours."""
    pids = tmp_path / "pids"
    fakes.make("lingers", RESULT, f"sleep 60 & echo $! >> {pids}")
    host.configure("10.conf", {"name": "lan", "type": "lingers"})
    pod = host.pod()
    begun = time.monotonic()
    lock = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(lock, True)
    try:
        assert host.join(pod, "lan")["networks"][0]["ip4"] == "10.5.0.7"
        assert host.leave(pod) == []
        assert time.monotonic() - begun < 50
        for pid in pids.read_text().split():
            assert str(tmp_path) not in targets(pid).values()
    finally:
        os.close(lock)
        for pid in pids.read_text().split():
            os.kill(int(pid), 9)
    host.assert_clean()


def test_one_that_hangs_is_ended(
    host: NetworkHost, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_plugins, "TIMEOUT", 3)
    pids = tmp_path / "pids"
    fakes.make("hangs", more=f"[ $CNI_COMMAND = DEL ] || {{ echo $$ > {pids}; sleep 600; }}")
    host.configure("10.conf", {"name": "lan", "type": "hangs"})
    with pytest.raises(NetworkError, match=r'run .*/hangs": timeout after 3 seconds'):
        host.join(host.pod(), "lan", "default")
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()
    host.assert_clean()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("echo nonsense; exit 0", "invalid JSON .*nonsense"),
        ("exit 0", "invalid JSON .*empty"),
        ("echo '[1]'; exit 0", "its result must"),
        ("echo '{\"ips\": 5}'; exit 0", '"ips"'),
        ("echo '{\"ips\": [{}]}'; exit 0", 'must have "address"'),
        ("echo '{\"dns\": 5}'; exit 0", '"dns"'),
        ('echo \'{"dns": {"search": [5]}}\'; exit 0', '"search"'),
        ("echo oh dear >&2; exit 7", "ADD: exit status 7: oh dear"),
        ("kill -9 $$", "ADD: signal 9"),
        ("yes | head -c 2000000; exit 0", "its output exceeds 1048576 bytes"),
        ("yes | head -c 2000000 >&2; exit 0", "its output exceeds 1048576 bytes"),
    ],
)
def test_bad_answers(host: NetworkHost, fakes: Fakes, more: str, text: str) -> None:
    fakes.make("bad", more=f"[ $CNI_COMMAND = DEL ] || {{ {more}; }}")
    host.configure("10.conf", {"name": "lan", "type": "bad"})
    with pytest.raises(NetworkError, match=text):
        host.join(host.pod(), "lan", "default-restricted")
    host.assert_clean()


def test_versions_that_it_speaks(host: NetworkHost, fakes: Fakes) -> None:
    said = {"code": 1, "msg": "incompatible CNI versions"}
    versions = {"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0"]}
    answer = f"[ $CNI_COMMAND = VERSION ] && {{ echo '{json.dumps(versions)}'; exit 0; }}"
    fails = f"[ $CNI_COMMAND = DEL ] || {{ echo '{json.dumps(said)}'; exit 1; }}"
    fakes.make("old", more=f"{answer}\n{fails}")
    host.configure("10.conf", {"name": "lan", "type": "old", "cniVersion": "1.1.0"})
    with pytest.raises(NetworkError, match=r"incompatible.* \(the plugin supports 0.3.1, 0.4.0\)"):
        host.join(host.pod(), "lan")


def test_a_problem_does_not_stop_the_others(host: NetworkHost, fakes: Fakes) -> None:
    fakes.make("sticky", RESULT, "[ $CNI_COMMAND = DEL ] && exit 4")
    host.configure("10.conf", {"name": "lan", "type": "sticky"})
    pod = host.pod()
    host.join(pod, "lan", "default")
    (problem,) = host.leave(pod)
    assert '/sticky": DEL: exit status 4' in problem
    assert host.leases() == [f".pods/{pod.uuid}"]
    assert host.links() == ["lo"]
    fakes.make("sticky")
    assert host.leave(pod) == []
    host.assert_clean()


def test_missing_plugin(host: NetworkHost) -> None:
    host.configure("10.conf", {"name": "lan", "type": "nosuch"})
    with pytest.raises(NetworkError, match=r'"nosuch": not found .*/opt/cni/bin'):
        host.join(host.pod(), "lan")
    host.assert_clean()


def test_check(host: NetworkHost, fakes: Fakes) -> None:
    fakes.make("good", RESULT, f"[ $CNI_COMMAND = CHECK ] && exit $(cat {host.net_d}/status)")
    host.configure("10.conf", {"name": "lan", "type": "good"})
    pod = host.pod()
    host.join(pod, "lan", "default")
    for status, count in ((0, 0), (3, 1)):
        (host.net_d / "status").write_text(str(status))
        with host.namespace.entered():
            assert len(connect_pod.check(pod.info)) == count
    assert fakes.calls()[-1].configuration["prevResult"] == RESULT
    host.run("ip", "link", "delete", f"veth{pod.uuid[:8]}-1")
    with host.namespace.entered():
        assert any("is missing" in problem for problem in connect_pod.check(pod.info))
    assert host.leave(pod) == []
    host.assert_clean()


@pytest.mark.parametrize("info", [{}, {"networks": 5, "namespace": ""}, {"networks": [5]}])
def test_damaged_records_are_told(info: dict[str, Any]) -> None:
    (problem,) = connect_pod.tear_down(info)
    assert "damaged" in problem


def test_ports_go_to_a_plugin_that_takes_them(host: NetworkHost, fakes: Fakes) -> None:
    fakes.make("first", RESULT)
    fakes.make("mapper", RESULT)
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]
    mapper = {"type": "mapper", "capabilities": {"portMappings": True}}
    host.configure("10.conflist", conflist({"type": "first"}, mapper))
    pod = host.pod()
    host.join(pod, "lan", "default-restricted", ports=[])
    assert "runtimeConfig" not in fakes.calls()[1].configuration
    assert host.leave(pod) == []
    host.configure("10.conflist", conflist({"type": "first", "ipMasq": True}, mapper))
    host.join(pod, "lan", ports=ports)
    assert fakes.calls()[-1].configuration["runtimeConfig"] == {"portMappings": ports}
    assert host.leave(pod) == []
