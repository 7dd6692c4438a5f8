"""A container's cgroup directory in one hierarchy: create, record and remove it."""

from __future__ import annotations

import errno
import posix
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import hierarchies
from ociruntime.runtime.cgroups.control_files import GONE, failure, is_directory, read, write
from ociruntime.runtime.cgroups.hierarchies import Hierarchy

_REMOVAL_DEADLINE = 10.0  # seconds
_UNKNOWN = -1
_CREATION_ATTEMPTS = 20
_SHOWN_PIDS = 10


class Placement:
    """The container's cgroup directory in one hierarchy.

    ``directories`` are the paths of the cgroup's ancestors and of the cgroup itself, top first.
    The first ``existing`` of them are older than the container, and are never removed.
    ``adopted``: the container's own directory is older as well, but was unused.
    """

    __slots__ = ("adopted", "directories", "existing", "hierarchy")

    def __init__(
        self, hierarchy: Hierarchy, path: str, existing: int = _UNKNOWN, adopted: bool = False
    ) -> None:
        self.hierarchy = hierarchy
        top = hierarchy.mountpoint.rstrip("/")
        self.directories = [top + part for part in hierarchies.components(path)]
        self.existing = existing
        self.adopted = adopted

    @property
    def directory(self) -> str:
        """The absolute path of the container's own cgroup directory."""
        return self.directories[-1]

    def record(self) -> dict[str, Any]:
        """Return the placement as a JSON object, for :meth:`from_record`."""
        existing = self.survey()
        return {**self.hierarchy.record(), "existing": existing, "adopted": self.adopted}

    @classmethod
    def from_record(cls, record: dict[str, Any], path: str) -> Self:
        """Recreate the placement from the JSON object that :meth:`record` has returned.

        ``path`` is the cgroup's path in the hierarchy.
        """
        hierarchy = Hierarchy.from_record(record)
        return cls(hierarchy, path, record["existing"], record["adopted"])

    def is_ours(self) -> bool:
        """Return whether all processes in the cgroup belong to the container.

        They do if the directory was created for the container, or existed but was unused.
        """
        return self.adopted or self.survey() < len(self.directories)

    def survey(self) -> int:
        """Return how many of ``directories`` existed before the container.

        The first call counts the directories that exist; later calls return the same number.
        """
        if self.existing == _UNKNOWN:
            self.existing = self._count()
        return self.existing

    def _count(self) -> int:
        for depth, directory in enumerate(self.directories):
            if not posix.access(directory, posix.F_OK):
                return depth
        return len(self.directories)

    def make(self, where: str) -> None:
        """Create the missing directories; ``where`` is the JSON path for errors.

        A directory that another process creates at the same time counts as existing.  A shared
        parent that the `delete` of another container removes at the same time is created again.
        Raises ConfigError if the container's own cgroup exists and is in use or frozen, HostError
        if a directory cannot be created.
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
            raise failure(f'create cgroup "{self.directory}"', error)
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
        """Raise ConfigError if the container's existing cgroup contains processes or is frozen."""
        from ociruntime.runtime.cgroups.cgroup_processes import processes
        from ociruntime.runtime.cgroups.freezer import event, frozen

        directory = self.directory
        try:
            if not is_directory(directory):
                raise ConfigError(where, f'"{directory}" is a control file, not a cgroup')
            if self.hierarchy.version == 2 and not event(directory, "populated"):
                members = []
            else:
                members = processes([directory])
                if not members and self.hierarchy.version == 2:
                    raise ConfigError(
                        where,
                        f'cgroup "{directory}" is not empty: its processes are in another PID'
                        " namespace",
                        "name another cgroup: two containers cannot share one",
                    )
            if members:
                raise ConfigError(
                    where,
                    f'cgroup "{directory}" is not empty: it contains processes {listed(members)}',
                    "name another cgroup: two containers cannot share one",
                )
            freezable = self.hierarchy.version == 2 or "freezer" in self.hierarchy.controllers
            if freezable and frozen(directory, self.hierarchy.version):
                raise ConfigError(
                    where, f'cgroup "{directory}" is frozen', "thaw it, or name another cgroup"
                )
        except OSError as error:
            raise failure(f'inspect cgroup "{directory}"', error) from None

    def inherit_cpuset(self) -> None:
        """Set cpuset.cpus and cpuset.mems of the new v1 cpusets to the values of their parents.

        A new v1 cpuset is empty, and no process can enter it until both files are set.  A file that
        is older than the container is set only if it is empty.  Raises HostError if a file cannot
        be read or written.
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
            raise failure(
                f'copy the cpuset of the parent cgroup to "{self.directory}"', error
            ) from None

    def enable_controllers(self) -> dict[str, HostError]:
        """Enable all controllers for the v2 cgroup by writing to its ancestors' subtree_control.

        Returns {controller: error} for the controllers that could not be enabled; the caller
        decides which of them the container needs.  Raises HostError if a file cannot be read.
        """
        refused: dict[str, HostError] = {}
        for directory in [self.hierarchy.mountpoint, *self.directories[:-1]]:
            path = f"{directory}/cgroup.subtree_control"
            try:
                present = read(path).split()
            except OSError as error:
                raise failure(f'read "{path}"', error) from None
            missing = [
                name
                for name in self.hierarchy.controllers
                if name not in present and name not in refused
            ]
            if not missing or (refusal := _enable(path, missing)) is None:
                continue
            if refusal.errno in (errno.EBUSY, errno.EOPNOTSUPP):
                # Do not retry each controller alone: enabling some could make the cgroup threaded.
                reason = failure(f'write to "{path}"', refusal, _enabling_hint(refusal))
                refused.update(dict.fromkeys(missing, reason))
                break
            for name in missing:
                if (refusal := _enable(path, [name])) is not None:
                    refused[name] = failure(
                        f'write "+{name}" to "{path}"', refusal, _enabling_hint(refusal)
                    )
        return refused

    def is_invalid(self) -> bool:
        """Return whether the v2 cgroup can hold no processes because an ancestor is threaded."""
        try:
            return read(f"{self.directory}/cgroup.type").strip() == "domain invalid"
        except OSError:
            return False

    def made(self) -> list[str]:
        """Return the directories that were created for the container, parents first."""
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
            "a cgroup with processes cannot enable controllers for its children (no internal "
            "processes): move the processes into a child cgroup first"
        )
    if error.errno == errno.ENOENT:
        return "the controller is not available in this cgroup: enable it in the parent first"
    if error.errno == errno.EOPNOTSUPP:
        return "the cgroup is threaded, and this controller does not support threaded cgroups"
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            "the controller is not delegated to this user: with systemd, run `systemctl edit"
            " user@.service`, add Delegate=cpu cpuset io memory pids, and log in again"
        )
    return ""


def _creation_failure(directory: str, error: OSError, where: str) -> HostError:
    hint = ""
    if error.errno == errno.EAGAIN:
        hint = "a parent cgroup's limit is reached: cgroup.max.descendants or cgroup.max.depth"
    elif error.errno == errno.ENOSPC:
        hint = "the kernel cannot create more cgroups in this hierarchy"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "use --rootless=true to continue without cgroups that cannot be created"
    prefix = f"{where}: " if where else ""
    return failure(f'{prefix}create cgroup "{directory}"', error, hint)


def remove_all(placements: Sequence[Placement], evict: Callable[[], None] | None = None) -> None:
    """Remove the cgroups created for a container in every hierarchy, and all cgroups below them.

    If the first attempt fails, calls ``evict`` once, to kill the processes.  A dead process leaves
    its cgroup a moment after its parent has reaped it, so rmdir(2) is retried after EBUSY for up to
    10 s.  Raises HostError, with the remaining pids, if processes remain after that.  Keeps a
    parent directory that another container has started to use.
    """
    remaining = [placement.directory for placement in placements if placement.made()]
    remaining = [directory for directory in remaining if not _remove_own(directory)]
    if remaining and evict is not None:
        evict()
    deadline = time.monotonic() + _REMOVAL_DEADLINE
    pause = 0.0001
    while remaining := [directory for directory in remaining if not _remove_own(directory)]:
        if time.monotonic() >= deadline:
            raise _still_there(remaining)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    for placement in placements:
        for directory in reversed(placement.made()[:-1]):
            try:
                posix.rmdir(directory)
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOTEMPTY, *GONE):
                    raise failure(f'remove cgroup "{directory}"', error) from None
                break


def _still_there(directories: Sequence[str]) -> HostError:
    from ociruntime.runtime.cgroups.cgroup_processes import processes

    members = processes(directories)
    hint = "no process is visible in this PID namespace"
    if members:
        hint = f"processes still running: {listed(members)}"
    error = OSError(errno.EBUSY, posix.strerror(errno.EBUSY))
    names = ", ".join(f'"{directory}"' for directory in directories)
    return HostError(f"remove cgroup {names}", error, hint)


def _remove_own(directory: str) -> bool:
    """Remove a cgroup and all cgroups below it; return False if a process is in one of them."""
    try:
        posix.rmdir(directory)
    except OSError as error:
        if error.errno in GONE:
            return True
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise failure(f'remove cgroup "{directory}"', error) from None
    else:
        return True
    from ociruntime.runtime.cgroups.cgroup_processes import tree

    for below in tree(directory):
        try:
            posix.rmdir(below)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY, *GONE):
                raise failure(f'remove cgroup "{below}"', error) from None
    return not posix.access(directory, posix.F_OK)


def listed(numbers: Sequence[int]) -> str:
    """Format pids as ``1, 2, 3``; after the tenth, ``...`` stands for the others."""
    text = ", ".join(str(number) for number in numbers[:_SHOWN_PIDS])
    return text + (" ..." if len(numbers) > _SHOWN_PIDS else "")
