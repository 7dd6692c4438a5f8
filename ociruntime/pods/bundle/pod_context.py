"""Pod context: what the apps of a pod share while it is running."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.files import read_file, remove_file
from ociruntime.pods.bundle import own_mounts
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
from ociruntime.pods.loop.loop import Loop
from ociruntime.pods.store import pod_cgroup

SHARED_MEMORY = "shm"  # in the pod's directory: mounted as its apps' /dev/shm


class PodContext:
    """``path`` is the pod's directory, which is the working directory of this process.

    ``private`` are descriptors that no other program may inherit, ``cgroups`` the pod's cgroups in
    all hierarchies, ``namespaces`` the types that apps join, by the runtime specification's names.
    """

    may_sleep = True  # whether the apps' state can be serialised for hibernation
    __slots__ = (
        *("cgroups", "has_terminal", "log_limit", "loop", "namespaces", "path", "private"),
        "runtime",
    )

    def __init__(self, loop: Loop, path: str, runtime: RuntimeCalls) -> None:
        self.loop = loop
        self.path = path
        self.runtime = runtime
        self.private: tuple[int, ...] = ()
        self.cgroups: list[str] = []
        self.namespaces: dict[str, str] = {}
        self.log_limit = 0
        self.has_terminal = False

    def set_up(self, config: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
        """Create what the apps share, from ``runtime-config`` and manifest; called once.

        Returns warnings.  Raises HostError.
        """
        if config.get("ipc") != "parent":
            owner = (config.get("private_users") or {}).get("shift", 0)
            own_mounts.share_memory(SHARED_MEMORY, config["shm_size"], owner)
        wanted = manifest.get("isolators")
        if not wanted or config.get("flavor") == "fly":
            return []
        from ociruntime.pods.bundle.host_facts import controllers
        from ociruntime.pods.manifest import oci_resources

        known = controllers()
        made = oci_resources.resources(oci_resources.kept(wanted, known))
        name = f"ocipod-{self.path.rpartition('/')[2]}"
        pod_cgroup.limit(name, oci_resources.divided(made), oci_resources.unified(made))
        return oci_resources.skipped(wanted, known)

    def begin(self) -> None:
        """Prepare for the first app; called once before it is started.  Raises RuntimeFailure."""

    def end(self, then: Callable[[], None]) -> None:
        """End what the apps share, after the last app has exited; then call ``then``.

        Called once.
        """
        then()

    def runtime_log(self, app: str) -> str:
        """Return the path of the runtime's error log for an app."""
        return f"apps/{app}/runtime.log"

    def create_container(self, app: str, streams: list[int], terminal: bool) -> None:
        """Write the bundle and execute the runtime to create the container (runs in a child).

        Raises RuntimeFailure.
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
        words = ["create", "--bundle", f"{directory}/bundle", "--pid-file", f"{directory}/pid"]
        if terminal:
            # Relative paths: sun_path is short, and some runtimes change to the bundle first.
            os.chdir(f"{directory}/bundle")
            words += ["--console-socket", "console"]
        words.append(self.runtime.container(app))
        self.runtime.become(f"{directory}/runtime.log", words, streams)

    def call_runtime(self, app: str, words: tuple[str, ...]) -> None:
        """Execute the runtime for another command (runs in a child).  Raises RuntimeFailure."""
        remove_file(self.runtime_log(app))
        self.runtime.become(f"{self.path}/{self.runtime_log(app)}", words, (-1, -1, -1))


def apps_of(manifest: dict[str, object]) -> list[dict[str, object]]:
    """Return the entries of a manifest's apps."""
    apps = manifest.get("apps")
    return apps if isinstance(apps, list) else []


def read_manifest() -> dict[str, object]:
    """Return the manifest of the pod in the working directory.  Raises PodError, HostError."""
    try:
        return json_files.parse(read_file("pod"), "the pod's manifest")
    except OSError as error:
        from ociruntime.base.errors import HostError

        raise HostError("read the pod's manifest", error) from None
