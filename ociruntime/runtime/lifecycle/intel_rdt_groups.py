"""``linux.intelRdt``: create groups, and record them for removal."""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.base.files import exists, read_file, write_new
from ociruntime.base.json_text import dump, parse
from ociruntime.runtime.host import resctrl
from ociruntime.runtime.plan.intel_rdt import Group, Placement, group_path, lines, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.runtime.lifecycle.rollback import Rollback
    from ociruntime.runtime.spec.config_types import Config, IntelRdt

NAME = "rdt.json"


def prepare_rdt(rdt: IntelRdt, container_id: str) -> Placement:
    """Return the steps to take; change nothing.  Raises ConfigError, HostError."""
    mount = resctrl.mountpoint()
    path = group_path(rdt, container_id, mount)
    there, schemata, monitoring = resctrl.look(mount, path)
    group = Group(path, exists=there, schemata=schemata, monitoring=monitoring)
    return place(rdt, container_id, group)


def enter(placement: Placement, pid: int, directory: str, rollback: Rollback) -> None:
    """Create the groups, recording them first, and move the process into them.

    Raises HostError, RuntimeFailure.
    """
    record = {"made": placement.made, "own": placement.own, "tasks": placement.tasks}
    try:
        write_new(f"{directory}/{NAME}", dump(record).encode())
    except OSError as error:
        raise HostError(f"write {directory}/{NAME}", error) from None
    mount = resctrl.mountpoint()
    for made in placement.made:
        resctrl.make(made)
        rollback.push(lambda made=made: resctrl.remove([made]))  # type: ignore[misc]
    for where, file, line in placement.lines:
        resctrl.write(where, file, line, mount)
    for file in placement.tasks:
        resctrl.write("linux.intelRdt", file, str(pid), mount)


def follow(directory: str, pid: int) -> None:
    """Move a further process into the groups of a container.  Raises RuntimeFailure."""
    mount = resctrl.mountpoint()
    for file in _record(directory)["tasks"]:
        resctrl.write("linux.intelRdt", file, str(pid), mount)


def change(config: Config, container_id: str, l3_cache: str, bandwidth: str) -> None:
    """Change the lines of the container's group; if one is refused, restore the old ones.

    Raises UsageError, ConfigError, HostError, RuntimeFailure.
    """
    rdt = (config.get("linux") or {}).get("intelRdt")
    if not rdt:
        flag = "--l3-cache-schema" if l3_cache else "--mem-bw-schema"
        raise UsageError(f"{flag}: the container has no resctrl group", "see linux.intelRdt")
    mount = resctrl.mountpoint()
    path = group_path(rdt, container_id, mount)
    _, before, _ = resctrl.look(mount, path)
    found = lines({"l3CacheSchema": l3_cache, "memBwSchema": bandwidth})
    try:
        for where, line in found:
            resctrl.write(where, f"{path}/schemata", line, mount)
    except RuntimeFailure:
        for line in before.splitlines():
            resctrl.write("linux.intelRdt", f"{path}/schemata", line, mount)
        raise


def leave(directory: str) -> None:
    """Remove the groups of the container with that state directory. Raises HostError."""
    resctrl.remove(_record(directory)["own"])


def clear(directory: str) -> None:
    """Remove the groups that a killed ``create`` has made.  Raises HostError.

    A group named by closID may belong to another container by now.
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
        raise HostError(f"read {file}", error) from None
