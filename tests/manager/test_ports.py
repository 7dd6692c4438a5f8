"""Published ports of containers, in sequence, on a separate host."""

from __future__ import annotations

import socket
import subprocess

from tests.support import processes
from tests.support.daemon import OCICTL, Daemon
from tests.support.network_host import NetworkHost, namespaces, own_host

__all__ = ("namespaces", "own_host")


def page(port: int) -> str:
    """Return the page at ``/page``; empty if there is no server."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(b"GET /page HTTP/1.0\r\n\r\n")
            received = b""
            while data := client.recv(1000):
                received += data
    except OSError:
        return ""
    return received.decode().rpartition("\r\n")[2].strip()


def test_a_port_is_free_once_its_container_has_ended(
    host: NetworkHost, daemon: Daemon, shell_root: str
) -> None:
    spec = {"ports": [{"host_port": 8080, "port": 80}], "network": "default"}
    for name in ("c1", "c2"):
        script = f"echo of {name} > /tmp/page; exec busybox httpd -f -p 80 -h /tmp"
        command = ["/bin/sh", "-c", script]
        one = daemon.run(name, rootfs=shell_root, command=command, **spec)
        assert processes.until(lambda name=name: page(8080) == f"of {name}")  # type: ignore[misc]
        assert daemon.get(one)["addresses"]["default"].startswith("172.16.28.")
        assert daemon.get(one)["ports"] == spec["ports"]
        uuid = daemon.get(one)["pod"]
        daemon.verb(one, "stop").ok()
        daemon.pods.wait_for(uuid, "exited")
        assert daemon.get(one)["status"] == "stopped"
        assert page(8080) == ""
    daemon.verb("c1", "start").ok()
    assert processes.until(lambda: page(8080) == "of c1")
    daemon.remove("c1")
    daemon.remove("c2")
    host.assert_clean()


def test_what_is_read_late_is_there(host: NetworkHost, daemon: Daemon, shell_root: str) -> None:
    """A container releases its ports when it exits."""
    words = [str(OCICTL), f"--socket={daemon.socket}", "run", "--name=c", f"--rootfs={shell_root}"]
    script = "busybox head -c 900000 /dev/zero; exit 3"
    words += ["-p", "8080:80", "--", "/bin/sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as one:
        try:
            uuid = daemon.wait_for("c", "stopped")["pod"]
            processes.until(lambda: daemon.pods.state(uuid) == "exited", 1)
            out, _ = one.communicate(timeout=60)
        finally:
            one.kill()
    assert (one.returncode, len(out)) == (3, 900_000)
    daemon.pods.wait_for(uuid, "exited")
    daemon.remove("c")
    host.assert_clean()


def test_only_running_containers_have_addresses_and_ports(
    host: NetworkHost, daemon: Daemon, shell_root: str
) -> None:
    """Two containers can have the same port, but only one of them can run."""
    spec = {"ports": [{"host_port": 8080, "port": 80}], "network": "default"}
    command = ["/bin/sh", "-c", "exec sleep 600"]
    for name in ("c1", "c2"):
        one = daemon.create(name, rootfs=shell_root, command=command, **spec)
        assert daemon.get(one)["addresses"] == {}
        assert daemon.pods.state(daemon.get(one)["pod"]) == "prepared"
    host.assert_clean()
    daemon.verb("c1", "start").ok()
    for _ in range(2):
        daemon.verb("c2", "start").failed(500, "8080", 'container "c1"')
        assert daemon.get("c2")["status"] == "created"
    daemon.verb("c1", "stop").ok()
    daemon.verb("c2", "start").ok()  # at once: the port is free when the stop has returned
    assert daemon.get("c1")["addresses"] == {}
    assert daemon.get("c2")["addresses"]["default"].startswith("172.16.28.")
    daemon("POST", "/v1/containers/c2/kill", {"signal": "SIGKILL"}).ok()
    assert daemon.verb("c2", "wait").ok()["exit_code"] == 137
    daemon.verb("c1", "start").ok()  # at once here, too
    daemon.remove("c1")
    daemon.remove("c2")
    host.assert_clean()
