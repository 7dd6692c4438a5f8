"""Cgroups of rootless containers, and ``NoCgroup`` for containers without a cgroup of their own.

Root in a user namespace has the same restrictions as an unprivileged user.  Root of the host
delegates a v2 cgroup to a user by giving them its directory and its ``cgroup.procs`` (cgroups(7),
delegation).  The user can move a process only within a delegated subtree, so the common ancestor of
the old and the new cgroup must be delegated as well.  Without a delegated cgroup, the container
stays in its creator's cgroup; a container with limits is then refused.
"""

from __future__ import annotations

import posix
from collections.abc import Mapping
from typing import Any, Self

from ociruntime.base.errors import ConfigError
from ociruntime.base.files import may_access
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement
from ociruntime.runtime.cgroups.control_files import read
from ociruntime.runtime.cgroups.device_policy import ANY
from ociruntime.runtime.cgroups.hierarchies import CGROUPS_PATH, Hierarchy, Layout
from ociruntime.runtime.spec.config_types import Config

DELEGATE = (
    "delegate a cgroup: with systemd, run the command with `systemd-run --user --scope -p"
    " Delegate=yes`; otherwise let root create a cgroup, chown it with its cgroup.procs,"
    " cgroup.threads and cgroup.subtree_control, and start the command in it"
)
DELEGATE_V1 = (
    "cgroup v1 is not delegated automatically: let root create a cgroup in the v1 hierarchy and"
    f" chown it, then name a child of it in {CGROUPS_PATH}"
)


def keep_within_reach(
    cgroup: Cgroup,
    layout: Layout,
    chosen: bool,
    resources: Mapping[str, Any] | None,
    membership: str = "",
) -> None:
    """Remove from ``cgroup`` the hierarchies in which this user may not create cgroups.

    In those hierarchies the container stays in the caller's cgroup, and its cgroup mount shows the
    caller's cgroup.  ``chosen``: whether config.json sets the cgroup path.  If it does not, and the
    host has only v2, the cgroup becomes a sibling or a child of the caller's cgroup.
    ``membership`` is the text of the caller's /proc/PID/cgroup; if it is "", this process is the
    caller.  Raises ConfigError if ``resources`` need a controller that is not available, or deny
    access to a single device.
    """
    own = dict(visible_directories(layout, membership or control_files.read("/proc/self/cgroup")))
    needed = {each.controller: each.where for each in cgroup.settings(resources)}
    if not control_files.may_set_device_rules():
        _refuse_single_devices((resources or {}).get("devices") or ())
    shown = []
    for each in list(cgroup.placements):
        hierarchy = each.hierarchy
        top = hierarchy.mountpoint.rstrip("/")
        own_directory = own.get(hierarchy.option, top)
        if not control_files.is_directory(own_directory):
            own_directory = top  # the caller's cgroup is outside of this mount
        placement = each
        if layout.mode == "v2" and not chosen:
            placement, cgroup.path = _nearby(each, cgroup.path, own_directory)
            cgroup.placements[0] = placement
        obstacle = _obstacle(placement, own_directory)
        shown.append((hierarchy.option, own_directory if obstacle else placement.directory))
        if obstacle:
            _refuse_limits(hierarchy, needed, obstacle)
            cgroup.placements.remove(placement)
    cgroup.shown = tuple(shown)


def _refuse_limits(hierarchy: Hierarchy, needed: Mapping[str, str], obstacle: str) -> None:
    unified = hierarchy.version == 2
    for controller in (*hierarchy.controllers, *([""] if unified else [])):
        if controller in needed:
            raise ConfigError(
                needed[controller],
                f'the cgroup controller "{controller or "cgroup"}" is not available: {obstacle}',
                DELEGATE if unified else DELEGATE_V1,
            )


def _nearby(placement: Placement, path: str, own_directory: str) -> tuple[Placement, str]:
    """Return (placement, cgroup path) of a usable v2 cgroup next to or below the caller's.

    ``own_directory`` is the caller's cgroup.  Tries a sibling before a child, because the caller's
    cgroup contains processes, and therefore cannot enable controllers for its children.  Returns
    ``placement`` and ``path`` unchanged if the user can use neither.
    """
    top = placement.hierarchy.mountpoint.rstrip("/")
    beside = own_directory.rpartition("/")[0] if own_directory != top else own_directory
    for parent in (beside, own_directory):
        nearby_path = parent[len(top) :] + path
        nearby = Placement(placement.hierarchy, nearby_path)
        if not _obstacle(nearby, own_directory):
            return nearby, nearby_path
    return placement, path


