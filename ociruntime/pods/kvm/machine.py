"""A running pod's virtual machine: qemu as a child of the monitor.

On the host, each app is represented by a process, its proxy, which has the app's streams, forwards
signals, and exits with the app's status.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import memory_file, remove_file
from ociruntime.base.host_programs import DIRECTORIES
from ociruntime.base.process import close_inherited_on_exec
from ociruntime.pods.bundle.pod_context import PodContext, apps_of, read_manifest
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
from ociruntime.pods.kvm import virtio_port
from ociruntime.pods.kvm.qemu import CONSOLE
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.event_loop import Loop, Timer
from ociruntime.pods.loop.listening import listen
from ociruntime.pods.loop.worker import Outcome

PORTS = "machine"  # directory of the numbered sockets; 0 is the machine's own
CGROUP = "machine"
SEEK_END = 2
CONSOLE_TAIL = 4096  # bytes read from the end of the console's log, which the guest can fill
POWER_OFF_TIMEOUT = 5.0  # seconds until qemu is killed


class Machine(PodContext):
    """The context of kvm pods, without an OCI runtime; such pods are immutable."""

    can_hibernate = False
    __slots__ = ("_apps", "_ended", "_limit", "_over", "_pid")

    def __init__(self, loop: Loop, path: str, runtime: RuntimeCalls) -> None:
        super().__init__(loop, path, runtime)
        self._apps: list[str] = []
        self._pid = 0
        self._over = False
        self._ended: Callable[[], None] | None = None
        self._limit: Timer | None = None

    def set_up(self, config: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
        """Do nothing: the guest mounts /dev/shm, and the machine's size limits the pod."""
        del config, manifest
        return []

    def begin(self) -> None:
        """Start qemu; apps can be started at once, and wait for it.  Raises PodError, HostError."""
        self._apps = [str(entry["name"]) for entry in apps_of(read_manifest())]
        for each in _make_empty(PORTS):
            remove_file(f"{PORTS}/{each}")
        remove_file(CONSOLE)
        listeners = [
            listen(f"{PORTS}/{n}", socket.SOCK_STREAM, 2) for n in range(len(self._apps) + 1)
        ]
        descriptors = [listener.fileno() for listener in listeners]
        self._pid = worker.start(
            self.loop, self.private, lambda: self._become_machine(descriptors), self._handle_exit
        )
        for listener in listeners:
            listener.close()

    def end(self, then: Callable[[], None]) -> None:
        """Power off the machine; call ``then`` once qemu has exited."""
        self._over = True
        if not self._pid:
            then()
            return
        self._ended = then
        self._limit = self.loop.after(POWER_OFF_TIMEOUT, self._kill)
        virtio_port.power_off(f"{PORTS}/0")

    def _kill(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)

    def _handle_exit(self, outcome: Outcome) -> None:
        self._pid = 0
        if self._limit is not None:
            self._limit.cancel()
        if self._ended is not None:
            self._ended()
            return
        why = outcome.error or _last_console_line()
        # Deferred, so that exits of apps that arrived with this one are handled first.
        self.loop.after(
            0, lambda: self._fail(f"{virtio_port.GONE}: {why}" if why else virtio_port.GONE)
        )

    def _fail(self, reason: str) -> None:
        if not self._over:
            raise PodError(reason)

    def create_container(self, app: str, streams: list[int], terminal: bool) -> None:
        """Start the app and write the pid of its proxy, which the monitor adopts (runs in a child).

        Raises RuntimeFailure.
        """
        if terminal:
            raise PodError(f'start app "{app}": a virtual machine has no terminal')
        remove_file(f"apps/{app}/pid")
        self._join_cgroup()
        pid = virtio_port.start_app(f"{PORTS}/{self._apps.index(app) + 1}", streams)
        json_files.replace_text(f"apps/{app}/pid", str(pid).encode(), lasting=False)

    def call_runtime(self, app: str, words: tuple[str, ...]) -> None:
        """End the app's processes on "delete"; "start" needs nothing (runs in a child)."""
        if words[0] == "delete":
            virtio_port.end_app(f"{PORTS}/{self._apps.index(app) + 1}")

    def _become_machine(self, ports: list[int]) -> NoReturn:
        """Mount the apps' files and execute qemu (runs in a child).  Raises RuntimeFailure."""
        from ociruntime.pods.kvm.confinement import confine
        from ociruntime.pods.kvm.network import take_over
        from ociruntime.pods.kvm.prepare_machine import networks_in, prepare_machine
        from ociruntime.pods.kvm.qemu import command

        close_inherited_on_exec()
        config: dict[str, Any] = json_files.read("runtime-config")
        machine, files = prepare_machine(self.path, self._apps, config)
        machine.initial = f"/proc/self/fd/{memory_file('initial', files, 0)}"
        machine.ports = ports
        machine.networks = take_over(self.namespaces["network"], networks_in(self.path))
        words = command(machine)
        for fd in (*ports, *(fd for fd, _ in machine.networks)):
            os.set_inheritable(fd, True)
        self._join_cgroup()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(CONSOLE, flags, 0o640)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number, fd in enumerate((null, log, log)):
            os.dup2(fd, number)
        confine(machine)
        # Import nothing from here on: the root has changed.
        try:
            os.execve(words[0], words, {"PATH": ":".join(DIRECTORIES)})
        except OSError as error:
            raise HostError(f"execute {words[0]}", error) from None

    def _join_cgroup(self) -> None:
        """Join the pod's cgroup, so that its lock holder kills qemu; one hierarchy is enough."""
        for directory in self.cgroups:
            try:
                for path in (directory, f"{directory}/{CGROUP}"):
                    try:
                        os.mkdir(path, 0o755)
                    except FileExistsError:
                        continue
                fd = os.open(f"{directory}/{CGROUP}/cgroup.procs", os.O_WRONLY)
                try:
                    os.write(fd, b"0")
                finally:
                    os.close(fd)
            except OSError:
                continue
            return
        raise PodError("start the virtual machine: the pod has no cgroup to join")


def _make_empty(directory: str) -> list[str]:
    """Create the directory if it does not exist; return the names of its entries."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return os.listdir(directory)
    except OSError as error:
        raise HostError(f"create {directory}", error) from None
    return []


def _last_console_line() -> str:
    """Return the last non-empty line of the machine's console log, or ""."""
    try:
        with open(CONSOLE, "rb") as file:
            file.seek(max(file.seek(0, SEEK_END) - CONSOLE_TAIL, 0))
            lines = file.read(CONSOLE_TAIL).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
