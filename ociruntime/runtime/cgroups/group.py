"""A container's cgroup in all hierarchies of the host.

The order of a creation::

    cgroup = Cgroup.plan(layout, cgroups_path, id)   pure: computes the paths
    store(cgroup.record())                           what a later command may have to remove
    cgroup.create(resources)                         directories, cpusets, device rules
    cgroup.attach(pid)                               or clone3 with open_v2()
    cgroup.apply(resources)                          limits, memory last

All methods after ``record`` also work on a ``from_record`` of it, at any point and after a crash:
a missing directory counts as removed.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError, RuntimeFailure
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.control_files import failure, read
from ociruntime.runtime.cgroups.layout import CGROUPS_PATH, resolve_path
from ociruntime.runtime.cgroups.placement import Placement, remove_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from ociruntime.runtime.cgroups.device_enforcement import DeviceRules
    from ociruntime.runtime.cgroups.layout import Layout
    from ociruntime.runtime.cgroups.setting import Setting

_NO_RESOURCES: dict[str, Any] = {}


class Cgroup:
    """A container's cgroup: one ``path`` below every mount point, one placement per hierarchy."""

    __slots__ = (
        "_made_ahead",
        "_precedent",
        "_where",
        "first_pid",
        "path",
        "placements",
        "shown",
    )

    def __init__(self, path: str, placements: list[Placement], where: str = "") -> None:
        self.path = path
        self.placements = placements
        self.first_pid = 0  # the init's pid, 0 before it exists; systemd makes a scope around it
        self._where = where
        self._made_ahead: Placement | None = None
        self._precedent: Mapping[str, Any] | None = None  # the resources given to create()
        self.shown: tuple[tuple[str, str], ...] | None = None  # by visible(), if not its own

    @classmethod
    def plan(cls, layout: Layout, cgroups_path: str | None, container_id: str) -> Self:
        """Compute the container's paths; pure.  Raises ConfigError."""
        path = resolve_path(cgroups_path, container_id)
        where = CGROUPS_PATH if cgroups_path else ""
        return cls(path, [Placement(each, path) for each in layout.hierarchies], where)

    def record(self) -> dict[str, Any]:
        """Return a JSON-able record; call it before :meth:`create`.

        It lists which directories exist already.  A second record, after :meth:`create`, also has
        the directories that other processes made meanwhile, and that existing ones were unused; it
        is required if :attr:`adopted`.
        """
        return {"path": self.path, "placements": [each.record() for each in self.placements]}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the cgroup of a record; pure."""
        path = record["path"]
        return cls(path, [Placement.from_record(each, path) for each in record["placements"]])

    @property
    def adopted(self) -> bool:
        """Return whether :meth:`create` found the container's directory existing in a hierarchy.

        With an earlier record, its members are left alone, since they may not be the container's.
        """
        return any(each.adopted for each in self.placements)

    @property
    def unit(self) -> str:
        """Return the name of its systemd unit (systemd_group.py), "" without one."""
        return ""

    @property
    def born_inside(self) -> bool:
        """Return whether a process can be cloned into its v2 directory; else it must be moved."""
        return self._v2() is not None

    @property
    def paths(self) -> dict[str, str]:
        """Return the container's directory in each hierarchy, by mount point."""
        return {each.hierarchy.mountpoint: each.directory for each in self.placements}

    def hierarchies(self) -> tuple[tuple[str, str], ...]:
        """Return (v1 mount option of the hierarchy, the container's directory) for each."""
        return tuple((each.hierarchy.option, each.directory) for each in self.placements)

    def visible(self) -> tuple[tuple[str, str], ...]:
        """Return what cgroup mounts in the container show, in the form of :meth:`hierarchies`."""
        return self.hierarchies() if self.shown is None else self.shown

    def settings(
        self, resources: Mapping[str, Any] | None, where: str = "linux.resources"
    ) -> list[Setting]:
        """Return what :meth:`create` and :meth:`apply` write, without device rules; pure."""
        if not resources:
            return []
        from ociruntime.runtime.cgroups.resources import settings

        versions = {"": 2} if self._v2() is not None else {}
        for each in self.placements:
            for controller in each.hierarchy.controllers:
                versions[controller] = each.hierarchy.version
        return settings(resources, versions, where)

    def make_v2(self) -> bool:
        """Make the v2 directory before :meth:`create`, if there are v1 ones, which take longer.

        Returns whether a process may be cloned into it while the others are made.  Raises
        ConfigError and HostError.
        """
        unified = self._v2()
        if unified is None or not self._v1():
            return False
        self._place(unified)
        self._made_ahead = unified
        return True

    def create(
        self,
        resources: Mapping[str, Any] | None,
        where: str = "linux.resources",
        rootless: bool = False,
    ) -> None:
        """Make the directories and write what must be in force before a process enters.

        Invalid resources, and a cgroup of that name that is in use or frozen, are refused before
        anything is made; after an error, everything made here is removed.  ``rootless``: skip
        hierarchies that this user may not write to, unless a resource needs them.  Raises
        ConfigError and HostError.
        """
        resources = resources or _NO_RESOURCES
        found = self.settings(resources, where)
        devices = self._device_rules(resources, where)
        try:
            self._build(found, devices, rootless)
        except BaseException:
            # A process may be in the directory that was made ahead: the caller removes it, last.
            made = [each for each in self.placements if each is not self._made_ahead]
            try:
                remove_all(made)
            except RuntimeFailure:
                pass  # report the first error; the record still allows a later removal
            raise
        self._precedent = resources

    def _build(self, found: list[Setting], devices: DeviceRules, rootless: bool) -> None:
        self._make(found, rootless)
        self._enable(found)
        cpuset = self._of("cpuset")
        if cpuset is not None and cpuset.hierarchy.version == 1:
            cpuset.inherit_cpuset()
            precedent = [each for each in found if each.controller == "cpuset"]
            control_files.apply(precedent, self.directories())
        # If the rules cannot be written, the same lack of privilege prevents mknod(2).
        if devices.directory in self.paths.values():
            devices.install()

    def _make(self, found: list[Setting], rootless: bool) -> None:
        for each in list(self.placements):
            if each is self._made_ahead:
                continue
            try:
                self._place(each)
            except HostError as error:
                if not rootless or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                needed = [setting.controller for setting in found]
                if any(name in needed for name in (*each.hierarchy.controllers, "")):
                    raise
                self.placements.remove(each)

    def _place(self, placement: Placement) -> None:
        placement.make(self._where)

    def open_v2(self) -> int:
        """Open the v2 directory for CLONE_INTO_CGROUP; -1 without v2.  Raises HostError."""
        unified = self._v2()
        if unified is None:
            return -1
        try:
            return posix.open(unified.directory, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
        except OSError as error:
            raise control_files.failure(f"open cgroup {unified.directory}", error) from None

    def open_v1_entrances(self) -> list[int]:
        """Open the file ``tasks`` of each v1 directory, for a process that moves itself there.

        The kernel checks the privileges of the opener, so an unprivileged process can use the
        descriptor.  Raises HostError.
        """
        entrances: list[int] = []
        for each in self._v1():
            try:
                flags = posix.O_WRONLY | posix.O_CLOEXEC
                entrances.append(posix.open(f"{each.directory}/tasks", flags))
            except OSError as error:
                for fd in entrances:
                    posix.close(fd)
                raise control_files.failure(f"open cgroup {each.directory}", error) from None
        return entrances

    def entry_failure(self, pid: int, index: int, error: OSError) -> HostError:
        """Return the error of a process that could not enter the v1 directory ``index``."""
        action = f"move process {pid} into cgroup {self._v1()[index].directory}"
        return control_files.failure(action, error, _attach_hint(error))

    def _v1(self) -> list[Placement]:
        return [each for each in self.placements if each.hierarchy.version == 1]

    def attach(
        self, pid: int, born_in_v2: bool = False, beside: int = 0, only_v2: bool = False
    ) -> None:
        """Move a process, with all its threads, into the cgroup in every hierarchy.

        ``born_in_v2``: it was cloned into the v2 directory.  ``beside``: a process of the
        container, whose cgroup is the fallback on v2 if the container has made cgroups of its own:
        then the container's own cgroup takes no process ("no internal processes").  Raises
        HostError.
        """
        for each in self.placements:
            if (born_in_v2 and each.hierarchy.version == 2) or (
                only_v2 and each.hierarchy.version == 1
            ):
                continue
            try:
                control_files.write(f"{each.directory}/cgroup.procs", str(pid))
            except OSError as error:
                busy = error.errno in (errno.EBUSY, errno.EOPNOTSUPP)
                if busy and beside and _attach_beside(each.directory, self.path, pid, beside):
                    continue
                action = f"move process {pid} into cgroup {each.directory}"
                raise control_files.failure(action, error, _attach_hint(error)) from None

    def apply(self, resources: Mapping[str, Any] | None, where: str = "linux.resources") -> None:
        """Write the limits of a new container, memory last.

        Settings that :meth:`create` has written are skipped.  Raises ConfigError and HostError.
        """
        found = self.settings(resources, where)
        if self._precedent is resources:
            found = [
                each for each in found if not (each.controller == "cpuset" and each.version == 1)
            ]
        control_files.apply(found, self.directories())

    def tell(self, settings: Sequence[Setting]) -> None:
        """Hook called before settings are written; a no-op here, overridden for systemd."""

    def processes(self) -> list[int]:
        """Return the pids of all members, including those of nested cgroups, in ascending order."""
        from ociruntime.runtime.cgroups import cgroup_processes

        return cgroup_processes.processes([each.directory for each in self._own()])

    def kill(self) -> None:
        """Send SIGKILL to every member, without waiting for their end.

        On v2, cgroup.kill does it in one step.  In the v1 hierarchies, a process may have been
        moved out of one of them, so all are searched.  Raises HostError.
        """
        from ociruntime.runtime.cgroups import cgroup_processes, freezer

        own = self._own()
        unified = _with_version_2(own)
        done = unified is not None and cgroup_processes.kill_unified(unified.directory)
        directories = [each.directory for each in own if not (done and each is unified)]
        freezing = _with_controller(own, "freezer")
        if not done and freezing is not None and cgroup_processes.processes([freezing.directory]):
            self._hold(freezing.directory)  # no member can fork while the list is read
        try:
            cgroup_processes.kill_each(directories)
        finally:
            if freezing is not None:
                freezer.thaw(freezing.directory, 1)  # on v1 a frozen process cannot die

    def _hold(self, directory: str) -> None:
        try:
            control_files.write(f"{directory}/freezer.state", "FROZEN")
        except OSError as error:
            if not control_files.gone(error):
                raise control_files.failure(f"freeze {directory}", error) from None

    @property
    def freezable(self) -> bool:
        """Return whether the container has a freezer cgroup of its own."""
        return self._freezer() is not None

    def frozen(self) -> bool:
        """Return whether the container is paused or pausing; False without a freezer."""
        from ociruntime.runtime.cgroups import freezer

        where = self._freezer()
        return where is not None and freezer.frozen(where.directory, where.hierarchy.version)

    def freeze(self) -> None:
        """Freeze all members and wait until they are frozen.  Raises HostError."""
        from ociruntime.runtime.cgroups import freezer

        where = self._freezer()
        if where is None:
            raise HostError("freeze the container", OSError(errno.ENOSYS, "no freezer cgroup"))
        freezer.freeze(where.directory, where.hierarchy.version)

    def thaw(self) -> None:
        """Thaw all members.  Raises HostError."""
        from ociruntime.runtime.cgroups import freezer

        where = self._freezer()
        if where is not None:
            freezer.thaw(where.directory, where.hierarchy.version)

    def remove(self, kill: bool = False) -> None:
        """Remove the directories that :meth:`create` has made, and all below them.

        ``kill``: if a process is still there, call :meth:`kill`; that is cheaper than checking
        first.  Waits up to 10 s for the last process to leave.  Raises HostError naming the
        processes left; it can then be called again.
        """
        remove_all(self.placements, self.kill if kill else None)

    def hand_over(self, uid: int, gid: int = -1) -> None:
        """Change the owner of the v2 cgroup; do nothing on v1.  ``gid`` -1: keep the group.

        Raises HostError.
        """
        if all(each.hierarchy.version == 2 for each in self.placements):
            for each in self.placements:
                hand_over(each.directory, uid, gid)

    def oom_killed(self) -> bool:
        """Return whether a member was OOM-killed."""
        from ociruntime.runtime.cgroups.oom import oom_kills

        memory = self._of("memory")
        return memory is not None and oom_kills(memory.directory, memory.hierarchy.version) > 0

    def _of(self, controller: str) -> Placement | None:
        return _with_controller(self.placements, controller)

    def _v2(self) -> Placement | None:
        return _with_version_2(self.placements)

    def _own(self) -> list[Placement]:
        return [each for each in self.placements if each.is_ours()]

    def _freezer(self) -> Placement | None:
        own = self._own()
        return _with_controller(own, "freezer") or _with_version_2(own)

    def directories(self) -> dict[str, str]:
        """Return the container's directory by controller; ``""`` is the v2 one."""
        found = {}
        for each in self.placements:
            for controller in each.hierarchy.controllers:
                found[controller] = each.directory
            if each.hierarchy.version == 2:
                found[""] = each.directory
        return found

    def _enable(self, found: list[Setting]) -> None:
        unified = self._v2()
        if unified is None or not unified.hierarchy.controllers:
            return
        refused = unified.enable_controllers()
        for setting in found:
            if setting.version == 2 and setting.controller in refused:
                error = refused[setting.controller]
                raise ConfigError(
                    setting.where,
                    f'the cgroup controller "{setting.controller}" cannot be used: {error.message}',
                    error.hint,
                )
        if refused and unified.is_invalid():
            error = next(iter(refused.values()))
            raise ConfigError(
                self._where,
                f"cgroup {unified.directory} cannot take processes: {error.message}",
                error.hint,
            )

    def _device_rules(self, resources: Mapping[str, Any], where: str) -> DeviceRules:
        """Return the device rules, ready to be installed.  Raises ConfigError."""
        from ociruntime.runtime.cgroups.device_enforcement import DeviceRules

        listing, unified = self._of("devices"), self._v2()
        return DeviceRules(
            resources.get("devices") or (),
            f"{where}.devices",
            listing.directory if listing is not None else "",
            unified.directory if unified is not None else "",
        )


def _with_controller(placements: list[Placement], controller: str) -> Placement | None:
    for each in placements:
        if controller in each.hierarchy.controllers:
            return each
    return None


def _with_version_2(placements: list[Placement]) -> Placement | None:
    for each in placements:
        if each.hierarchy.version == 2:
            return each
    return None


def _attach_beside(directory: str, path: str, pid: int, beside: int) -> bool:
    """Move ``pid`` to the v2 cgroup of ``beside``; return False if that is not below ours."""
    try:
        # Only a line feed ends a line: the container names the cgroups below its own.
        for line in control_files.read(f"/proc/{beside}/cgroup").split("\n"):
            inner = line.partition(path + "/")[2]
            if line.startswith("0::") and inner and ".." not in inner.split("/"):
                control_files.write(f"{directory}/{inner}/cgroup.procs", str(pid))
                return True
    except OSError:
        pass  # the caller reports the error of the container's own cgroup
    return False


def _attach_hint(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return "a cgroup that delegates controllers to its children cannot have processes itself"
    if error.errno == errno.EACCES:
        return "an unprivileged user can move processes only within a cgroup delegated to them"
    if error.errno == errno.ENOSPC:
        return "its cpuset is empty"
    if error.errno == errno.ESRCH:
        return "the process has exited"
    if error.errno == errno.EOPNOTSUPP:
        return "it is a threaded cgroup, or below one"
    return ""


# Delegation of a v2 cgroup to the container's user (config-linux.md, cgroup ownership).
#
# runtime/plan/cgroup_mounts.py decides whether to do it.  It is never done on v1, where the owner
# of a directory could lift the limits set in it.

DELEGATE = "/sys/kernel/cgroup/delegate"
# For kernels before 4.15, which do not list the files that may be delegated.
_FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")


def hand_over(directory: str, uid: int, gid: int, listing: str = DELEGATE) -> None:
    """Change the owner of the directory and of the files in the kernel's list, of no others.

    A listed file that does not exist here is skipped.  Raises HostError.
    """
    try:
        names = tuple(read(listing).split())
    except OSError:
        names = _FILES
    for path in (directory, *(f"{directory}/{name}" for name in names)):
        try:
            posix.chown(path, uid, gid)
        except OSError as error:
            if error.errno == errno.ENOENT and path != directory:
                continue
            raise failure(f"change the owner of {path} to {uid}:{gid}", error) from None
