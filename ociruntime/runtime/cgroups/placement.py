"""A container's cgroup directory in one hierarchy: create it, record it, remove it."""

from __future__ import annotations

import errno
import posix
import time

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import layout
from ociruntime.runtime.cgroups.control_files import GONE, failure, is_directory, read, write
from ociruntime.runtime.cgroups.layout import Hierarchy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

_REMOVAL_DEADLINE = 10.0  # seconds
_UNKNOWN = -1
_CREATION_ATTEMPTS = 20
_SHOWN_PIDS = 10


class Placement:
    """The container's directory in one hierarchy.

    ``directories`` are all directories from the first component to the container's own.
    ``existing`` is how many of them existed before; only the others are ever removed.  ``adopted``
    means that the container's own existed, too, and was unused.
    """

    __slots__ = ("adopted", "directories", "existing", "hierarchy")

    def __init__(
        self, hierarchy: Hierarchy, path: str, existing: int = _UNKNOWN, adopted: bool = False
    ) -> None:
        self.hierarchy = hierarchy
        top = hierarchy.mountpoint.rstrip("/")
        self.directories = [top + part for part in layout.components(path)]
        self.existing = existing
        self.adopted = adopted

    @property
    def directory(self) -> str:
        """The container's own directory."""
        return self.directories[-1]

    def record(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        existing = self.survey()
        return {**self.hierarchy.record(), "existing": existing, "adopted": self.adopted}

    @classmethod
    def from_record(cls, record: dict[str, Any], path: str) -> Self:
        """Return the placement of a record."""
        hierarchy = Hierarchy.from_record(record)
        return cls(hierarchy, path, record["existing"], record["adopted"])

    def is_ours(self) -> bool:
        """Return False while the directory may be another container's: leave its members alone."""
        return self.adopted or self.survey() < len(self.directories)

    def survey(self) -> int:
        """Count, once, the directories that exist already."""
        if self.existing == _UNKNOWN:
            self.existing = self._count()
        return self.existing

    def _count(self) -> int:
        for depth, directory in enumerate(self.directories):
            if not posix.access(directory, posix.F_OK):
                return depth
        return len(self.directories)

    def make(self, where: str) -> None:
        """Create what is missing.

        A directory that appears meanwhile belongs to another process and is not counted as
        made here; one that vanishes (another container's `delete` removes the common parent) is
        made again.  Raises ConfigError if the container's own is in use, HostError.
        """
        self.survey()
        for _ in range(_CREATION_ATTEMPTS):
            try:
                self._make_missing(where)
            except FileNotFoundError:
                self.existing = self._count()
                continue
            break
        else:
            error = OSError(errno.ENOENT, posix.strerror(errno.ENOENT))
            raise failure(f"create cgroup {self.directory}", error)
        if self.existing == len(self.directories):
            self._check_fit(where)
            self.adopted = True

    def _make_missing(self, where: str) -> None:
        for depth in range(self.existing, len(self.directories)):
            directory = self.directories[depth]
            try:
                posix.mkdir(directory, 0o755)
            except FileExistsError:
                self.existing = depth + 1
            except FileNotFoundError:
                raise
            except OSError as error:
                raise _creation_failure(directory, error, where) from None

    def _check_fit(self, where: str) -> None:
        """Refuse a cgroup that is in use or frozen (LNX-CG-01)."""
        from ociruntime.runtime.cgroups.cgroup_processes import processes
        from ociruntime.runtime.cgroups.freezer import event, frozen

        directory = self.directory
        try:
            if not is_directory(directory):
                raise ConfigError(where, f"{directory} is a control file")
            if self.hierarchy.version == 2 and not event(directory, "populated"):
                members = []
            else:
                members = processes([directory])
                if not members and self.hierarchy.version == 2:
                    raise ConfigError(where, f"cgroup {directory} is not empty")
            if members:
                raise ConfigError(
                    where,
                    f"cgroup {directory} is not empty: {len(members)} process(es) found: "
                    + listed(members),
                    "two containers cannot share a cgroup",
                )
            freezable = self.hierarchy.version == 2 or "freezer" in self.hierarchy.controllers
            if freezable and frozen(directory, self.hierarchy.version):
                raise ConfigError(where, f"cgroup {directory} is frozen")
        except OSError as error:
            raise failure(f"inspect cgroup {directory}", error) from None

    def inherit_cpuset(self) -> None:
        """Copy cpus and mems from the parent: a new v1 cpuset is empty and takes no process.

        In directories that we did not make, only empty files are filled.  Raises HostError.
        """
        self.survey()
        top = self.hierarchy.mountpoint
        try:
            for file in ("cpuset.cpus", "cpuset.mems"):
                value = read(f"{top}/{file}").strip()
                for depth, directory in enumerate(self.directories):
                    path = f"{directory}/{file}"
                    if depth < self.existing and (present := read(path).strip()):
                        value = present
                    else:
                        write(path, value)
        except OSError as error:
            raise failure(f"copy the parent's cpuset to {self.directory}", error) from None

    def enable_controllers(self) -> dict[str, HostError]:
        """Enable all controllers of a v2 hierarchy from the top down to the container.

        Returns the controllers that could not be enabled, with the reason; the caller decides
        which of them matter.
        """
        refused: dict[str, HostError] = {}
        for directory in [self.hierarchy.mountpoint, *self.directories[:-1]]:
            path = f"{directory}/cgroup.subtree_control"
            try:
                present = read(path).split()
            except OSError as error:
                raise failure(f"read {path}", error) from None
            missing = [
                name
                for name in self.hierarchy.controllers
                if name not in present and name not in refused
            ]
            if not missing or (refusal := _enable(path, missing)) is None:
                continue
            if refusal.errno in (errno.EBUSY, errno.EOPNOTSUPP):
                # Retrying each controller alone could enable some, but make the cgroup threaded.
                reason = failure(f"write to {path}", refusal, _enabling_hint(refusal))
                refused.update(dict.fromkeys(missing, reason))
                break
            for name in missing:
                if (refusal := _enable(path, [name])) is not None:
                    refused[name] = failure(
                        f'write "+{name}" to {path}', refusal, _enabling_hint(refusal)
                    )
        return refused

    def is_invalid(self) -> bool:
        """Return whether a v2 cgroup cannot take processes, since an ancestor is threaded."""
        try:
            return read(f"{self.directory}/cgroup.type").strip() == "domain invalid"
        except OSError:
            return False

    def made(self) -> list[str]:
        """Return the directories made by us, parents first."""
        return self.directories[self.survey() :]


def _enable(path: str, controllers: Sequence[str]) -> OSError | None:
    try:
        write(path, " ".join("+" + name for name in controllers))
    except OSError as error:
        return error
    return None


def _enabling_hint(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return (
            "a cgroup with processes of its own cannot pass controllers on (no internal "
            "processes): move them into a child first"
        )
    if error.errno == errno.ENOENT:
        return "the controller is not delegated to this cgroup"
    if error.errno == errno.EOPNOTSUPP:
        return "the cgroup is threaded, and the controller is not"
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            "the controller is not delegated to this user: in systemd, Delegate=cpu cpuset io"
            " memory pids of user@.service (systemctl edit user@.service) does so from the next"
            " login on"
        )
    return ""


def _creation_failure(directory: str, error: OSError, where: str) -> HostError:
    hint = ""
    if error.errno == errno.EAGAIN:
        hint = "cgroup.max.descendants or cgroup.max.depth of a parent is reached"
    elif error.errno == errno.ENOSPC:
        hint = "the kernel cannot create more cgroups in this hierarchy"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "--rootless=true continues without cgroups that cannot be created"
    prefix = f"{where}: " if where else ""
    return failure(f"{prefix}create cgroup {directory}", error, hint)


def remove_all(placements: Sequence[Placement], evict: Callable[[], None] | None = None) -> None:
    """Remove, in every hierarchy, the directories made for the container, and all below its own.

    A dead process leaves its cgroup a moment after its parent has reaped it, so EBUSY is retried
    for up to 10 s; then HostError names the processes left.  ``evict`` is called once if the first
    attempt fails.  A parent that other containers use meanwhile is kept.
    """
    left = [placement.directory for placement in placements if placement.made()]
    left = [directory for directory in left if not _remove_own(directory)]
    if left and evict is not None:
        evict()
    deadline = time.monotonic() + _REMOVAL_DEADLINE
    pause = 0.0001
    while left := [directory for directory in left if not _remove_own(directory)]:
        if time.monotonic() >= deadline:
            raise _still_there(left)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    for placement in placements:
        for directory in reversed(placement.made()[:-1]):
            try:
                posix.rmdir(directory)
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOTEMPTY, *GONE):
                    raise failure(f"remove cgroup {directory}", error) from None
                break


def _still_there(left: Sequence[str]) -> HostError:
    from ociruntime.runtime.cgroups.cgroup_processes import processes

    members = processes(left)
    hint = f"processes left: {listed(members)}" if members else "no process is visible in it"
    error = OSError(errno.EBUSY, posix.strerror(errno.EBUSY))
    return HostError(f"remove cgroup {', '.join(left)}", error, hint)


def _remove_own(directory: str) -> bool:
    """Remove the directory and those below it; return whether it is gone."""
    try:
        posix.rmdir(directory)
    except OSError as error:
        if error.errno in GONE:
            return True
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise failure(f"remove cgroup {directory}", error) from None
    else:
        return True
    from ociruntime.runtime.cgroups.cgroup_processes import tree

    for below in tree(directory):
        try:
            posix.rmdir(below)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY, *GONE):
                raise failure(f"remove cgroup {below}", error) from None
    return not posix.access(directory, posix.F_OK)


def listed(numbers: Sequence[int]) -> str:
    """Format numbers as ``1, 2, 3``, truncated if there are many."""
    text = ", ".join(str(number) for number in numbers[:_SHOWN_PIDS])
    return text + (" ..." if len(numbers) > _SHOWN_PIDS else "")
