"""The cgroup of one container, in all hierarchies of the host.

The order of a creation::

    cgroup = Cgroup.plan(layout, cgroups_path, id)   looks at nothing
    store(cgroup.record())                           what may have to be removed, beforehand
    cgroup.create(resources)                         directories, cpusets, device rules
    cgroup.attach(pid)                               or clone3 with open_v2()
    cgroup.apply(resources)                          limits, memory last

Everything after ``record`` also works on a ``from_record`` of it, at any point in between
and after a crash: what is missing is taken as gone.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError, RuntimeFailure
from ociruntime.runtime.cgroups import control_files, paths
from ociruntime.runtime.cgroups.placement import Placement, remove_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from ociruntime.runtime.cgroups.device_rules import DeviceRules
    from ociruntime.runtime.cgroups.layout import Layout
    from ociruntime.runtime.cgroups.setting import Setting

_NO_RESOURCES: dict[str, Any] = {}


class Cgroup:
    """``path`` is the same below every mount point; ``placements`` has one per hierarchy."""

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
        self.first_pid = 0  # once there is one: a systemd scope is made around a process
        self._where = where
        self._made_ahead: Placement | None = None
        self._precedent: Mapping[str, Any] | None = None  # resources that create() has seen
        self.shown: tuple[tuple[str, str], ...] | None = None  # by visible(), if not its own

    @classmethod
    def plan(cls, layout: Layout, cgroups_path: str | None, container_id: str) -> Self:
        """Pure: the paths that the container will have.  Raises ConfigError."""
        path = paths.resolve(cgroups_path, container_id)
        where = paths.WHERE if cgroups_path else ""
        return cls(path, [Placement(each, path) for each in layout.hierarchies], where)

    def record(self) -> dict[str, Any]:
        """JSON-able; notes which directories exist already, so take it before :meth:`create`.

        Taken again afterwards it also knows of directories that others made meanwhile, and
        that those which existed were free: needed if :attr:`adopted`.
        """
        return {"path": self.path, "placements": [each.record() for each in self.placements]}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """The inverse of :meth:`record`; looks at nothing."""
        path = record["path"]
        return cls(path, [Placement.from_record(each, path) for each in record["placements"]])

    @property
    def adopted(self) -> bool:
        """True after :meth:`create` if a directory of the container's was there before.

        A record of before leaves its members alone, for they may be somebody else's.
        """
        return any(each.adopted for each in self.placements)

    @property
    def unit(self) -> str:
        """Name of the systemd unit that it is (systemd_group.py), else empty."""
        return ""

    @property
    def born_inside(self) -> bool:
        """True if a process can be cloned into its v2 directory; else it is moved there."""
        return self._v2() is not None

    @property
    def paths(self) -> dict[str, str]:
        """Mount point of each hierarchy -> the container's directory in it."""
        return {each.hierarchy.mountpoint: each.directory for each in self.placements}

    def hierarchies(self) -> tuple[tuple[str, str], ...]:
        """(what names the hierarchy in v1 mount options, the container's directory) each."""
        return tuple((each.hierarchy.option, each.directory) for each in self.placements)

    def visible(self) -> tuple[tuple[str, str], ...]:
        """What mounts of cgroup file systems show in the container, as :meth:`hierarchies`."""
        return self.hierarchies() if self.shown is None else self.shown

    def settings(
        self, resources: Mapping[str, Any] | None, where: str = "linux.resources"
    ) -> list[Setting]:
        """What :meth:`create` and :meth:`apply` will write, device rules aside; pure."""
        if not resources:
            return []
        from ociruntime.runtime.cgroups.resources import settings

        versions = {"": 2} if self._v2() is not None else {}
        for each in self.placements:
            for controller in each.hierarchy.controllers:
                versions[controller] = each.hierarchy.version
        return settings(resources, versions, where)

    def make_v2(self) -> bool:
        """Make the v2 directory ahead of :meth:`create`, if v1 ones will take more time than that.

        Returns whether a process may be born there while the rest is made. Raises ConfigError and
        HostError.
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
        """Make the directories and set what must be in force before anybody enters.

        Refuses bad resources before anything is made, and a cgroup of that name which is in
        use or frozen; after an error what was made is gone again.  ``rootless``: do without
        hierarchies that this user may not write to, as far as no resource needs them.
        Raises ConfigError and HostError.
        """
        resources = resources or _NO_RESOURCES
        found = self.settings(resources, where)
        devices = self._device_rules(resources, where)
        try:
            self._build(found, devices, rootless)
        except BaseException:
            try:
                self.remove()
            except RuntimeFailure:
                pass  # the first error is the one to tell; the record is still there
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
        # One that may not be written is no loss: whoever may not do that makes no devices.
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
        """A descriptor of the v2 directory for CLONE_INTO_CGROUP, or -1.  Raises HostError."""
        unified = self._v2()
        if unified is None:
            return -1
        try:
            return posix.open(unified.directory, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
        except OSError as error:
            raise control_files.failure(f"open cgroup {unified.directory}", error) from None

    def open_v1_entrances(self) -> list[int]:
        """Open the file ``tasks`` of each v1 directory, for a process that enters by itself.

        That is all a process needs to move itself there, whatever it may do otherwise: the kernel
        looks at who has opened the file. Raises HostError.
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
        """Move a process, with all its threads, into every hierarchy, or the v2 one alone.

        ``born_in_v2``: it was cloned into the v2 directory.  ``beside``: a process of the
        container, to whose cgroup to go where the payload has made cgroups of its own, for
        then v2 allows no process in the container's.  Raises HostError.
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
        """Set the limits of a new container; memory comes last.

        What :meth:`create` has set from the same resources is not written again.  Raises
        ConfigError and HostError.
        """
        found = self.settings(resources, where)
        if self._precedent is resources:
            found = [
                each for each in found if not (each.controller == "cpuset" and each.version == 1)
            ]
        control_files.apply(found, self.directories())

    def tell(self, settings: Sequence[Setting]) -> None:
        """Let know of settings, before they are written, who else writes such files: nobody."""

    def processes(self) -> list[int]:
        """All members, those of cgroups below included, in ascending order."""
        from ociruntime.runtime.cgroups import members

        return members.processes([each.directory for each in self._own()])

    def kill(self) -> None:
        """SIGKILL to every member; returns without waiting for their end.

        With a v2 directory the kernel does it in one step; in v1 hierarchies somebody may
        have been moved elsewhere, so those are looked through as well.  Raises HostError.
        """
        from ociruntime.runtime.cgroups import freezer, members

        own = self._own()
        unified = _with_version_2(own)
        done = unified is not None and members.kill_unified(unified.directory)
        directories = [each.directory for each in own if not (done and each is unified)]
        freezing = _with_controller(own, "freezer")
        if not done and freezing is not None and members.processes([freezing.directory]):
            self._hold(freezing.directory)  # nobody can fork while the list is read
        try:
            members.kill_each(directories)
        finally:
            if freezing is not None:
                freezer.thaw(freezing.directory, 1)  # a frozen process cannot even die

    def _hold(self, directory: str) -> None:
        try:
            control_files.write(f"{directory}/freezer.state", "FROZEN")
        except OSError as error:
            if not control_files.gone(error):
                raise control_files.failure(f"freeze {directory}", error) from None

    @property
    def freezable(self) -> bool:
        """Whether there is a freezer that is the container's alone."""
        return self._freezer() is not None

    def frozen(self) -> bool:
        """True while paused, or on the way there; False without a freezer or a directory."""
        from ociruntime.runtime.cgroups import freezer

        where = self._freezer()
        return where is not None and freezer.frozen(where.directory, where.hierarchy.version)

    def freeze(self) -> None:
        """Stop all members; back when they have stopped.  Raises HostError."""
        from ociruntime.runtime.cgroups import freezer

        where = self._freezer()
        if where is None:
            raise HostError("freeze the container", OSError(errno.ENOSYS, "no freezer cgroup"))
        freezer.freeze(where.directory, where.hierarchy.version)

    def thaw(self) -> None:
        """Let all members go on.  Raises HostError."""
        from ociruntime.runtime.cgroups import freezer

        where = self._freezer()
        if where is not None:
            freezer.thaw(where.directory, where.hierarchy.version)

    def remove(self, kill: bool = False) -> None:
        """Remove the directories that :meth:`create` has made, and what is below them.

        ``kill``: if somebody is still there, :meth:`kill`, which is cheaper than looking
        first.  Waits up to 10 s for the last to leave.  Raises HostError naming those left,
        and can then be called again.
        """
        remove_all(self.placements, self.kill if kill else None)

    def hand_over(self, uid: int, gid: int = -1) -> None:
        """Change the owner of the v2 cgroup, -1: not the group; nothing where v1 is in use.

        Raises HostError.
        """
        from ociruntime.runtime.cgroups.ownership import hand_over

        if all(each.hierarchy.version == 2 for each in self.placements):
            for each in self.placements:
                hand_over(each.directory, uid, gid)

    def oom_killed(self) -> bool:
        """True if the kernel has killed a member for want of memory."""
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
        """Controller -> the container's directory; ``""`` for the v2 one."""
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
        """Ready to be installed.  Raises ConfigError."""
        from ociruntime.runtime.cgroups.device_rules import DeviceRules

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
    """Into that v2 cgroup below ``directory`` in which ``beside`` is; False if it is not."""
    try:
        for line in control_files.read(f"/proc/{beside}/cgroup").splitlines():
            inner = line.partition(path + "/")[2]
            if line.startswith("0::") and inner and ".." not in inner.split("/"):
                control_files.write(f"{directory}/{inner}/cgroup.procs", str(pid))
                return True
    except OSError:
        pass  # what is reported is that the container's own could not be entered
    return False


def _attach_hint(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return "a cgroup whose controllers are passed on to children takes no processes itself"
    if error.errno == errno.EACCES:
        return "an ordinary user moves processes only within the cgroup that is delegated to him"
    if error.errno == errno.ENOSPC:
        return "its cpuset is empty"
    if error.errno == errno.ESRCH:
        return "the process has ended"
    if error.errno == errno.EOPNOTSUPP:
        return "it is a threaded cgroup, or one below such"
    return ""
