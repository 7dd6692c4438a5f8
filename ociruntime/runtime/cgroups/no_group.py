"""No cgroup of its own: the container stays in its caller's (``--cgroup-manager disabled``).

For callers who have put themselves into the right cgroup already, such as a service's.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.control_files import read
from ociruntime.runtime.cgroups.group import Cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from ociruntime.runtime.cgroups.layout import Layout
    from ociruntime.runtime.spec.document import Config


class NoCgroup(Cgroup):
    """Makes nothing, limits nothing, removes nothing; recorded as a Cgroup without places."""

    __slots__ = ()

    def __init__(self, visible: tuple[tuple[str, str], ...]) -> None:
        super().__init__("", [])
        self.shown = visible

    @classmethod
    def plan_none(cls, layout: Layout, config: Config) -> Self:
        """Raises ConfigError for limits, since there would be nothing to limit."""
        resources: Mapping[str, Any] = (config.get("linux") or {}).get("resources") or {}
        for section, value in resources.items():
            if section == "devices":
                _check_devices(value, config)
            elif value:
                raise _refusal(f"linux.resources.{section}")
        return cls(visible_directories(layout, read("/proc/self/cgroup")))

    def create(
        self,
        resources: Mapping[str, Any] | None,
        where: str = "linux.resources",
        rootless: bool = False,
    ) -> None:
        """Nothing to make: what the resources say has been looked at in :meth:`plan_none`."""

    def apply(self, resources: Mapping[str, Any] | None, where: str = "linux.resources") -> None:
        """Nothing to write, likewise."""


def _check_devices(rules: list[dict[str, Any]] | None, config: Config) -> None:
    """Engines always have such rules: they are no loss for who can make no device.

    What is in /dev, the configuration itself has put there; only a rule that denies a single
    device would take it away.
    """
    process: Any = config.get("process") or {}
    capabilities = process.get("capabilities") or {}
    makes_devices = any("CAP_MKNOD" in (names or ()) for names in capabilities.values())
    for index, rule in enumerate(rules or ()):
        one = rule.get("type", "a") != "a" or "major" in rule or "minor" in rule
        if not rule.get("allow") and (one or makes_devices):
            hint = "" if one else "without CAP_MKNOD in process.capabilities it is not needed"
            raise _refusal(f"linux.resources.devices[{index}]", hint)


def _refusal(where: str, hint: str = "") -> ConfigError:
    return ConfigError(
        where,
        "cannot be honoured without a cgroup, and --cgroup-manager disabled makes none",
        hint or "leave it out, or use another cgroup manager",
    )


def visible_directories(layout: Layout, membership: str) -> tuple[tuple[str, str], ...]:
    """The caller's directories; ``membership`` is its /proc/PID/cgroup.  Pure."""
    paths = {}
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        paths[names] = path.rstrip("/")
    return tuple(
        (each.option, each.mountpoint.rstrip("/") + paths[each.option])
        for each in layout.hierarchies
        if each.option in paths
    )
