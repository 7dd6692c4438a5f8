"""A container's cgroup in all hierarchies of the host: creation, limits, freezing, removal.

A container's cgroup is created in this order::

    cgroup = Cgroup.plan(layout, cgroups_path, id)   pure: computes the paths
    store(cgroup.record())                           what a later command may have to remove
    cgroup.create(resources)                         directories, cpusets, device rules
    cgroup.attach(pid)                               or clone3(2) into open_v2()
    cgroup.apply(resources)                          the other limits
    cgroup.disable_oom_killer(resources)             once the init is ready

Later commands recreate the object from the record with ``from_record``.  Its methods work even if a
crash has interrupted the creation: a missing directory counts as removed.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError, RuntimeFailure
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.cgroup_directory import Placement, remove_all
from ociruntime.runtime.cgroups.control_files import OOM_CONTROL, failure, read
from ociruntime.runtime.cgroups.hierarchies import CGROUPS_PATH, resolve_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from ociruntime.runtime.cgroups.device_enforcement import DeviceRules
    from ociruntime.runtime.cgroups.hierarchies import Layout
    from ociruntime.runtime.cgroups.shared_settings import Setting

_NO_RESOURCES: dict[str, Any] = {}


class Cgroup:
    """A container's cgroup, which has the same ``path`` in every hierarchy.

    ``placements`` describes the cgroup's directory in each hierarchy.
    """

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
        # The result of visible(), if it is not that of hierarchies().
        self.shown: tuple[tuple[str, str], ...] | None = None

    @classmethod
    def plan(cls, layout: Layout, cgroups_path: str | None, container_id: str) -> Self:
        """Return the cgroup for a new container, without creating it.

        ``layout`` describes the host's hierarchies.  Raises ConfigError for an invalid
        ``cgroups_path``.
        """
        path = resolve_path(cgroups_path, container_id)
        where = CGROUPS_PATH if cgroups_path else ""
        return cls(path, [Placement(each, path) for each in layout.hierarchies], where)

    def record(self) -> dict[str, Any]:
        """Return the cgroup as a JSON object for the state directory.

        Call it before :meth:`create`: the record says which directories existed before the
        container, and `delete` keeps those.  If :attr:`adopted` is true after :meth:`create`, call
        it again: only then may `delete` kill the processes in the existing directory.
        """
        return {"path": self.path, "placements": [each.record() for each in self.placements]}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Recreate the cgroup from the JSON object that :meth:`record` has returned."""
        path = record["path"]
        return cls(path, [Placement.from_record(each, path) for each in record["placements"]])

    @property
    def adopted(self) -> bool:
        """True if :meth:`create` has adopted an existing, unused directory in any hierarchy.

        A record made before :meth:`create` does not say this.  With such a record, `delete`
        does not kill the processes in the directory: they may belong to another program.
        """
        return any(each.adopted for each in self.placements)

    @property
    def unit(self) -> str:
        """The name of the cgroup's systemd unit (systemd_group.py); "" if it has none."""
        return ""

    @property
    def born_inside(self) -> bool:
        """True if clone3(2) can create the init in the cgroup (CLONE_INTO_CGROUP).

        Otherwise :meth:`attach` moves the init into the cgroup later.
        """
        return self._v2() is not None

    @property
    def paths(self) -> dict[str, str]:
        """The container's cgroup directory in each hierarchy: {mount point: directory}."""
        return {each.hierarchy.mountpoint: each.directory for each in self.placements}

    def hierarchies(self) -> tuple[tuple[str, str], ...]:
        """Return (mount option, cgroup directory) for each hierarchy.

        The mount option names a v1 hierarchy (``cpu,cpuacct``) and is "" for v2.
        """
        return tuple((each.hierarchy.option, each.directory) for each in self.placements)

    def visible(self) -> tuple[tuple[str, str], ...]:
        """Return (mount option, cgroup directory) for each cgroup mount in the container.

        The mount option names a v1 hierarchy (``cpu,cpuacct``) and is "" for v2.
        """
        return self.hierarchies() if self.shown is None else self.shown

    def settings(
        self, resources: Mapping[str, Any] | None, where: str = "linux.resources"
    ) -> list[Setting]:
        """Return the settings that :meth:`create` and :meth:`apply` write for ``resources``.

        The result does not include device rules.  ``where`` is the JSON path of ``resources``.
        Raises ConfigError for a resource that the host's cgroups cannot limit.
        """
        if not resources:
            return []
        from ociruntime.runtime.cgroups.resources import settings

        versions = {"": 2} if self._v2() is not None else {}
        for each in self.placements:
            for controller in each.hierarchy.controllers:
                versions[controller] = each.hierarchy.version
        return settings(resources, versions, where)

    def make_v2(self) -> bool:
        """On a hybrid host, create the v2 directory ahead of :meth:`create`, and return True.

        The executor can then be cloned into the v2 directory while this process still creates the
        v1 directories.  Returns False on other hosts.  Raises ConfigError if an existing cgroup is
        in use or frozen, HostError if the directory cannot be created.
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
        """Create the cgroup, enable its controllers, set v1 cpusets and install the device rules.

        :meth:`apply` writes the other limits later.  ``rootless``: skip hierarchies to which this
        user may not write, unless a resource needs them.  Raises ConfigError if the resources are
        invalid or need a missing controller, or if an existing cgroup is in use or frozen;
        HostError for any other failure.  After an error, removes the directories that this call has
        created.
        """
        resources = resources or _NO_RESOURCES
        settings = self.settings(resources, where)
        devices = self._device_rules(resources, where)
        try:
            self._build(settings, devices, rootless)
        except BaseException:
            # Keep make_v2()'s directory: the executor may be in it.  The caller removes it later.
            removable = [each for each in self.placements if each is not self._made_ahead]
            try:
                remove_all(removable)
            except RuntimeFailure:
                pass  # report the first error; the record still allows a later removal
            raise
        self._precedent = resources

    def _build(self, settings: list[Setting], devices: DeviceRules, rootless: bool) -> None:
        self._make(settings, rootless)
        self._enable(settings)
        cpuset = self._of("cpuset")
        if cpuset is not None and cpuset.hierarchy.version == 1:
            cpuset.inherit_cpuset()
            precedent = [each for each in settings if each.controller == "cpuset"]
            control_files.apply(precedent, self.directories())
        # If the rules cannot be written, the same lack of privilege prevents mknod(2).
        if devices.directory in self.paths.values():
            devices.install()

    def _make(self, settings: list[Setting], rootless: bool) -> None:
        for each in list(self.placements):
            if each is self._made_ahead:
                continue
            try:
                self._place(each)
            except HostError as error:
                if not rootless or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                needed = [setting.controller for setting in settings]
                if any(name in needed for name in (*each.hierarchy.controllers, "")):
                    raise
                self.placements.remove(each)

    def _place(self, placement: Placement) -> None:
        placement.make(self._where)

    def open_v2(self) -> int:
        """Return an O_PATH descriptor of the v2 directory, for CLONE_INTO_CGROUP.

        Returns -1 if the host has no v2 hierarchy.  Raises HostError if the directory cannot be
        opened.
        """
        unified = self._v2()
        if unified is None:
            return -1
        try:
            return posix.open(unified.directory, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
        except OSError as error:
            raise control_files.failure(f'open cgroup "{unified.directory}"', error) from None

    def open_v1_entrances(self) -> list[int]:
        """Open the ``tasks`` file of each v1 cgroup; return the descriptors.

        A process enters a v1 cgroup by writing to ``tasks``.  The kernel checks the privileges of
        the process that has opened the file, so an unprivileged process can use the descriptor.
        Raises HostError if a file cannot be opened.
        """
        entrances: list[int] = []
        for each in self._v1():
            try:
                flags = posix.O_WRONLY | posix.O_CLOEXEC
                entrances.append(posix.open(f"{each.directory}/tasks", flags))
            except OSError as error:
                for fd in entrances:
                    posix.close(fd)
                raise control_files.failure(f'open cgroup "{each.directory}"', error) from None
        return entrances

    def entry_failure(self, pid: int, index: int, error: OSError) -> HostError:
        """Return the HostError for a process ``pid`` that could not enter a v1 cgroup.

        ``error`` is the cause, ``index`` the cgroup's position in the result of
        :meth:`open_v1_entrances`.
        """
        action = f'move process {pid} into cgroup "{self._v1()[index].directory}"'
        return control_files.failure(action, error, _attach_hint(error))

    def _v1(self) -> list[Placement]:
        return [each for each in self.placements if each.hierarchy.version == 1]

    def attach(
        self, pid: int, born_in_v2: bool = False, beside: int = 0, only_v2: bool = False
    ) -> None:
        """Move process ``pid``, with all its threads, into the cgroup in every hierarchy.

        ``born_in_v2``: the process was cloned into the v2 directory.  ``only_v2``: skip the v1
        hierarchies.  ``beside``: the pid of a process in the container, or 0.  If the container has
        enabled controllers for child cgroups of its own, its v2 cgroup accepts no process (the
        kernel's rule "no internal processes"); ``pid`` then enters the v2 cgroup of ``beside``.
        Raises HostError if the process cannot be moved.
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
                action = f'move process {pid} into cgroup "{each.directory}"'
                raise control_files.failure(action, error, _attach_hint(error)) from None

    def apply(self, resources: Mapping[str, Any] | None, where: str = "linux.resources") -> None:
        """Write the limits of a new container to its control files.

        Skips settings that :meth:`create` has already written, and the setting of the OOM killer,
        which :meth:`disable_oom_killer` writes.  Raises ConfigError for a limit that the host's
        cgroups cannot express, HostError if a limit cannot be written.
        """
        settings = [
            each for each in self.settings(resources, where) if each.files[0][0] != OOM_CONTROL
        ]
        if self._precedent is resources:
            settings = [
                each for each in settings if not (each.controller == "cpuset" and each.version == 1)
            ]
        control_files.apply(settings, self.directories())

    def disable_oom_killer(self, resources: Mapping[str, Any] | None) -> None:
        """Disable the OOM killer in the v1 cgroup if ``resources`` contains disableOOMKiller.

        Call it last: without the OOM killer, an init that needs more memory than the limit would
        hang instead of being killed, and `create` would wait for it forever.  Raises ConfigError if
        the kernel does not support this, HostError if the setting cannot be written.
        """
        if not (resources and (resources.get("memory") or {}).get("disableOOMKiller")):
            return
        settings = self.settings(resources, "linux.resources")
        late = [each for each in settings if each.files[0][0] == OOM_CONTROL]
        control_files.apply(late, self.directories())

    def set_unit_properties(self, settings: Sequence[Setting]) -> None:
        """Set the systemd unit's properties for ``settings``; do nothing if there is no unit."""

    def processes(self) -> list[int]:
        """Return the pids in the container's cgroup and its descendants, in ascending order."""
        from ociruntime.runtime.cgroups import cgroup_processes

        return cgroup_processes.processes([each.directory for each in self._own()])

    def kill(self) -> None:
        """Send SIGKILL to every process in the cgroup, without waiting for them to exit.

        On v2, writes to cgroup.kill.  On v1, searches all hierarchies, because a process may have
        been moved out of the cgroup in one of them.  The v1 cgroup is frozen during the search, so
        that no process can fork.  Raises HostError if the processes cannot be listed, frozen,
        killed or thawed.
        """
        from ociruntime.runtime.cgroups import cgroup_processes, freezer

        own = self._own()
        unified = _with_version_2(own)
        killed = unified is not None and cgroup_processes.kill_unified(unified.directory)
        directories = [each.directory for each in own if not (killed and each is unified)]
        freezing = _with_controller(own, "freezer")
        if not killed and freezing is not None and cgroup_processes.processes([freezing.directory]):
            self._hold(freezing.directory)  # no member can fork while the list is read
        try:
            cgroup_processes.kill_each(directories)
        finally:
            if freezing is not None:
                freezer.thaw_tree(freezing.directory)  # on v1 a frozen process cannot die

    def _hold(self, directory: str) -> None:
        try:
            control_files.write(f"{directory}/freezer.state", "FROZEN")
        except OSError as error:
            if not control_files.gone(error):
                raise control_files.failure(f'freeze cgroup "{directory}"', error) from None

    @property
    def freezable(self) -> bool:
        """True if the container has a freezer cgroup of its own."""
        return self._freezer() is not None

    def frozen(self) -> bool:
        """Return whether the container is paused or being paused; False if it has no freezer."""
        from ociruntime.runtime.cgroups import freezer

        placement = self._freezer()
        return placement is not None and freezer.frozen(
            placement.directory, placement.hierarchy.version
        )

    def freeze(self) -> None:
        """Freeze all processes of the container and wait until they are frozen.

        If that takes more than 10 s, thaws them again and raises HostError.  Also raises HostError
        if the container has no freezer cgroup of its own.
        """
        from ociruntime.runtime.cgroups import freezer

        placement = self._freezer()
        if placement is None:
            missing = OSError(errno.ENOSYS, "the container has no freezer cgroup of its own")
            raise HostError(f'freeze cgroup "{self.path}"', missing)
        freezer.freeze(placement.directory, placement.hierarchy.version)

    def thaw(self) -> None:
        """Thaw all processes of the container; do nothing if it has no freezer.

        Raises HostError if the processes cannot be thawed.
        """
        from ociruntime.runtime.cgroups import freezer

        placement = self._freezer()
        if placement is not None:
            freezer.thaw(placement.directory, placement.hierarchy.version)

    def let_die(self) -> None:
        """Thaw the container's processes if its freezer is v1, so that SIGKILL takes effect.

        On v2, does nothing: there, SIGKILL also ends frozen processes.  Raises HostError if the
        processes cannot be thawed.
        """
        from ociruntime.runtime.cgroups import freezer

        placement = self._freezer()
        if placement is not None and placement.hierarchy.version == 1:
            freezer.thaw_tree(placement.directory)

    def frozen_above(self, *, undying: bool = False) -> str:
        """Return the directory of a frozen ancestor of the container's cgroup, or "".

        ``undying``: consider only v1 cgroups.  A killed process cannot exit while its v1 cgroup is
        frozen; on v2, it can.
        """
        from ociruntime.runtime.cgroups import freezer

        placement = self._freezer()
        if placement is None or (undying and placement.hierarchy.version != 1):
            return ""
        return freezer.frozen_above(placement.directory, placement.hierarchy.version)

    def remove(self, kill: bool = False) -> None:
        """Remove the directories that :meth:`create` has created, and all cgroups below them.

        ``kill``: call :meth:`kill` if the first attempt fails.  Raises HostError, with the
        remaining pids, if processes remain after 10 s.  The method can be called again after an
        error.
        """
        remove_all(self.placements, self.kill if kill else None)

    def hand_over(self, uid: int, gid: int = -1) -> None:
        """Delegate the v2 cgroup to the user ``uid`` by changing its owner.

        Does nothing on a host with v1 hierarchies.  ``gid`` is the new group; -1 keeps the present
        one.  Raises HostError if an owner cannot be changed.
        """
        if all(each.hierarchy.version == 2 for each in self.placements):
            for each in self.placements:
                hand_over(each.directory, uid, gid)

    def oom_killed(self) -> bool:
        """Return whether a process in the container's cgroup has been OOM-killed."""
        from ociruntime.runtime.cgroups.oom_kills import oom_kills

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
        """Return {controller: the container's cgroup directory}; the key "" stands for v2."""
        directories = {}
        for each in self.placements:
            for controller in each.hierarchy.controllers:
                directories[controller] = each.directory
            if each.hierarchy.version == 2:
                directories[""] = each.directory
        return directories

    def _enable(self, settings: list[Setting]) -> None:
        unified = self._v2()
        if unified is None or not unified.hierarchy.controllers:
            return
        refused = unified.enable_controllers()
        for setting in settings:
            if setting.version == 2 and setting.controller in refused:
                error = refused[setting.controller]
                raise ConfigError(
                    setting.where,
                    f'the cgroup controller "{setting.controller}" is not available:'
                    f" {error.message}",
                    error.hint,
                )
        if refused and unified.is_invalid():
            error = next(iter(refused.values()))
            raise ConfigError(
                self._where,
                f'cgroup "{unified.directory}" cannot take processes: {error.message}',
                error.hint,
            )

    def _device_rules(self, resources: Mapping[str, Any], where: str) -> DeviceRules:
        """Check the device rules of ``resources`` and return them.

        Raises ConfigError for a rule that is invalid, or that this host's cgroups cannot express.
        """
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
    """Move ``pid`` into the v2 cgroup of process ``beside``.

    ``directory`` is the directory of the container's cgroup, ``path`` its cgroup path.  Returns
    False if ``beside`` is not in a child of the container's cgroup, or ``pid`` cannot be moved.
    """
    try:
        # Not splitlines(): the container chooses the names of its child cgroups, which may contain
        # any character but a line feed.
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
        return "a cgroup that enables controllers for its children cannot have processes itself"
    if error.errno == errno.EACCES:
        return "an unprivileged user can move processes only within a cgroup delegated to them"
    if error.errno == errno.ENOSPC:
        return "the cgroup's cpuset is empty: set cpuset.cpus and cpuset.mems first"
    if error.errno == errno.ESRCH:
        return "the process has exited"
    if error.errno == errno.EOPNOTSUPP:
        return "the cgroup is a threaded cgroup, or below one"
    return ""


# Delegation of a v2 cgroup to the container's user (config-linux.md, cgroup ownership).
#
# runtime/plan/cgroup_mounts.py decides whether to delegate.  A v1 cgroup is never delegated: the
# owner of its directory could lift the limits.

DELEGATE = "/sys/kernel/cgroup/delegate"
# For kernels before 4.15, which do not list the files that may be delegated.
_FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")


def hand_over(directory: str, uid: int, gid: int, listing: str = DELEGATE) -> None:
    """Change the owner of a v2 cgroup's directory, and of the control files to delegate with it.

    ``listing`` is the path of the kernel's list of these control files.  Files that this cgroup
    lacks are skipped.  Raises HostError if an owner cannot be changed.
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
            raise failure(f'change the owner of "{path}" to {uid}:{gid}', error) from None
