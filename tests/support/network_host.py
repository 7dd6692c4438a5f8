"""Fixtures for network tests: a namespace that acts as the host, and the check that it is clean."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.pods.net.connect_pod import NetworkRequest, set_up, tear_down
from tests.support.netns import NetworkNamespace


@pytest.fixture
def namespaces() -> Iterator[Callable[[], NetworkNamespace]]:
    """Return a function that creates a network namespace; the fixture closes them."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not shutil.which("ip"):
        pytest.skip("iproute2 is not installed")
    made: list[NetworkNamespace] = []

    def make() -> NetworkNamespace:
        made.append(NetworkNamespace())
        return made[-1]

    yield make
    for namespace in made:
        namespace.close()


@pytest.fixture
def host(namespaces: Callable[[], NetworkNamespace], tmp_path: Path) -> NetworkHost:
    """A machine with only ``lo``."""
    if not (shutil.which("nft") or shutil.which("iptables-restore")):
        pytest.skip("neither nftables nor iptables is installed")
    return NetworkHost(namespaces, tmp_path)


@pytest.fixture(name="host", autouse=True)
def own_host(namespaces: Callable[[], NetworkNamespace], work: Path) -> Iterator[NetworkHost]:
    """Run each test of the module inside the host's namespace.

    The name hides the fixture ``host``; as the first fixture, it is torn down last.
    """
    one = NetworkHost(namespaces, work)
    one.state = work / "data" / "net"
    with one.namespace.entered():
        yield one


def page_at(namespace: NetworkNamespace, address: str, port: int) -> bytes:
    """Return the HTTP server's whole response to a request for ``/page`` from there."""
    with namespace.connect(address, port) as client:
        client.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        received = b""
        while data := client.recv(1000):
            received += data
    return received


def leases(state: Path) -> list[str]:
    """Return ``NETWORK/ADDRESS`` of every assigned address, and the records of pods."""
    return sorted(
        str(path.relative_to(state))
        for path in state.glob("*/*")
        if path.name != "lock" and not path.name.startswith("last_reserved_ip.")
    )


def rule_lines() -> list[str]:
    """Return every line of nft's and iptables' rules in this thread's namespace."""
    programs = (("nft", "list", "ruleset"), ("iptables-save",), ("ip6tables-save",))
    found: list[str] = []
    for words in programs:
        if shutil.which(words[0]):
            done = subprocess.run(words, capture_output=True, text=True)
            found += [line.strip() for line in done.stdout.splitlines()]
    return found


class Pod:
    """A pod's network namespace and name."""

    def __init__(self, namespace: NetworkNamespace) -> None:
        self.uuid = str(uuid.uuid4())
        self.namespace = namespace
        self.info: dict[str, Any] = {}

    def run(self, *argv: str, status: int | None = 0) -> str:
        return self.namespace.run(*argv, status=status)


class NetworkHost:
    """A host: ``state`` is the directory of leases, ``net_d`` that of configurations."""

    def __init__(self, namespaces: Callable[[], NetworkNamespace], directory: Path) -> None:
        self._namespaces = namespaces
        self.namespace = namespaces()
        self.state = directory / "net"
        self.net_d = directory / "etc" / "net.d"
        self.net_d.mkdir(parents=True)
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *argv: str, status: int | None = 0, input: str = "") -> str:
        return self.namespace.run(*argv, status=status, input=input)

    def pod(self) -> Pod:
        return Pod(self._namespaces())

    def configure(self, name: str, configuration: object) -> None:
        (self.net_d / name).write_text(json.dumps(configuration))

    def plugin(self, name: str, text: str) -> None:
        path = self.net_d / name
        path.write_text(text)
        path.chmod(0o755)

    def request(
        self, pod: Pod, *networks: str, ports: list[dict[str, Any]] | None = None
    ) -> NetworkRequest:
        words = [(word.partition(":")[0], word.partition(":")[2]) for word in networks]
        return NetworkRequest(
            pod.uuid,
            pod.namespace.path,
            words or [("default", "")],
            ports or [],
            str(self.state),
            [str(self.net_d)],
        )

    def join(
        self, pod: Pod, *networks: str, ports: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        request = self.request(pod, *networks, ports=ports)
        with self.namespace.entered():
            pod.info = json.loads(json.dumps(set_up(request)))
        return pod.info

    def leave(self, pod: Pod) -> list[str]:
        with self.namespace.entered():
            return tear_down(pod.info)

    def leases(self) -> list[str]:
        return leases(self.state)

    def links(self) -> list[str]:
        return sorted(link["ifname"] for link in json.loads(self.run("ip", "-j", "link")))

    def rules(self) -> str:
        """Return all rules of nft, and of iptables without its built-in chains."""
        text = ""
        if shutil.which("nft"):
            tables = self.run("nft", "list", "tables").splitlines()
            text += "".join(f"{table}\n" for table in tables if "ocipod" in table)
        for save in filter(shutil.which, ("iptables-save", "ip6tables-save")):
            lines = self.run(save).splitlines()
            text += "".join(
                f"{line}\n" for line in lines if line.startswith("-") or "CIPOD" in line
            )
        return text

    def assert_clean(self) -> None:
        assert self.links() == ["lo"]
        assert self.rules() == ""
        assert self.leases() == []
