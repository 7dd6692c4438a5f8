"""``--cgroup-manager disabled``: the container stays in its caller's cgroup.

It serves callers that are in the right cgroup already, such as that of a service.
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
    """A null object: it makes, limits and removes nothing; its record has no placements."""

    __slots__ = ()

    def __init__(self, visible: tuple[tuple[str, str], ...]) -> None:
        super().__init__("", [])
        self.shown = visible

    @classmethod
    def plan_none(cls, layout: Layout, config: Config) -> Self:
        """Return the null cgroup.  Raises ConfigError if the config has limits."""
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
        """Do nothing: :meth:`plan_none` has checked the resources."""

    def apply(self, resources: Mapping[str, Any] | None, where: str = "linux.resources") -> None:
        """Do nothing: :meth:`plan_none` has checked the resources."""


def _check_devices(rules: list[dict[str, Any]] | None, config: Config) -> None:
    """Refuse device rules that would have an effect.

    Engines always send device rules.  They do not matter to a container without CAP_MKNOD: its /dev
    has only what the config put there.  Only a rule that denies a single device would matter.
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
    """Return the caller's directories; ``membership`` is its /proc/PID/cgroup.  Pure."""
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
