"""The pod context: what a running pod's apps share, and how their containers are created."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.files import read_file, remove_file
from ociruntime.pods.bundle import private_mount_namespace
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.store import pod_cgroup

SHARED_MEMORY = "shm"  # in the pod's directory: mounted as its apps' /dev/shm


class PodContext:
    """The environment that a pod's apps share, and the methods that create their containers.

    The subclass ``Machine`` runs the apps in a virtual machine instead of with an OCI runtime.

    ``path`` is the pod's directory, the working directory of the monitor.  ``private`` lists
    descriptors that the monitor's child processes close, ``cgroups`` the pod's cgroup directories
    in all hierarchies.  ``namespaces`` maps OCI namespace types to the paths of the namespaces that
    the apps join.
    """

    can_hibernate = True  # whether the monitor may hibernate while apps run
    __slots__ = (
        *("cgroups", "has_terminal", "is_clean", "loop", "namespaces", "path"),
        *("private", "runtime", "warn"),
    )

    def __init__(self, loop: Loop, path: str, runtime: RuntimeCalls) -> None:
        self.loop = loop
        self.path = path
        self.runtime = runtime
        self.private: tuple[int, ...] = ()
        self.cgroups: list[str] = []
        self.namespaces: dict[str, str] = {}
        self.has_terminal = False
        self.warn: Callable[[str], None] = _ignore  # called with warnings for the user
        self.is_clean = True  # False if cleanup has left something on the host

    def set_up(self, config: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
        """Mount the pod's /dev/shm and set the resource limits of its cgroup; called once.

        ``config`` is the pod's runtime-config.  Returns warnings about limits that this host cannot
        enforce.  Raises HostError if a mount fails or a limit cannot be set.
        """
        if config.get("ipc") != "parent":
            owner = (config.get("private_users") or {}).get("shift", 0)
            private_mount_namespace.share_memory(SHARED_MEMORY, config["shm_size"], owner)
        isolators = manifest.get("isolators")
        if not isolators or config.get("flavor") == "fly":
            return []
        from ociruntime.pods.bundle.host_facts import controllers
        from ociruntime.pods.manifest import oci_resources

        known = controllers()
        limits = oci_resources.resources(oci_resources.enforceable(isolators, known))
        name = f"ocipod-{self.path.rpartition('/')[2]}"
        pod_cgroup.limit(name, oci_resources.divided(limits), oci_resources.unified(limits))
        return oci_resources.skipped(isolators, known)

    def begin(self) -> None:
        """Prepare to run apps; the base class does nothing.

        Called once, before the first app starts.  For kvm pods, the override starts the virtual
        machine, and raises RuntimeFailure if that fails.
        """

    def end(self, then: Callable[[], None]) -> None:
        """Release what the apps of the pod used, then call ``then``.

        Called when the last app has exited.  The base class has nothing to release, and calls
        ``then`` at once.  For kvm pods, the override first stops the virtual machine.
        """
        then()

    def runtime_log(self, app: str) -> str:
        """Return the path of the OCI runtime's log for ``app``, relative to the pod's directory."""
        return f"apps/{app}/runtime.log"

    def create_container(self, app: str, streams: list[int], terminal: bool) -> None:
        """Write the app's bundle, and replace this child process with the OCI runtime's ``create``.

        ``streams`` are the descriptors of the app's stdin, stdout and stderr, -1 for /dev/null.
        With ``terminal``, the runtime sends the terminal to the socket ``console`` in the bundle.
        Raises RuntimeFailure if the bundle cannot be written or the OCI runtime cannot be executed.
        """
        from ociruntime.pods.bundle.write_bundle import write_bundle

        directory = f"{self.path}/apps/{app}"
        for warning in write_bundle(self.path, app, self.namespaces):
            if streams[2] >= 0:  # make warnings visible in the app's log
                os.write(streams[2], f"ocipod: {warning}\n".encode())
        config_path = f"{directory}/bundle/config.json"
        config = json_files.read(config_path)
        if bool(config["process"].get("terminal")) != terminal:
            config["process"]["terminal"] = terminal
            json_files.replace(config_path, config, lasting=False)
        remove_file(self.runtime_log(app))
        remove_file(f"apps/{app}/pid")
        argv = ["create", "--bundle", f"{directory}/bundle", "--pid-file", f"{directory}/pid"]
        if terminal:
            # An absolute path may be too long for sun_path; some runtimes change to the bundle
            # first, so that the path is relative to the bundle.
            os.chdir(f"{directory}/bundle")
            argv += ["--console-socket", "console"]
        argv.append(self.runtime.container(app))
        self.runtime.become(f"{directory}/runtime.log", argv, streams)

    def call_runtime(self, app: str, argv: tuple[str, ...]) -> None:
        """Replace this child process with the OCI runtime, called with the arguments ``argv``.

        The runtime writes its errors to the log of ``app``.  Raises RuntimeFailure if the runtime
        cannot be executed.
        """
        remove_file(self.runtime_log(app))
        self.runtime.become(f"{self.path}/{self.runtime_log(app)}", argv, (-1, -1, -1))


def _ignore(warning: str) -> None:
    del warning


def apps_of(manifest: dict[str, object]) -> list[dict[str, object]]:
    """Return the app entries of a pod's manifest, or [] if its member "apps" is not a list."""
    apps = manifest.get("apps")
    return apps if isinstance(apps, list) else []


def read_manifest() -> dict[str, object]:
    """Return the manifest of the pod whose directory is the working directory.

    Raises PodError if the manifest is damaged, HostError if it cannot be read.
    """
    try:
        return json_files.parse(read_file("pod"), "the pod's manifest")
    except OSError as error:
        from ociruntime.base.errors import HostError

        raise HostError(f'read the pod\'s manifest "{os.getcwd()}/pod"', error) from None
