"""What the apps of one pod share while it runs."""

from __future__ import annotations

import posix

from ociruntime.base import json_files as records
from ociruntime.base.files import read_file, remove_file
from ociruntime.pods.bundle import own_mounts
from ociruntime.pods.store import pod_cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
    from ociruntime.pods.loop.loop import Loop

SHARED_MEMORY = "shm"  # in the pod's directory: what its apps have as /dev/shm


class Surroundings:
    """``path`` is the pod's directory, and the working directory of this process.

    ``private`` are descriptors that no other program may get, ``cgroups`` the pod's directories
    in the hierarchies, ``namespaces`` those that the apps join, by the specification's names.
    """

    may_sleep = True  # whether all that is known of the apps can be frozen
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
        """Called once: make what the apps share, by ``runtime-config`` and manifest.

        Returns warnings.  Raises HostError.
        """
        if config.get("ipc") != "parent":
            owner = (config.get("private_users") or {}).get("shift", 0)
            own_mounts.share_memory(SHARED_MEMORY, config["shm_size"], owner)
        wanted = manifest.get("isolators")
        if not wanted or config.get("flavor") == "fly":
            return []
        from ociruntime.pods.bundle.host_facts import controllers
        from ociruntime.pods.manifest import limits

        known = controllers()
        made = limits.resources(limits.kept(wanted, known))
        name = f"ocipod-{self.path.rpartition('/')[2]}"
        pod_cgroup.limit(name, limits.divided(made), limits.unified(made))
        return limits.skipped(wanted, known)

    def begin(self) -> None:
        """Called once, before the first app is started.  Raises RuntimeFailure."""

    def end(self, then: Callable[[], None]) -> None:
        """Called once, after the last app has ended; ``then`` when the rest has."""
        then()

    def runtime_log(self, app: str) -> str:
        """Where the runtime writes what went wrong."""
        return f"apps/{app}/runtime.log"

    def create_container(self, app: str, streams: list[int], terminal: bool) -> None:
        """In a child: write the bundle and become the runtime that makes it a container.

        Raises RuntimeFailure.
        """
        from ociruntime.pods.bundle.write_bundle import write_bundle

        directory = f"{self.path}/apps/{app}"
        for warning in write_bundle(self.path, app, self.namespaces):
            if streams[2] >= 0:  # the app's log shows it
                posix.write(streams[2], f"ocipod: {warning}\n".encode())
        config_path = f"{directory}/bundle/config.json"
        config = records.read(config_path)
        if bool(config["process"].get("terminal")) != terminal:
            config["process"]["terminal"] = terminal
            records.replace(config_path, config, lasting=False)
        remove_file(self.runtime_log(app))
        remove_file(f"apps/{app}/pid")
        words = ["create", "--bundle", f"{directory}/bundle", "--pid-file", f"{directory}/pid"]
        if terminal:
            # A Unix socket's address has little room, and some runtimes go to the bundle first.
            posix.chdir(f"{directory}/bundle")
            words += ["--console-socket", "console"]
        words.append(self.runtime.container(app))
        self.runtime.become(f"{directory}/runtime.log", words, streams)

    def call_runtime(self, app: str, words: tuple[str, ...]) -> None:
        """In a child: become the runtime for another command.  Raises RuntimeFailure."""
        remove_file(self.runtime_log(app))
        self.runtime.become(f"{self.path}/{self.runtime_log(app)}", words, (-1, -1, -1))


def apps_of(manifest: dict[str, object]) -> list[dict[str, object]]:
    """The entries of a manifest's apps."""
    apps = manifest.get("apps")
    return apps if isinstance(apps, list) else []


def read_manifest() -> dict[str, object]:
    """The manifest of the pod in the working directory.  Raises PodError, HostError."""
    try:
        return records.parse(read_file("pod"), "the pod's manifest")
    except OSError as error:
        from ociruntime.base.errors import HostError

        raise HostError("read the pod's manifest", error) from None
