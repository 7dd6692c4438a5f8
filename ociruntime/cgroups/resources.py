"""linux.resources -> the settings to write on this host, in order.

Pure.  Each controller is looked up on its own: on a hybrid host most of them sit in v1
hierarchies and the rest in the unified one, and each gets the files of its version.
Devices are no setting; they are the business of devices.py.
"""

from __future__ import annotations

from ..errors import ConfigError
from . import settings_v1 as v1
from . import settings_v2 as v2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .setting import Setting

    Section = Callable[[Any, str], list[Setting]]

# (section of the resources, controller in v1, controller in v2, one function for each).
# Memory comes last: once it is tight, no other write may need memory.
_SECTIONS: tuple[tuple[str, str, str, Section, Section], ...] = (
    ("cpu", "cpuset", "cpuset", v1.cpuset, v2.cpuset),
    ("cpu", "cpu", "cpu", v1.cpu, v2.cpu),
    ("blockIO", "blkio", "io", v1.block_io, v2.block_io),
    ("hugepageLimits", "hugetlb", "hugetlb", v1.huge_pages, v2.huge_pages),
    ("network", "net_cls", "", v1.class_id, v2.class_id),
    ("network", "net_prio", "", v1.priorities, v2.priorities),
    ("rdma", "rdma", "rdma", v1.rdma, v2.rdma),
    ("pids", "pids", "pids", v1.pids, v2.pids),
    ("memory", "memory", "memory", v1.memory, v2.memory),
)


def settings(
    resources: Mapping[str, Any], versions: Mapping[str, int], where: str = "linux.resources"
) -> list[Setting]:
    """Everything to write, memory next to last and ``unified`` at the end.

    ``versions`` maps each controller of the host to 1 or 2, and ``""`` to 2 if there is a
    unified hierarchy at all.  Raises ConfigError for a value without equivalent here.
    """
    found: list[Setting] = []
    for section, controller_v1, controller_v2, settings_v1, settings_v2 in _SECTIONS:
        value = resources.get(section)
        if not value:
            continue
        path = f"{where}.{section}"
        if versions.get(controller_v1) == 1:
            found += settings_v1(value, path)
        elif "" in versions and 1 not in versions.values():
            found += _available(settings_v2(value, path), versions)
        elif versions.get(controller_v2) == 2 and controller_v2:
            found += settings_v2(value, path)
        else:
            found += _available(settings_v1(value, path), versions)
    if unified := resources.get("unified"):
        found += _available(v2.unified(unified, f"{where}.unified"), versions)
    return found


def _available(found: list[Setting], versions: Mapping[str, int]) -> list[Setting]:
    """Refuse what no hierarchy of this host can do; "no limit" needs no hierarchy."""
    possible = []
    for setting in found:
        version = versions.get(setting.controller)
        if version == setting.version:
            possible.append(setting)
        elif not setting.optional:
            raise _unavailable(setting, versions)
    return possible


def _unavailable(setting: Setting, versions: Mapping[str, int]) -> ConfigError:
    controller = setting.controller
    if setting.version == 2 and "" not in versions:
        return ConfigError(setting.where, "needs cgroup v2, which this host does not have")
    if controller in versions:
        text = f'needs the controller "{controller}" in cgroup v2; this host has it in v1'
        return ConfigError(setting.where, text)
    here = ", ".join(sorted(name for name in versions if name)) or "none"
    text = f'the host has no cgroup controller "{controller}"'
    return ConfigError(setting.where, text, f"available: {here}")


def cpuset_settings(found: list[Setting]) -> list[Setting]:
    """Those that must be in force before a process can enter a v1 cgroup."""
    return [setting for setting in found if setting.controller == "cpuset"]
