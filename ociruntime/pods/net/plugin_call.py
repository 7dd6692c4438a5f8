"""The parameters of a call to a CNI plugin, the same for programs and built-in ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ociruntime.pods.net.rules import Rules


class PluginCall:
    """``namespace`` is a path, "" if it is gone; ``configuration`` is passed on stdin."""

    __slots__ = (
        "arguments",
        "configuration",
        "container",
        "directories",
        "firewall",
        "interface",
        "namespace",
        "programs",
        "rules",
        "state_directory",
    )

    def __init__(
        self,
        container: str,
        namespace: str,
        interface: str,
        arguments: str,
        configuration: dict[str, Any],
        directories: tuple[str, ...],
        state_directory: str,
        firewall: str,
        programs: bool = True,
    ) -> None:
        self.container = container
        self.namespace = namespace
        self.interface = interface
        self.arguments = arguments  # K=V;K2=V2
        self.configuration = configuration
        self.directories = directories  # search path of plugins
        self.state_directory = state_directory
        self.firewall = firewall  # nft, iptables or ""
        self.programs = programs  # whether an installed program may assign addresses
        self.rules: list[Rules] = []  # rules that built-in plugins want in the packet filter

    @property
    def network(self) -> str:
        """The network's name."""
        return str(self.configuration["name"])

    @property
    def previous(self) -> dict[str, Any]:
        """The result of the previous plugin in the chain, {} for the first one."""
        found = self.configuration.get("prevResult")
        return found if isinstance(found, dict) else {}

    def environment(self, command: str) -> Mapping[str, str]:
        """Return the CNI variables for a program."""
        return {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": self.container,
            "CNI_NETNS": self.namespace,
            "CNI_IFNAME": self.interface,
            "CNI_ARGS": self.arguments,
            "CNI_PATH": ":".join(self.directories),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }

    def argument(self, name: str) -> str:
        """Return a value of ``arguments``, "" if it is not there."""
        for word in self.arguments.split(";"):
            key, _, value = word.partition("=")
            if key == name:
                return value
        return ""
