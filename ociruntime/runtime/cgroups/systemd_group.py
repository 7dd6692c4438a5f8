"""A container's cgroup as a unit that systemd creates, changes and removes.

systemd creates the unit's directory in the unified hierarchy, in ``name=systemd``, and on v1 in
those of the controllers that it knows; the others are created here.  A setting for which systemd
has a property is written twice, by systemd and here (systemd_properties.py explains why).
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.group import Cgroup
from ociruntime.runtime.cgroups.layout import CGROUPS_PATH
from ociruntime.runtime.cgroups.placement import Placement
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
    from ociruntime.runtime.cgroups.layout import Layout
    from ociruntime.runtime.cgroups.setting import Setting
    from ociruntime.runtime.cgroups.systemd_bus import Refused, SystemdManager
    from ociruntime.runtime.cgroups.systemd_properties import Property

_COLLECTED_SINCE = 236  # the version that knows CollectMode=
_UNKNOWN = -1


class SystemdCgroup(Cgroup):
    """The cgroup of a systemd unit; ``user``: the unit belongs to the user's systemd instance.

    ``subgroup`` is the child cgroup that holds the container, empty if the unit's own cgroup
    does.
    """

    __slots__ = ("_asked", "_manager", "_name", "_slice", "subgroup", "user")

    def __init__(
        self, path: str, placements: list[Placement], unit: str, user: bool, subgroup: str
    ) -> None:
        super().__init__(path, placements, CGROUPS_PATH)
        self._name = unit
        self.user = user
        self.subgroup = subgroup
        self._slice = ""
        self._asked: dict[str, Property] = {}  # properties from annotations, by JSON path
        self._manager: SystemdManager | None = None  # from plan_unit() until it is made

    @classmethod
    def plan_unit(
        cls,
        layout: Layout,
        cgroups_path: str | None,
        container_id: str,
        annotations: Mapping[str, str],
        user: bool,
    ) -> Self:
        """Ask systemd where its units are; change nothing.  Raises ConfigError, HostError."""
        unit = unit_of(cgroups_path, container_id, user)
        below = subgroup(annotations)
        if below and not unit.is_scope:
            raise ConfigError(where(SUBGROUP), f"{unit.name} is a slice, which holds units only")
        asked = unit_properties(annotations)
        manager = _connect(user)
        path = manager.control_group + unit.path + (f"/{below}" if below else "")
        placements = [Placement(each, path) for each in layout.hierarchies]
        planned = cls(path, placements, unit.name, user, below)
        planned._slice = unit.slice
        planned._asked = asked
        planned._manager = manager
        return planned

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the cgroup of a record; pure."""
        path = record["path"]
        placements = [Placement.from_record(each, path) for each in record["placements"]]
        return cls(path, placements, record["unit"], record["user"], record["subgroup"])

    def record(self) -> dict[str, Any]:
        """Return the record of :class:`Cgroup` with the unit added."""
        for each in self.placements:
            if each.existing == _UNKNOWN:
                # Slices belong to systemd, including those that it creates for this unit.
                there = posix.access(self._unit_directory(each), posix.F_OK)
                ours = 0 if there else 2 if self.subgroup else 1
                each.existing = len(each.directories) - ours
        unit = {"unit": self._name, "user": self.user, "subgroup": self.subgroup}
        return {**super().record(), **unit}

    @property
    def unit(self) -> str:
        """Return the unit's name."""
        return self._name

    @property
    def born_inside(self) -> bool:
        """Return False: systemd makes a scope around an existing process."""
        return False

    def create(
        self,
        resources: Mapping[str, Any] | None,
        where: str = "linux.resources",
        rootless: bool = False,
    ) -> None:
        """Create the unit (a scope with the init) and the cgroups that systemd does not create.

        After an error, :meth:`remove` must still be called.  Raises ConfigError, HostError.
        """
        resources = resources or {}
        found = self.settings(resources, where)
        devices = self._device_rules(resources, where)
        try:
            self._start(found, devices)
            self._build(found, devices, rootless)
        finally:
            self._disconnect()
        self._precedent = resources

    def attach(
        self, pid: int, born_in_v2: bool = False, beside: int = 0, only_v2: bool = False
    ) -> None:
        """Move a process into the cgroup; without privileges, ask the user's systemd to do it."""
        inside = pid == self.first_pid and self._is_scope()
        try:
            super().attach(pid, born_in_v2 or inside, beside, only_v2)
        except HostError as error:
            if not self.user or error.errno not in (errno.EACCES, errno.EPERM):
                raise
            self._move(pid)

    def inside(self, placements: list[Placement], path: str) -> Cgroup:
        """Return the cgroup at ``path`` below the container's, for a process of ``exec``."""
        below = f"{self.subgroup}{path}".lstrip("/")
        return SystemdCgroup(self.path, placements, self._name, self.user, below)

    def tell(self, settings: Sequence[Setting]) -> None:
        """Set the unit's properties, too: systemd would otherwise overwrite the settings later."""
        from ociruntime.runtime.cgroups.systemd_bus import Refused

        manager = self._connected()
        try:
            if properties := limits(settings, manager.version):
                manager.set_properties(self._name, properties)
        except Refused as error:
            if blamed := _blamed(error, settings, manager.version):
                raise blamed from None
            raise _refusal(f"change the unit {self._name}", error) from None
        finally:
            self._disconnect()

    def remove(self, kill: bool = False) -> None:
        """Stop the unit, wait until it is gone, and remove cgroups that systemd does not manage."""
        ours = any(each.made() for each in self.placements)
        if ours and kill:
            self.kill()
        if ours and self._is_there():
            try:
                self._connected().stop(self._name)
            finally:
                self._disconnect()
        super().remove(kill)

    def _is_there(self) -> bool:
        """Check for the unit's file, to spare a connection: a scope ends with its last process."""
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
        """Close the connection, which would fill up with unread signals of all units."""
        if self._manager is not None:
            self._manager.close()
            self._manager = None

    def _start(self, found: list[Setting], devices: DeviceRules) -> None:
        """Start the unit; if a failed unit has the same name, reset that and retry."""
        from ociruntime.runtime.cgroups.systemd_bus import Refused

        manager = self._connected()
        properties = self._properties(found, devices, manager.version)
        try:
            try:
                manager.start_transient(self._name, properties)
            except Refused as error:
                if error.name != "UnitExists":
                    raise
                manager.reset_failed(self._name)
                manager.start_transient(self._name, properties)
        except Refused as error:
            raise self._explain(error, found, manager.version) from None

    def _properties(
        self, found: list[Setting], devices: DeviceRules, version: int
    ) -> list[Property]:
        """Return the unit's properties; those of annotations take precedence."""
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
        properties += limits(found, version)
        properties += device_properties(devices.policy, _device_groups())
        asked = self._asked.values()
        names = [name for name, _, _ in asked]
        return [*(each for each in properties if each[0] not in names), *asked]

    def _explain(self, error: Refused, found: list[Setting], version: int) -> Exception:
        """Return the error for the setting that systemd's message is about, if that can be
        determined."""
        if error.name == "UnitExists":
            for each in self.placements:
                each.existing = len(each.directories)  # another container's: not to be removed
            return ConfigError(
                CGROUPS_PATH,
                f"the unit {self._name} exists already",
                f"two containers cannot share a unit; systemctl status {self._name} shows it",
            )
        words = _words(error)
        for path, (name, _, _) in self._asked.items():
            if name in words:
                return ConfigError(path, f"systemd says: {error}")
        if blamed := _blamed(error, found, version):
            return blamed
        if error.name == "InvalidArgs" and len(self._asked) == 1:
            # A value of a wrong type is refused without the property's name.
            return ConfigError(next(iter(self._asked)), f"systemd says: {error}")
        hint = f"possibly it means {' or '.join(self._asked)}" if self._asked else ""
        return _refusal(f"start the unit {self._name}", error, hint)

    def _place(self, placement: Placement) -> None:
        """Create the subgroup, and directories in v1 hierarchies that systemd does not manage."""
        for directory in placement.directories:
            try:
                posix.mkdir(directory, 0o755)
            except FileExistsError:
                continue
            except OSError as error:
                raise control_files.failure(f"create cgroup {directory}", error) from None

    def _make(self, found: list[Setting], rootless: bool) -> None:
        super()._make(found, rootless)
        unified = self._v2()
        if unified is None or not self.subgroup:
            return
        # First of all: a cgroup with a process cannot enable controllers for its children.
        try:
            control_files.write(f"{unified.directory}/cgroup.procs", str(self.first_pid))
        except OSError as error:
            if not self.user or error.errno not in (errno.EACCES, errno.EPERM):
                action = f"move process {self.first_pid} into cgroup {unified.directory}"
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
    """Return the error of the last setting whose property systemd's message names."""
    words = _words(error)
    for setting in reversed(settings):
        if any(name in words for name, _, _ in limits([setting], version)):
            return ConfigError(setting.where, f"systemd says: {error}")
    return None


def _refusal(action: str, error: Refused, hint: str = "") -> HostError:
    return HostError(action, OSError(0, f"systemd says: {error}"), hint)


def _connect(user: bool) -> SystemdManager:
    try:
        from ociruntime.runtime.cgroups.systemd_bus import SystemdManager
    except ModuleNotFoundError as error:
        missing = OSError(0, f"the Python package {error.name} is not installed")
        raise HostError("call systemd", missing, f"pip install {error.name}") from None
    return SystemdManager(user)


def _device_groups() -> str:
    try:
        return control_files.read("/proc/devices")
    except OSError:
        return ""
