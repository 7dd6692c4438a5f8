"""Combine an update with a container's present limits; pure.

The present limits are those of the configuration and of all updates since.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Resources = dict[str, Any]

# Engines, written in Go, send all members; these are their way to ask for nothing.
_NOTHING: dict[str, dict[str, tuple[object, ...]]] = {
    "blockIO": dict.fromkeys(("weight", "leafWeight"), (0,)),
    "cpu": {
        **dict.fromkeys(("shares", "quota", "period", "realtimePeriod"), (0,)),
        **dict.fromkeys(("cpus", "mems"), ("",)),
    },
    "memory": {
        **dict.fromkeys(("limit", "reservation", "swap", "kernel", "kernelTCP"), (0,)),
        "swappiness": (0xFFFFFFFFFFFFFFFF,),
    },
}


def asked(document: Resources) -> Resources:
    """``document`` without device rules, which an update never touches, and without what asks
    for nothing.
    """
    found: Resources = {}
    for section, value in document.items():
        if section == "devices":
            continue
        if not isinstance(value, dict):
            found[section] = value
            continue
        nothing = _NOTHING.get(section, {})
        wanted = {name: each for name, each in value.items() if each not in nothing.get(name, ())}
        if wanted:
            found[section] = wanted
    return found


def merged(present: Resources, change: Resources) -> Resources:
    """The container's resources after the change: each member that it names is replaced."""
    after = dict(present)
    for section, value in change.items():
        if isinstance(value, dict):
            after[section] = {**(present.get(section) or {}), **value}
            if section == "memory" and value.get("limit") == -1 and "swap" not in value:
                # Without a memory limit, the limit of memory+swap would have no effect either.
                after[section].pop("swap", None)
        else:
            after[section] = value
    return after


def to_write(change: Resources, after: Resources) -> Resources:
    """Return the change, with the members that others depend on.

    The swap limit includes memory, so neither limit works without the other; and the usage must be
    checked if the configuration requires that (LNX-MEM-06).
    """
    memory = change.get("memory") or {}
    if not ("limit" in memory or "swap" in memory):
        return change
    names = ("limit", "swap", "checkBeforeUpdate")
    needed = {name: after["memory"][name] for name in names if name in after["memory"]}
    return {**change, "memory": {**memory, **needed}}
