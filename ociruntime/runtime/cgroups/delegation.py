"""The cgroups that an unprivileged user may use, because they are delegated to the user.

The same applies to root in a user namespace.  A v2 cgroup is delegated by changing the owner of
its directory and of its ``cgroup.procs`` (cgroups(7), delegation).  A process can be moved only
within a delegated subtree, so the common ancestor must be delegated, too.  Where nothing is
delegated, the container stays in its creator's cgroup, unless it has limits.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.control_files import read
from ociruntime.runtime.cgroups.group import Cgroup
from ociruntime.runtime.cgroups.layout import CGROUPS_PATH
from ociruntime.runtime.cgroups.placement import Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from ociruntime.runtime.cgroups.layout import Hierarchy, Layout
    from ociruntime.runtime.spec.config_types import Config

DELEGATE = (
    "delegate a cgroup: with systemd, run the command by `systemd-run --user --scope -p"
    " Delegate=yes`; otherwise let root create a cgroup, chown it with its cgroup.procs,"
    " cgroup.threads and cgroup.subtree_control, and start the command in it"
)
DELEGATE_V1 = (
    "cgroup v1 is not delegated automatically: let root create a cgroup in the hierarchy and chown"
    f" it, and name a child of it in {CGROUPS_PATH}"
)


def keep_within_reach(
    cgroup: Cgroup,
    layout: Layout,
    chosen: bool,
    resources: Mapping[str, Any] | None,
    membership: str = "",
) -> None:
    """Leave the hierarchies that this user cannot use out of ``cgroup``.

    In those, the container stays in the caller's own cgroup and sees that.  ``chosen``: the
    configuration names the path; otherwise, on v2, the container is placed next to the caller or
    below it.  ``membership`` is the caller's /proc/PID/cgroup.  Raises ConfigError if ``resources``
    need a controller that is not available.
    """
    own = dict(visible_directories(layout, membership or control_files.read("/proc/self/cgroup")))
    needed = {each.controller: each.where for each in cgroup.settings(resources)}
    if not control_files.may_set_device_rules():
        _refuse_single_devices((resources or {}).get("devices") or ())
    shown = []
    for each in list(cgroup.placements):
        hierarchy = each.hierarchy
        top = hierarchy.mountpoint.rstrip("/")
        mine = own.get(hierarchy.option, top)
        if not control_files.is_directory(mine):
            mine = top  # the caller's cgroup is outside of this mount
        placement = each
        if layout.mode == "v2" and not chosen:
            placement, cgroup.path = _nearby(each, cgroup.path, mine)
            cgroup.placements[0] = placement
        why = _obstacle(placement, mine)
        shown.append((hierarchy.option, mine if why else placement.directory))
        if why:
            _refuse_limits(hierarchy, needed, why)
            cgroup.placements.remove(placement)
    cgroup.shown = tuple(shown)


def _refuse_limits(hierarchy: Hierarchy, needed: Mapping[str, str], why: str) -> None:
    unified = hierarchy.version == 2
    for controller in (*hierarchy.controllers, *([""] if unified else [])):
        if controller in needed:
            raise ConfigError(
                needed[controller],
                f'the cgroup controller "{controller or "cgroup"}" cannot be used: {why}',
                DELEGATE if unified else DELEGATE_V1,
            )


def _nearby(placement: Placement, path: str, mine: str) -> tuple[Placement, str]:
    """Return a placement next to the caller's cgroup, which has processes and so cannot delegate
    controllers; if that is not possible, below it.
    """
    top = placement.hierarchy.mountpoint.rstrip("/")
    beside = mine.rpartition("/")[0] if mine != top else mine
    for parent in (beside, mine):
        there = parent[len(top) :] + path
        nearby = Placement(placement.hierarchy, there)
        if not _obstacle(nearby, mine):
            return nearby, there
    return placement, path


def _obstacle(placement: Placement, mine: str) -> str:
    """Return why the container cannot be placed there; "" if it can."""
    directories = [placement.hierarchy.mountpoint.rstrip("/"), *placement.directories]
    deepest = [each for each in directories if control_files.is_directory(each)][-1]
    if deepest == placement.directory:
        wanted, mode = f"{deepest}/cgroup.procs", posix.W_OK
    else:
        wanted, mode = deepest, posix.W_OK | posix.X_OK
    if not posix.access(wanted, mode, effective_ids=True):
        return f"this user may not write to {wanted}"
    if placement.hierarchy.version == 2:
        common = _common(directories, mine)
        if not posix.access(f"{common}/cgroup.procs", posix.W_OK, effective_ids=True):
            return f"this user may not move processes out of {mine}: {common} is not delegated"
    return ""


def _common(directories: list[str], mine: str) -> str:
    """Return the deepest of ``directories`` that is an ancestor of ``mine``, or ``mine`` itself."""
    shared = directories[0]
    for each in directories:
        if mine == each or mine.startswith(each + "/"):
            shared = each
    return shared


def _refuse_single_devices(rules: Any) -> None:  # noqa: ANN401  # as config.json has them
    """Device rules take the host's root.  Without them nothing can be made or opened beyond what
    the user may open already; but a device he may open is not taken away by them either.
    """
    for index, rule in enumerate(rules):
        everything = rule.get("type") in (None, "a") and not (
            rule.get("major") is not None or rule.get("minor") is not None
        )
        if not rule["allow"] and not everything:
            raise ConfigError(
                f"linux.resources.devices[{index}]",
                "only the host's root can deny a single device",
                "leave the rule out, and the device out of mounts and linux.devices",
            )


# ``--cgroup-manager disabled``: the container stays in its caller's cgroup.
#
# It serves callers that are in the right cgroup already, such as that of a service.


class NoCgroup(Cgroup):
    """A null object: it creates, limits and removes nothing; its record has no placements."""

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
