"""Refuse settings that flavour kvm does not support, before anything is created."""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.pods.kvm.settings import settings
from ociruntime.pods.manifest import isolators
from ociruntime.pods.manifest.app_arguments import Values


def check_options(options: Values, local_config: str) -> None:
    """Check the options of ``prepare``.  Raises UsageError; PodError if the host lacks kvm."""
    if options.flag("private-users"):
        raise UsageError("--private-users: not needed, a virtual machine has its own users")
    check_run(options, local_config, options.text("kvm-kernel"))


def check_run(options: Values, local_config: str, kernel: str) -> None:
    """Check the options that can also be given to run-prepared."""
    if options.flag("interactive") and os.isatty(0):
        raise UsageError(
            "--interactive: a virtual machine does not support a terminal", "use a pipe or a file"
        )
    settings(local_config, kernel)


def check_networks(networks: list[tuple[str, str]], ipc: str) -> None:
    """Check ``networks``, a list of (name, arguments), and the IPC mode.  Raises UsageError."""
    for name, _ in networks:
        if name == "host":
            raise UsageError("--net=host: a virtual machine cannot have the host's network")
    if ipc == "parent":
        raise UsageError("--ipc=parent: a virtual machine cannot share memory with the host")


def check_manifest(manifest: dict[str, Any]) -> None:
    """Check the apps and volumes.  Raises UsageError."""
    for isolator in manifest["isolators"]:
        if isolator["name"] not in (isolators.MEMORY, isolators.CPU):
            message = f"{isolator['name']}: not supported for a virtual machine as a whole"
            raise UsageError(message, "set it for each app")
    for entry in manifest["apps"]:
        if "tty" in entry["app"].get("streams", {}).values():
            name = entry["name"]
            raise UsageError(
                f'app "{name}": a virtual machine does not support a terminal', "stream"
            )
    for volume in manifest["volumes"]:
        if volume["kind"] == "host" and not os.path.isdir(volume["source"]):
            name, source = volume["name"], volume["source"]
            message = f'volume "{name}": {source}: a virtual machine supports directories only'
            raise UsageError(message)
