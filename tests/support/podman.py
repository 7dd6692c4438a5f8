"""Debian's podman with storage, state and configuration of its own."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support import image
from tests.support.runtime import Result, Runtime, execute

# Hard limits cannot be raised everywhere, and podman's defaults are high.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")

CONFIGURATION = """
[engine]
runtime_supports_json = ["crun", "runc", "ociruntime"]
[network]
network_config_dir = "{place}/networks"
"""


class Podman:
    """Runs ``podman`` with the runtime under test below it."""

    def __init__(self, runtime: Runtime, place: Path, cgroup_parent: str) -> None:
        self.runtime = runtime
        self.cgroup_parent = cgroup_parent
        self._environment = {**os.environ, "CONTAINERS_CONF": str(place / "containers.conf")}
        (place / "networks").mkdir(parents=True)
        (place / "containers.conf").write_text(CONFIGURATION.format(place=place))
        self._globals = [
            *("--root", str(place / "storage"), "--runroot", str(place / "runroot")),
            *("--tmpdir", str(place / "tmp"), "--storage-driver", "vfs"),
            *("--cgroup-manager", "cgroupfs", "--events-backend", "file"),
            *("--log-level", "error", "--runtime", str(runtime.path)),
        ]

    def __call__(self, *args: str) -> Result:
        """Run ``podman ARGS``."""
        command = ["podman", *self._globals, *args]
        return execute(command, env=self._environment, timeout=90)

    def run(self, *args: str, network: str = "none") -> Result:
        """Run ``podman run`` on the test image: options, then ``--``, then the command."""
        return self.container("run", *args, network=network)

    def container(self, verb: str, *args: str, network: str = "none") -> Result:
        """``run`` or ``create`` with the options that this machine needs."""
        options, _, command = _split(args)
        fixed = (*LIMITS, "--network", network, "--cgroup-parent", self.cgroup_parent)
        return self(verb, *fixed, *options, image.NAME, *command)


def _split(args: tuple[str, ...]) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Options and command around ``--``; all are the command when it is not there."""
    if "--" not in args:
        return (), "", args
    at = args.index("--")
    return args[:at], "--", args[at + 1 :]
