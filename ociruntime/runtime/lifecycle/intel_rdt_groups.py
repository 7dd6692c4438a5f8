"""``linux.intelRdt``: create a container's resctrl groups, and record them for removal."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.base.files import exists, read_file, write_new
from ociruntime.base.json_text import dump, parse
from ociruntime.runtime.host import resctrl
from ociruntime.runtime.lifecycle.rollback import Rollback
from ociruntime.runtime.plan.intel_rdt import Group, Placement, group_path, lines, place
from ociruntime.runtime.spec.config_types import Config, IntelRdt

NAME = "rdt.json"


def prepare_rdt(rdt: IntelRdt, container_id: str) -> Placement:
    """Return which resctrl groups to create and what to write to them; change nothing.

    Raises ConfigError, HostError.
    """
    mount = resctrl.mountpoint()
    path = group_path(rdt, container_id, mount)
    there, schemata, monitoring = resctrl.inspect(mount, path)
    group = Group(path, exists=there, schemata=schemata, monitoring=monitoring)
    return place(rdt, container_id, group)


def enter(placement: Placement, pid: int, directory: str, rollback: Rollback) -> None:
    """Record and create the resctrl groups of ``placement``, and move process ``pid`` into them.

    ``directory`` is the state directory; ``rollback`` removes the groups.

    Raises HostError, RuntimeFailure.
    """
    record = {"made": placement.made, "own": placement.own, "tasks": placement.tasks}
    try:
        write_new(f"{directory}/{NAME}", dump(record).encode())
    except OSError as error:
        raise HostError(f'write "{directory}/{NAME}"', error) from None
    mount = resctrl.mountpoint()
    for made in placement.made:
        resctrl.make(made)
        rollback.push(lambda made=made: resctrl.remove([made]))  # type: ignore[misc]
    for where, file, line in placement.lines:
        resctrl.write(where, file, line, mount)
    for file in placement.tasks:
        resctrl.write("linux.intelRdt", file, str(pid), mount)


def follow(directory: str, pid: int) -> None:
    """Move a process of `exec` into the container's resctrl groups.

    ``directory`` is the container's state directory.  Raises HostError, RuntimeFailure.
    """
    mount = resctrl.mountpoint()
    for file in _record(directory)["tasks"]:
        resctrl.write("linux.intelRdt", file, str(pid), mount)


def change(config: Config, container_id: str, l3_cache: str, bandwidth: str) -> None:
    """Change the schemata of a container's resctrl group; after an error, restore the old ones.

    ``l3_cache`` and ``bandwidth`` are schemata lines, "" to leave them unchanged.

    Raises UsageError, ConfigError, HostError, RuntimeFailure.
    """
    rdt = (config.get("linux") or {}).get("intelRdt")
    if not rdt:
        flag = "--l3-cache-schema" if l3_cache else "--mem-bw-schema"
        raise UsageError(
            f'{flag}: container "{container_id}" has no resctrl group',
            "create it with linux.intelRdt in config.json",
        )
    mount = resctrl.mountpoint()
    path = group_path(rdt, container_id, mount)
    _, before, _ = resctrl.inspect(mount, path)
    schemata = lines({"l3CacheSchema": l3_cache, "memBwSchema": bandwidth})
    try:
        for where, line in schemata:
            resctrl.write(where, f"{path}/schemata", line, mount)
    except RuntimeFailure:
        for line in before.splitlines():
            resctrl.write("linux.intelRdt", f"{path}/schemata", line, mount)
        raise


def leave(directory: str) -> None:
    """Remove a container's resctrl groups, except those that other containers may share.

    ``directory`` is its state directory.  Raises HostError.
    """
    resctrl.remove(_record(directory)["own"])


def clear(directory: str) -> None:
    """Remove the resctrl groups that a killed ``create`` recorded in its state directory.

    A group named by closID is removed only if it is empty: another container may be using it.
    Raises HostError.
    """
    record = _record(directory)
    resctrl.remove(record["own"])
    resctrl.remove(record["made"], only_empty=True)


def _record(directory: str) -> Any:  # noqa: ANN401 - what enter() has written
    file = f"{directory}/{NAME}"
    if not exists(file):
        return {"made": [], "own": [], "tasks": []}
    try:
        return parse(read_file(file), file)
    except OSError as error:
        raise HostError(f'read "{file}"', error) from None