def _obstacle(placement: Placement, own_directory: str) -> str:
    """Return the reason why this user cannot use the cgroup ``placement``; "" if they can.

    ``own_directory`` is the caller's cgroup, from which the processes would be moved.
    """
    directories = [placement.hierarchy.mountpoint.rstrip("/"), *placement.directories]
    deepest = [each for each in directories if control_files.is_directory(each)][-1]
    if deepest == placement.directory:
        target, mode = f"{deepest}/cgroup.procs", posix.W_OK
    else:
        target, mode = deepest, posix.W_OK | posix.X_OK
    if not may_access(target, mode):
        return f'the user has no permission to write to "{target}"'
    if placement.hierarchy.version == 2:
        common = _common(directories, own_directory)
        if not may_access(f"{common}/cgroup.procs", posix.W_OK):
            return (
                f'the user cannot move processes out of "{own_directory}":'
                f' "{common}" is not delegated'
            )
    return ""


def _common(directories: list[str], own_directory: str) -> str:
    """Return the last of ``directories`` that is ``own_directory`` or one of its ancestors."""
    shared = directories[0]
    for each in directories:
        if own_directory == each or own_directory.startswith(each + "/"):
            shared = each
    return shared


def _refuse_single_devices(rules: Any) -> None:  # noqa: ANN401  # as config.json has them
    """Raise ConfigError if a device rule denies a single device.

    Only root of the host can enforce such a rule.  The other device rules can be ignored in the
    container of an unprivileged user: file permissions already restrict it to the devices that the
    user can access.
    """
    for index, rule in enumerate(rules):
        if not rule["allow"] and not _matches_all(rule):
            raise ConfigError(
                f"linux.resources.devices[{index}]",
                "a rootless container cannot deny access to a single device",
                "remove the rule, and the device from mounts and linux.devices",
            )


def _matches_all(rule: Mapping[str, Any]) -> bool:
    """Return whether ``rule``, a device rule of config.json, matches all devices."""
    numbers = (rule.get("major"), rule.get("minor"))
    return rule.get("type") in (None, "a") and all(one in (None, ANY) for one in numbers)


# ``--cgroup-manager disabled``: the container stays in its caller's cgroup.
#
# Meant for a caller whose own cgroup is the container's, such as a systemd service.


class NoCgroup(Cgroup):
    """The Cgroup for ``--cgroup-manager disabled``, which creates nothing and sets no limits."""

    __slots__ = ()

    def __init__(self, visible: tuple[tuple[str, str], ...]) -> None:
        super().__init__("", [])
        self.shown = visible

    @classmethod
    def plan_none(cls, layout: Layout, config: Config) -> Self:
        """Return the NoCgroup of a container; raise ConfigError if its configuration has limits."""
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
        """Do nothing: :meth:`plan_none` has already refused resources that need a cgroup."""

    def apply(self, resources: Mapping[str, Any] | None, where: str = "linux.resources") -> None:
        """Do nothing: :meth:`plan_none` has already refused resources that need a cgroup."""


def _check_devices(rules: list[dict[str, Any]] | None, config: Config) -> None:
    """Raise ConfigError for a device rule that would change what the container can access.

    Engines send device rules for every container.  A container without CAP_MKNOD can open only the
    devices that config.json puts into its /dev, so only a rule that denies one of these would have
    an effect.
    """
    process: Any = config.get("process") or {}
    capabilities = process.get("capabilities") or {}
    makes_devices = any("CAP_MKNOD" in (names or ()) for names in capabilities.values())
    for index, rule in enumerate(rules or ()):
        single = not _matches_all(rule)
        if not rule.get("allow") and (single or makes_devices):
            hint = (
                "" if single else "remove CAP_MKNOD from process.capabilities, or remove the rule"
            )
            raise _refusal(f"linux.resources.devices[{index}]", hint)


def _refusal(where: str, hint: str = "") -> ConfigError:
    return ConfigError(
        where,
        "needs a cgroup, but --cgroup-manager disabled creates none",
        hint or "remove it, or use another --cgroup-manager",
    )


def visible_directories(layout: Layout, membership: str) -> tuple[tuple[str, str], ...]:
    """Return (v1 mount option, the caller's cgroup directory) for each hierarchy.

    ``membership`` is the text of the caller's /proc/PID/cgroup.
    """
    paths = {}
    for line in membership.split("\n"):  # as in hierarchies.parse_existing
        _, _, names_and_path = line.partition(":")
        names, separator, path = names_and_path.partition(":")
        if separator:
            paths[names] = path.rstrip("/")
    return tuple(
        (each.option, each.mountpoint.rstrip("/") + paths[each.option])
        for each in layout.hierarchies
        if each.option in paths
    )
