"""The systemd cgroup driver: a container's cgroup is a unit that systemd creates and removes.

systemd creates the unit's directory in the unified hierarchy, in ``name=systemd``, and in the v1
hierarchies whose controllers it knows. This module creates the remaining directories. A setting for
which systemd has a property is written twice, by systemd and by this module (systemd_properties.py
explains why).
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement
from ociruntime.runtime.cgroups.hierarchies import CGROUPS_PATH
from ociruntime.runtime.cgroups.systemd_properties import (
    device_properties,
    limits,
    subgroup,
    unit_properties,
)
from ociruntime.runtime.cgroups.systemd_unit import PREFIX, SCOPE, unit_of
from ociruntime.runtime.spec.annotations import SUBGROUP, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from ociruntime.runtime.cgroups.device_enforcement import DeviceRules
    from ociruntime.runtime.cgroups.hierarchies import Layout
    from ociruntime.runtime.cgroups.shared_settings import Setting
    from ociruntime.runtime.cgroups.systemd_bus import Refused, SystemdManager
    from ociruntime.runtime.cgroups.systemd_properties import Property

_COLLECTED_SINCE = 236  # the first version of systemd with CollectMode=
_UNKNOWN = -1


class SystemdCgroup(Cgroup):
    """The cgroup of a systemd unit; ``user`` means that the user's systemd instance runs the unit.

    ``subgroup`` is the name of the unit's child cgroup that contains the container; "" if the
    container is in the unit's own cgroup.
    """

    __slots__ = ("_annotated", "_manager", "_name", "_slice", "subgroup", "user")

    def __init__(
        self, path: str, placements: list[Placement], unit: str, user: bool, subgroup: str
    ) -> None:
        super().__init__(path, placements, CGROUPS_PATH)
        self._name = unit
        self.user = user
        self.subgroup = subgroup
        self._slice = ""
        self._annotated: dict[str, Property] = {}  # properties from annotations, by JSON path
        self._manager: SystemdManager | None = None  # the connection, from plan_unit() to create()

    @classmethod
    def plan_unit(
        cls,
        layout: Layout,
        cgroups_path: str | None,
        container_id: str,
        annotations: Mapping[str, str],
        user: bool,
    ) -> Self:
        """Return the cgroup of a new container's unit, without creating it.

        Asks systemd for the cgroup path that contains its units.  ``user``: the user's systemd runs
        the unit.  Raises ConfigError for an invalid ``cgroups_path`` or annotation, HostError if
        systemd cannot be reached.
        """
        unit = unit_of(cgroups_path, container_id, user)
        below = subgroup(annotations)
        if below and not unit.is_scope:
            raise ConfigError(
                where(SUBGROUP),
                f'"{unit.name}" is a slice, which cannot have a subgroup',
                f"remove the annotation, or name a scope in {CGROUPS_PATH}",
            )
        properties = unit_properties(annotations)
        manager = _connect(user)
        path = manager.control_group + unit.path + (f"/{below}" if below else "")
        placements = [Placement(each, path) for each in layout.hierarchies]
        planned = cls(path, placements, unit.name, user, below)
        planned._slice = unit.slice
        planned._annotated = properties
        planned._manager = manager
        return planned

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Recreate the cgroup from the JSON object that :meth:`record` has returned."""
        path = record["path"]
        placements = [Placement.from_record(each, path) for each in record["placements"]]
        return cls(path, placements, record["unit"], record["user"], record["subgroup"])

    def record(self) -> dict[str, Any]:
        """Return the JSON object of ``Cgroup.record``, with the members unit, user and subgroup."""
        for each in self.placements:
            if each.existing == _UNKNOWN:
                # Slices belong to systemd, including those that it creates for this unit.
                exists = posix.access(self._unit_directory(each), posix.F_OK)
                owned = 0 if exists else 2 if self.subgroup else 1
                each.existing = len(each.directories) - owned
        unit = {"unit": self._name, "user": self.user, "subgroup": self.subgroup}
        return {**super().record(), **unit}

    @property
    def unit(self) -> str:
        """The name of the container's systemd unit."""
        return self._name

    @property
    def born_inside(self) -> bool:
        """False: the cgroup of a scope does not exist before the scope has a process."""
        return False

    def create(
        self,
        resources: Mapping[str, Any] | None,
        where: str = "linux.resources",
        rootless: bool = False,
    ) -> None:
        """Create the unit (a slice, or a scope around the init) and the remaining cgroups.

        The remaining cgroups are the subgroup, and those in hierarchies that systemd does not
        manage.  After an error, the caller must call :meth:`remove`.  Raises ConfigError for a
        setting that cannot be applied, HostError if the unit or a cgroup cannot be created.
        """
        resources = resources or {}
        settings = self.settings(resources, where)
        devices = self._device_rules(resources, where)
        try:
            self._start(settings, devices)
            self._build(settings, devices, rootless)
        finally:
            self._disconnect()
        self._precedent = resources

    def attach(
        self, pid: int, born_in_v2: bool = False, beside: int = 0, only_v2: bool = False
    ) -> None:
        """Move process ``pid`` into the cgroup, as ``Cgroup.attach`` does.

        If the user's systemd runs the unit, and this user has no permission to move the process,
        asks systemd to move it.
        """
        inside = pid == self.first_pid and self._is_scope()
        try:
            super().attach(pid, born_in_v2 or inside, beside, only_v2)
        except HostError as error:
            if not self.user or error.errno not in (errno.EACCES, errno.EPERM):
                raise
            self._move(pid)

    def inside(self, placements: list[Placement], path: str) -> Cgroup:
        """Return the cgroup at ``path`` below the container's cgroup, for a process of ``exec``.

        ``placements`` describes the directory of the returned cgroup in each hierarchy.
        """
        below = f"{self.subgroup}{path}".lstrip("/")
        return SystemdCgroup(self.path, placements, self._name, self.user, below)

    def set_unit_properties(self, settings: Sequence[Setting]) -> None:
        """Set the unit's properties for ``settings``; call it before writing the control files.

        Without the properties, systemd would later overwrite the control files.  Raises ConfigError
        if systemd refuses the property of a setting, HostError for any other failure.
        """
        from ociruntime.runtime.cgroups.systemd_bus import Refused

        manager = self._connected()
        try:
            if properties := limits(settings, manager.version):
                manager.set_properties(self._name, properties)
        except Refused as error:
            if blamed := _blamed(error, settings, manager.version):
                raise blamed from None
            raise _refusal(f'change the unit "{self._name}"', error) from None
        finally:
            self._disconnect()

    def remove(self, kill: bool = False) -> None:
        """Stop the unit, wait until it is inactive, and remove the cgroups that systemd leaves.

        systemd leaves those in the hierarchies that it does not manage.  ``kill``: kill the
        processes first.  Raises HostError if the unit cannot be stopped or a cgroup cannot be
        removed.
        """
        owned = any(each.made() for each in self.placements)
        if owned and kill:
            self.kill()
        if owned and self._is_there():
            try:
                self._connected().stop(self._name)
            finally:
                self._disconnect()
        super().remove(kill)

    def _is_there(self) -> bool:
        """Return whether the unit's file or one of its cgroups still exists.

        systemd usually removes a scope after its last process has exited.  If nothing is left,
        :meth:`remove` needs no D-Bus connection.
        """
        from ociruntime.runtime.cgroups.systemd_bus import runtime_directory

        known = f"{runtime_directory(self.user)}/transient/{self._name}"
        there = [known, *(self._unit_directory(each) for each in self.placements)]
        return any(posix.access(path, posix.F_OK) for path in there)

    def _is_scope(self) -> bool:
        return self._name.endswith(SCOPE)

    def _unit_directory(self, placement: Placement) -> str:
        return placement.directories[-2 if self.subgroup else -1]

    def _connected(self) -> SystemdManager:
        if self._manager is None:
            self._manager = _connect(self.user)
        return self._manager

    def _disconnect(self) -> None:
        """Close the D-Bus connection, which would otherwise fill up with unread signals."""
        if self._manager is not None:
            self._manager.close()
            self._manager = None

    def _start(self, settings: list[Setting], devices: DeviceRules) -> None:
        """Start the unit; if a failed unit has the same name, reset the failed unit and try again.

        Raises ConfigError if systemd refuses the property of a setting or annotation, HostError for
        any other failure.
        """
        from ociruntime.runtime.cgroups.systemd_bus import Refused

        manager = self._connected()
        properties = self._properties(settings, devices, manager.version)
        try:
            try:
                manager.start_transient(self._name, properties)
            except Refused as error:
                if error.name != "UnitExists":
                    raise
                manager.reset_failed(self._name)
                manager.start_transient(self._name, properties)
        except Refused as error:
            raise self._explain(error, settings, manager.version) from None

    def _properties(
        self, settings: list[Setting], devices: DeviceRules, version: int
    ) -> list[Property]:
        """Return all properties of the new unit, including those for ``settings`` and ``devices``.

        Properties from annotations override the others.  ``version`` is systemd's version.
        """
        properties: list[Property] = [
            ("Description", "s", f"{PREFIX}: {self._name}"),
            ("DefaultDependencies", "b", False),
        ]
        if self._is_scope():
            properties += [
                ("Slice", "s", self._slice),
                ("Delegate", "b", True),
                ("PIDs", "au", [self.first_pid]),
            ]
            if version >= _COLLECTED_SINCE:
                # A failed unit is reset as well, so that its name can be reused.
                properties.append(("CollectMode", "s", "inactive-or-failed"))
        else:
            properties.append(("Wants", "as", [self._slice]))
        block = "IO" if self._of("blkio") is None else "BlockIO"
        for kind in ("CPU", "Memory", block, "Tasks"):
            properties.append((f"{kind}Accounting", "b", True))
        properties += limits(settings, version)
        properties += device_properties(devices.policy, _device_groups())
        annotated = self._annotated.values()
        names = [name for name, _, _ in annotated]
        return [*(each for each in properties if each[0] not in names), *annotated]

    def _explain(self, error: Refused, settings: list[Setting], version: int) -> Exception:
        """Return the exception to raise after systemd has refused to start the unit.

        It is a ConfigError if the unit exists, or if the error is about the property of a setting
        or annotation; else a HostError.
        """
        if error.name == "UnitExists":
            for each in self.placements:
                each.existing = len(each.directories)  # another container's: not to be removed
            return ConfigError(
                CGROUPS_PATH,
                f'the systemd unit "{self._name}" already exists',
                f"two containers cannot share a unit; see systemctl status {self._name}",
            )
        words = _words(error)
        for path, (name, _, _) in self._annotated.items():
            if name in words:
                return ConfigError(path, f"systemd refused the property: {error}")
        if blamed := _blamed(error, settings, version):
            return blamed
        if error.name == "InvalidArgs" and len(self._annotated) == 1:
            # If a value has the wrong type, systemd's error does not name the property.
            return ConfigError(
                next(iter(self._annotated)), f"systemd refused the property: {error}"
            )
        hint = f"check {' and '.join(self._annotated)}" if self._annotated else ""
        return _refusal(f'start the unit "{self._name}"', error, hint)

    def _place(self, placement: Placement) -> None:
        """Create a cgroup that systemd does not create, and its missing parents.

        Such a cgroup is the subgroup, or is in a v1 hierarchy that systemd does not manage.  Raises
        HostError if a directory cannot be created.
        """
        for directory in placement.directories:
            try:
                posix.mkdir(directory, 0o755)
            except FileExistsError:
                continue
            except OSError as error:
                raise control_files.failure(f'create cgroup "{directory}"', error) from None

    def _make(self, settings: list[Setting], rootless: bool) -> None:
        super()._make(settings, rootless)
        unified = self._v2()
        if unified is None or not self.subgroup:
            return
        # Move the process first: a cgroup with processes cannot enable controllers for children.
        try:
            control_files.write(f"{unified.directory}/cgroup.procs", str(self.first_pid))
        except OSError as error:
            if not self.user or error.errno not in (errno.EACCES, errno.EPERM):
                action = f'move process {self.first_pid} into cgroup "{unified.directory}"'
                raise control_files.failure(action, error) from None
            self._move(self.first_pid)

    def _move(self, pid: int) -> None:
        try:
            self._connected().move(self._name, f"/{self.subgroup}", pid)
        finally:
            self._disconnect()


def _words(error: Refused) -> list[str]:
    return str(error).replace("=", " ").replace(",", " ").split()


def _blamed(error: Refused, settings: Sequence[Setting], version: int) -> ConfigError | None:
    """Return a ConfigError for the setting that systemd's error is about; None if unknown.

    If the error mentions properties of several settings, the last of these settings is chosen.
    """
    words = _words(error)
    for setting in reversed(settings):
        if any(name in words for name, _, _ in limits([setting], version)):
            return ConfigError(setting.where, f"systemd refused the property: {error}")
    return None


def _refusal(action: str, error: Refused, hint: str = "") -> HostError:
    return HostError(action, OSError(0, f"systemd refused: {error}"), hint)


def _connect(user: bool) -> SystemdManager:
    try:
        from ociruntime.runtime.cgroups.systemd_bus import SystemdManager
    except ModuleNotFoundError as error:
        missing = OSError(0, f"the Python package {error.name} is not installed")
        hint = f"pip install {error.name}, or leave out --systemd-cgroup"
        raise HostError("connect to systemd over D-Bus", missing, hint) from None
    return SystemdManager(user)


def _device_groups() -> str:
    try:
        return control_files.read("/proc/devices")
    except OSError:
        return ""
