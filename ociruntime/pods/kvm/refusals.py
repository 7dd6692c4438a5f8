"""What a pod of flavour kvm cannot be, found before anything of it is made."""

from __future__ import annotations

import os

from ociruntime.base.errors import UsageError
from ociruntime.pods.kvm.settings import settings
from ociruntime.pods.manifest import isolators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.manifest.app_arguments import Values


def check_options(options: Values, local_config: str) -> None:
    """Raises UsageError, and PodError if this host cannot have virtual machines."""
    if options.flag("private-users"):
        raise UsageError("--private-users: a virtual machine has users of its own anyway")
    check_run(options, local_config, options.text("kvm-kernel"))


def check_run(options: Values, local_config: str, kernel: str) -> None:
    """The same of what may be said as late as by run-prepared."""
    if options.flag("interactive") and os.isatty(0):
        raise UsageError(
            "--interactive: a virtual machine gives no terminal", "input by a pipe or a file"
        )
    settings(local_config, kernel)


def check_networks(networks: list[tuple[str, str]], ipc: str) -> None:
    """``networks``: (name, arguments) each.  Raises UsageError."""
    for name, _ in networks:
        if name == "host":
            raise UsageError("--net=host: a virtual machine cannot have the host's network")
    if ipc == "parent":
        raise UsageError("--ipc=parent: a virtual machine shares no memory with the host")


def check_manifest(manifest: dict[str, Any]) -> None:
    """Raises UsageError."""
    for isolator in manifest["isolators"]:
        if isolator["name"] not in (isolators.MEMORY, isolators.CPU):
            message = f"a virtual machine has no {isolator['name']} for all apps together"
            raise UsageError(message, "give it to each app")
    for entry in manifest["apps"]:
        if "tty" in entry["app"].get("streams", {}).values():
            name = entry["name"]
            raise UsageError(f'app "{name}": a virtual machine gives no terminal', "stream")
    for volume in manifest["volumes"]:
        if volume["kind"] == "host" and not os.path.isdir(volume["source"]):
            name, source = volume["name"], volume["source"]
            message = f'the volume "{name}": a virtual machine sees directories only, not {source}'
            raise UsageError(message)
