"""The record of mounts that `mounts add` has made, by which they are recognised again.

A process inside can exchange the directories above a mount point, so a destination alone does not
identify a mount: resolved again, it may lead to the read-only bind on /proc/sys.

``mounts.json`` in the state directory holds destination and mount id of each added mount. It is
written before the mount is attached, so a killed `mounts add` leaves at most a stale entry, which
is dropped when mountinfo does not show the mount.
"""

from __future__ import annotations

from ociruntime.base.errors import HostError, StepError
from ociruntime.base.files import read_file, replace_file
from ociruntime.base.json_text import dump
from ociruntime.runtime.host.mount_namespaces import MountId
from ociruntime.runtime.spec.load import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ociruntime.base.mountinfo import Mount

FILE = "mounts.json"


class AddedMount:
    """One line of the record; ``destination`` as in the caller's file, but clean."""

    __slots__ = ("destination", "id")

    def __init__(self, destination: str, mount_id: MountId) -> None:
        self.destination = destination
        self.id = mount_id


def read_added(directory: str) -> list[AddedMount]:
    """The record in a state directory, the oldest first; empty without one.  Raises HostError."""
    path = f"{directory}/{FILE}"
    try:
        document: Any = parse(read_file(path), path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HostError(f"read {path}", error) from None
    return [AddedMount(where, MountId(number, unique)) for where, number, unique in document]


def write_added(directory: str, added: Iterable[AddedMount]) -> None:
    """Replace the record.  Raises HostError."""
    path = f"{directory}/{FILE}"
    lines = [[each.destination, each.id.number, each.id.unique] for each in added]
    try:
        replace_file(path, dump(lines).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f"write {path}", error) from None


def still_mounted(added: Iterable[AddedMount], mounts: Iterable[Mount]) -> list[AddedMount]:
    """The part of the record that a mountinfo shows."""
    numbers = {mount.id for mount in mounts}
    return [each for each in added if each.id.number in numbers]


def check_removal(
    target: str,
    where: str,
    found: MountId,
    added: Iterable[AddedMount],
    mounts: Mapping[int, Mount],
) -> None:
    """Raise StepError unless the mount that ``target`` has led to is the one that is meant.

    ``mounts`` is the namespace's mountinfo by id.  If `mounts add` has mounted something at
    ``target``, it has to be that; otherwise ``target`` has to be the mount point itself.
    """
    what = f'{where}: unmount "{target}"'
    shown = mounts.get(found.number)
    if shown is None:
        raise StepError(f"{what}: nothing is mounted there")
    ours = [each for each in added if each.destination == target]
    if not ours:
        if shown.target != target:
            raise StepError(f"{what}: nothing is mounted there")
        return
    if any(each.id.is_same(found) for each in ours):
        return
    places = [mounts[each.id.number].target for each in ours if each.id.number in mounts]
    raise StepError(
        f'{what}: the mount there is not the one that was added, but the one at "{shown.target}"',
        "a process in the container has moved the added mount; it is at "
        + " and ".join(f'"{place}"' for place in places),
    )
