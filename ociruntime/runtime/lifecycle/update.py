"""`update`: change the limits of a created, running or paused container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ociruntime.base.errors import HostError, NotRunning
from ociruntime.base.files import exists, read_file, replace_file
from ociruntime.base.json_text import dump, parse
from ociruntime.base.process import HeldSignals
from ociruntime.runtime.cgroups.update_limits import Update
from ociruntime.runtime.lifecycle.container import Container, lock
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.spec import schema
from ociruntime.runtime.spec.check_schema import check
from ociruntime.runtime.spec.validate_linux import validate_resources

Resources: TypeAlias = dict[str, Any]

WHERE = "resources"
RESOURCES = "resources.json"  # in the state directory: the limits since the last update


def update(
    context: Context, container_id: str, document: object, l3_cache: str = "", bandwidth: str = ""
) -> None:
    """Change a container's limits to those in ``document``, and the schemata of its resctrl group.

    ``document`` is a LinuxResources object; device rules in it are ignored.  ``l3_cache`` and
    ``bandwidth`` are lines of schemata for Intel RDT, "" to leave them unchanged.  After an error,
    all limits are as they were.

    Raises UsageError for an invalid id, or for schemata if the container has no resctrl group.
    Raises ConfigError with a JSON path below ``resources``, NoSuchContainer, NotRunning,
    ContainerError and HostError.
    """
    check_id(container_id)
    change = _checked(document)
    container, held = lock(context.root, container_id)
    try:
        if not container.alive():
            raise NotRunning(container_id)
        after = merged(resources_of(container), change)
        validate_resources(after, WHERE)  # type: ignore[arg-type]  # a document of that shape
        limits = Update(container.cgroup(), to_write(change, after), WHERE)
        with HeldSignals():  # a signal would leave some limits changed, or all of them unrecorded
            limits.write()
            restore_schemata: Callable[[], list[str]] = list
            try:
                if l3_cache or bandwidth:
                    restore_schemata = _write_schemata(container, l3_cache, bandwidth)
                _store(container, after)
            except BaseException:
                for failure in limits.undo() + restore_schemata():
                    context.log.warning(
                        f'roll back the update of container "{container_id}": '
                        f"a limit remains changed: {failure}"
                    )
                raise
    finally:
        held.release()


def resources_of(container: Container) -> dict[str, Any]:
    """Return a container's current ``linux.resources``, including all updates.

    Raises HostError.
    """
    path = f"{container.directory}/{RESOURCES}"
    if not exists(path):
        linux: dict[str, Any] = dict(container.config().get("linux") or {})
        return linux.get("resources") or {}
    try:
        current: Any = parse(read_file(path), path)
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    return current  # type: ignore[no-any-return]


def _checked(document: object) -> dict[str, Any]:
    """Check ``document`` and return the limits that it changes.

    Raises ConfigError if it is not a valid LinuxResources object.
    """
    check(document, "object", schema.RESOURCES, WHERE)
    resources: Any = document
    change = requested_changes(resources)
    validate_resources(change, WHERE)  # type: ignore[arg-type]  # a document of that shape
    return change


def _write_schemata(container: Container, l3_cache: str, bandwidth: str) -> Callable[[], list[str]]:
    from ociruntime.runtime.lifecycle.intel_rdt_groups import change

    return change(container.config(), container.id, l3_cache, bandwidth)


def _store(container: Container, resources: dict[str, Any]) -> None:
    path = f"{container.directory}/{RESOURCES}"
    try:
        replace_file(path, dump(resources).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f'write "{path}"', error) from None


# Pure functions that combine an update with a container's current limits (config.json and all
# earlier updates).

# Engines written in Go send all members; these values mean "not set".
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


def requested_changes(document: Resources) -> Resources:
    """Return ``document`` without device rules, and without members that change nothing.

    Engines written in Go send every member.  A value such as 0 then means "no change".
    """
    effective: Resources = {}
    for section, value in document.items():
        if section == "devices":
            continue
        if not isinstance(value, dict):
            effective[section] = value
            continue
        nothing = _NOTHING.get(section, {})
        members = {name: each for name, each in value.items() if each not in nothing.get(name, ())}
        if members:
            effective[section] = members
    return effective


def merged(present: Resources, change: Resources) -> Resources:
    """Return the limits ``present``, overridden by the limits in ``change``.

    A memory limit of -1 also removes the swap limit, unless ``change`` sets a swap limit.
    """
    after = dict(present)
    for section, value in change.items():
        if isinstance(value, dict):
            after[section] = {**(present.get(section) or {}), **value}
            if section == "memory" and value.get("limit") == -1 and "swap" not in value:
                # Without a memory limit, a limit of memory+swap would have no effect.
                after[section].pop("swap", None)
        else:
            after[section] = value
    return after


def to_write(change: Resources, after: Resources) -> Resources:
    """Return the limits to write: ``change``, with the limits in ``after`` that depend on it.

    ``swap`` limits memory and swap together.  Therefore, if ``limit`` or ``swap`` changes, both are
    written, and also checkBeforeUpdate if it is set.
    """
    memory = change.get("memory") or {}
    if not ("limit" in memory or "swap" in memory):
        return change
    names = ("limit", "swap", "checkBeforeUpdate")
    needed = {name: after["memory"][name] for name in names if name in after["memory"]}
    return {**change, "memory": {**memory, **needed}}
