"""Run a pod's virtual machine: start qemu as a child of the monitor, and power it off.

On the host, a proxy process represents each app: it has the app's streams, forwards signals to the
app, and exits with the app's status.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError, reason
from ociruntime.base.files import memory_file, remove_file
from ociruntime.base.host_programs import DIRECTORIES
from ociruntime.base.process import close_inherited_on_exec
from ociruntime.pods.bundle.pod_context import PodContext, apps_of, read_manifest
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
from ociruntime.pods.kvm import virtio_port
from ociruntime.pods.kvm.qemu import CONSOLE
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.control_socket import listen
from ociruntime.pods.loop.event_loop import Loop, Timer
from ociruntime.pods.loop.worker import Outcome

PORTS = (
    "machine"  # directory of the ports' sockets: 0 of the guest agent, then 1, 2 ... of the apps
)
CGROUP = "machine"  # qemu's cgroup, below the pod's
SEEK_END = 2
CONSOLE_TAIL = 4096  # bytes read from the end of the console's log, which the guest can fill
POWER_OFF_TIMEOUT = 5.0  # seconds until qemu is killed


class Machine(PodContext):
    """A pod context that runs the apps in a virtual machine, without an OCI runtime."""

    can_hibernate = False
    __slots__ = ("_apps", "_ended", "_kill_timer", "_over", "_pid")

    def __init__(self, loop: Loop, path: str, runtime: RuntimeCalls) -> None:
        super().__init__(loop, path, runtime)
        self._apps: list[str] = []
        self._pid = 0
        self._over = False
        self._ended: Callable[[], None] | None = None
        self._kill_timer: Timer | None = None

    def set_up(self, config: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
        """Do nothing, and return no warnings.

        The guest mounts its own /dev/shm, and the size of the virtual machine limits its apps.
        """
        del config, manifest
        return []

    def begin(self) -> None:
        """Start qemu in a child process, without waiting until the guest has booted.

        Raises PodError if the manifest is damaged, HostError if a file or process cannot be
        created.
        """
        self._apps = [str(entry["name"]) for entry in apps_of(read_manifest())]
        for stale in _make_directory(PORTS):
            remove_file(f"{PORTS}/{stale}")
        remove_file(CONSOLE)
        listeners = [
            listen(f"{PORTS}/{n}", socket.SOCK_STREAM, 2) for n in range(len(self._apps) + 1)
        ]
        descriptors = [listener.fileno() for listener in listeners]
        self._pid = worker.start(
            self.loop,
            self.private,
            "start the virtual machine",
            lambda: self._become_machine(descriptors),
            self._handle_exit,
        )
        for listener in listeners:
            listener.close()

    def end(self, then: Callable[[], None]) -> None:
        """Power off the machine, and call ``then`` once qemu has exited.

        Qemu is killed if it has not exited after 5 seconds.
        """
        self._over = True
        if not self._pid:
            then()
            return
        self._ended = then
        self._kill_timer = self.loop.after(POWER_OFF_TIMEOUT, self._kill)
        virtio_port.power_off(f"{PORTS}/0")

    def _kill(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)

    def _handle_exit(self, outcome: Outcome) -> None:
        self._pid = 0
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if self._ended is not None:
            self._ended()
            return
        why = outcome.error or _last_console_line()
        # Fail in the next iteration: apps that exited together with qemu are handled before.
        self.loop.after(
            0, lambda: self._fail(f"{virtio_port.GONE}: {why}" if why else virtio_port.GONE)
        )

    def _fail(self, reason: str) -> None:
        if not self._over:
            raise PodError(reason)

    def create_container(self, app: str, streams: list[int], terminal: bool) -> None:
        """Start the app in the guest, and write the pid of its proxy process to ``apps/APP/pid``.

        Runs in a child of the monitor.  When this child exits, the monitor becomes the parent of
        the proxy, because the monitor is a subreaper.  ``streams`` are the descriptors of the app's
        stdin, stdout and stderr, -1 for /dev/null.  Raises RuntimeFailure if the app cannot be
        started.
        """
        if terminal:
            raise PodError(f'start app "{app}": a virtual machine has no terminal')
        remove_file(f"apps/{app}/pid")
        self._join_cgroup()
        pid = virtio_port.start_app(f"{PORTS}/{self._apps.index(app) + 1}", streams)
        json_files.replace_text(f"apps/{app}/pid", str(pid).encode(), lasting=False)

    def call_runtime(self, app: str, argv: tuple[str, ...]) -> None:
        """Carry out ``argv``, a command of an OCI runtime, in the guest.

        If ``argv[0]`` is "delete", kills the app's processes; other commands have no effect.
        Raises PodError if the guest agent does not confirm in time that the processes have exited.
        """
        if argv[0] == "delete":
            virtio_port.end_app(f"{PORTS}/{self._apps.index(app) + 1}")

    def _become_machine(self, ports: list[int]) -> NoReturn:
        """Mount the apps' root filesystems, and replace this child process with qemu.

        ``ports`` are descriptors of listening sockets, which become the machine's virtio ports.
        Raises RuntimeFailure if a mount fails or qemu cannot be executed.
        """
        from ociruntime.pods.kvm.confinement import confine
        from ociruntime.pods.kvm.network import connect_taps
        from ociruntime.pods.kvm.prepare_machine import networks_in, prepare_machine
        from ociruntime.pods.kvm.qemu import command

        close_inherited_on_exec()
        config: dict[str, Any] = json_files.read("runtime-config")
        machine, initramfs = prepare_machine(self.path, self._apps, config)
        machine.initramfs = f"/proc/self/fd/{memory_file('initramfs', initramfs, 0)}"
        machine.ports = ports
        machine.networks = connect_taps(self.namespaces["network"], networks_in(self.path))
        argv = command(machine)
        for fd in (*ports, *(fd for fd, _ in machine.networks)):
            os.set_inheritable(fd, True)
        self._join_cgroup()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(CONSOLE, flags, 0o640)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number, fd in enumerate((null, log, log)):
            os.dup2(fd, number)
        confine(machine)
        # Import nothing from here on: the root directory no longer contains this package.
        try:
            os.execve(argv[0], argv, {"PATH": ":".join(DIRECTORIES)})
        except OSError as error:
            raise HostError(f'execute "{argv[0]}"', error) from None

    def _join_cgroup(self) -> None:
        """Move this process to a cgroup of the pod, so that the pod's lock holder can kill it.

        With cgroup v1, one hierarchy is enough.  Raises PodError if the process can join no cgroup.
        """
        problem = "the pod has no cgroup"
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
            except OSError as error:
                problem = f'"{directory}": {reason(error)}'
                continue
            return
        raise PodError(f"start the virtual machine: move qemu to a cgroup of the pod: {problem}")


def _make_directory(directory: str) -> list[str]:
    """Create ``directory`` if it is missing; return the names of its entries.

    Raises HostError if the directory cannot be created.
    """
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return os.listdir(directory)
    except OSError as error:
        raise HostError(f'create the directory "{directory}"', error) from None
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
