"""Network namespaces that act as hosts in tests, so that the machine's stays unchanged."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from ociruntime._system_calls import lib

from ociruntime.base.linux import CLONE_NEWNET

TIMEOUT = 20  # seconds for what takes none on an idle machine


class NetworkNamespace:
    """A namespace kept alive by a sleeping process; ``path`` refers to it until ``close``."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.read(1) == b"\n"
        self.pid = self._holder.pid
        self.path = f"/proc/{self.pid}/ns/net"

    def close(self) -> None:
        """Kill the process that keeps the namespace alive."""
        if self._holder.returncode is None:
            self._holder.kill()
            self._holder.communicate()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Context manager: this thread, and what it starts, is in the namespace."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(self.path, os.O_RDONLY)
        try:
            assert lib.oci_setns(there, CLONE_NEWNET) == 0
            try:
                yield
            finally:
                assert lib.oci_setns(home, CLONE_NEWNET) == 0
        finally:
            os.close(home)
            os.close(there)

    def run(self, *argv: str, status: int | None = 0, input: str = "") -> str:
        """Run a program in the namespace; return its output.

        ``status`` is the expected one, None for any.
        """
        with self.entered():
            done = subprocess.run(
                argv, capture_output=True, text=True, input=input, timeout=60, check=False
            )
        assert status in (None, done.returncode), f"{argv}: {done.stderr}"
        return done.stdout

    def listen(self, port: int, address: str = "") -> socket.socket:
        """Return a listening socket in the namespace."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.entered():
            server = socket.socket(family)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen()
        server.settimeout(TIMEOUT)
        return server

    def connect(self, address: str, port: int) -> socket.socket:
        """Connect from the namespace.

        Raises OSError.
        """
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.entered():
            client = socket.socket(family)
        client.settimeout(TIMEOUT)
        try:
            client.connect((address, port))
        except OSError:
            client.close()
            raise
        return client


def seen_source(
    client: NetworkNamespace,
    server: NetworkNamespace,
    address: str,
    port: int,
    server_port: int = 0,
) -> str:
    """Connect and exchange data; return the client's address as the server sees it."""
    with (
        server.listen(server_port or port, "::" if ":" in address else "") as listening,
        client.connect(address, port) as ours,
    ):
        theirs, peer = listening.accept()
        with theirs:
            theirs.settimeout(TIMEOUT)
            ours.sendall(b"there")
            assert theirs.recv(10) == b"there"
            theirs.sendall(b"back")
            assert ours.recv(10) == b"back"
    return str(peer[0])
