"""Translate linux.resources to settings of this host's cgroup control files.

The functions are pure.  The version of each controller is looked up separately: on a hybrid host,
most controllers are in v1 hierarchies and the others in the unified one.  device_policy.py handles
device rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.shared_settings import Setting

# (section of the resources, controller in v1, in v2, name of the conversion in settings_*).
# Memory comes last: with a tight limit in force, the other writes could fail for lack of memory.
_SECTIONS = (
    ("cpu", "cpuset", "cpuset", "cpuset"),
    ("cpu", "cpu", "cpu", "cpu"),
    ("blockIO", "blkio", "io", "block_io"),
    ("hugepageLimits", "hugetlb", "hugetlb", "huge_pages"),
    ("network", "net_cls", "", "class_id"),
    ("network", "net_prio", "", "priorities"),
    ("rdma", "rdma", "rdma", "rdma"),
    ("pids", "pids", "pids", "pids"),
    ("memory", "memory", "memory", "memory"),
)


def settings(
    resources: Mapping[str, Any], versions: Mapping[str, int], where: str = "linux.resources"
) -> list[Setting]:
    """Return the settings for linux.resources, in the order in which they must be written.

    ``versions`` maps each controller of the host to its cgroup version, 1 or 2, and ``""`` to 2 if
    there is a unified hierarchy.  Raises ConfigError for a value that the host's cgroups cannot
    express.
    """
    result: list[Setting] = []
    has_v1 = 1 in versions.values()
    for section, name_v1, name_v2, conversion in _SECTIONS:
        value = resources.get(section)
        if not value:
            continue
        on_v1 = versions.get(name_v1) == 1
        on_v2 = bool(name_v2) and versions.get(name_v2) == 2
        # A missing controller is reported in terms of the host's main cgroup version.
        version = 1 if on_v1 or (not on_v2 and (has_v1 or "" not in versions)) else 2
        converted = _convert(conversion, value, f"{where}.{section}", version)
        result += _available(converted, versions)
    if unified := resources.get("unified"):
        from ociruntime.runtime.cgroups.settings_v2 import unified as verbatim

        result += _available(verbatim(unified, f"{where}.unified"), versions)
    return result


def _convert(conversion: str, value: Any, where: str, version: int) -> list[Setting]:  # noqa: ANN401
    from ociruntime.runtime.cgroups.shared_settings import SHARED

    if conversion in SHARED:
        return SHARED[conversion](value, where, version)
    if version == 1:
        from ociruntime.runtime.cgroups.settings_v1 import CONVERTERS
    else:
        from ociruntime.runtime.cgroups.settings_v2 import CONVERTERS
    return CONVERTERS[conversion](value, where)


def _available(candidates: list[Setting], versions: Mapping[str, int]) -> list[Setting]:
    """Return the settings in ``candidates`` whose controllers the host has.

    Raises ConfigError if the controller of a setting is missing, unless the setting is optional.
    """
    available = []
    for setting in candidates:
        version = versions.get(setting.controller)
        if version == setting.version:
            available.append(setting)
        elif not setting.optional:
            raise _unavailable(setting, versions)
    return available


def _unavailable(setting: Setting, versions: Mapping[str, int]) -> ConfigError:
    controller = setting.controller
    if setting.version == 2 and "" not in versions:
        return ConfigError(setting.where, "needs cgroup v2, but this host has only cgroup v1")
    if controller in versions:
        text = f'needs the controller "{controller}" in cgroup v2; this host has it in v1'
        return ConfigError(setting.where, text)
    here = ", ".join(sorted(name for name in versions if name)) or "none"
    text = f'the host has no cgroup controller "{controller}"'
    return ConfigError(setting.where, text, f"available controllers: {here}")
