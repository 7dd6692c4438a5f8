"""Change the limits in a container's control files: either all of the limits, or none."""

from __future__ import annotations

import posix
from collections.abc import Mapping
from typing import Any

from ociruntime.base.errors import ContainerError, RuntimeFailure
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.control_files import OOM_CONTROL, read
from ociruntime.runtime.cgroups.shared_settings import Setting


class Update:
    """A change to a container's limits: ``write`` applies all or none, ``undo`` reverts them.

    The constructor raises ConfigError for invalid ``resources``, and ContainerError if the
    container has no cgroup of its own.  Device rules cannot be changed: v1 device lists would have
    to be emptied first, and for a moment the container could not use any device.
    """

    def __init__(self, cgroup: Cgroup, resources: Mapping[str, Any], where: str) -> None:
        if resources and not cgroup.placements:
            raise ContainerError(
                "change the container's limits: it has no cgroup of its own",
                "create the container again in a delegated cgroup,"
                " without --cgroup-manager=disabled",
            )
        self._cgroup = cgroup
        self._found = cgroup.settings(resources, where)
        self._before: list[Setting] = []  # previous values, in the order in which to restore them

    def write(self) -> None:
        """Write all limits; if the kernel refuses one, restore all previous values.

        If checkBeforeUpdate is set and a limit is below the usage, raises ConfigError before it
        writes anything.  Also raises ConfigError for a limit that this host does not support, and
        HostError for a limit that cannot be written for another reason.
        """
        directories = self._cgroup.directories()
        for setting in self._found:
            if setting.floor:
                control_files.check_floor(setting, directories[setting.controller])
        if not self._found:
            return
        for setting in self._found:
            previous_value = previous(setting, directories[setting.controller])
            if previous_value is not None:
                self._before.insert(0, previous_value)
        try:
            self._cgroup.set_unit_properties(self._found)
            control_files.apply(self._found, directories)
        except RuntimeFailure as failure:
            errors = self.undo()
            if errors:
                failure.message += f"; not restored: {', '.join(errors)}"
            raise

    def undo(self) -> list[str]:
        """Restore the previous limits; return a message for each that cannot be restored."""
        errors = []
        previous_values = self._before
        if previous_values:
            try:
                self._cgroup.set_unit_properties(previous_values)
            except RuntimeFailure as failure:
                errors.append(failure.message)
        for kind in {setting.coupled: None for setting in previous_values}:
            group = [setting for setting in previous_values if setting.coupled == kind]
            for settings in [group] if kind else [[setting] for setting in group]:
                try:
                    control_files.apply(settings, self._cgroup.directories())
                except RuntimeFailure as failure:
                    errors.append(failure.message)
        return errors


# The previous value of a control file, as a setting that restores it.
#
# Most files accept the text that was read from them.  A per-device file lists only the devices with
# a limit; to restore a device without a limit, its limit must be reset.

_NO_LIMIT = "{} rbps=max wbps=max riops=max wiops=max"
# (prefix of the file's name, line that resets a device); the first matching prefix counts.
_BY_DEVICE = (
    ("io.max", _NO_LIMIT),
    ("io.latency", "{} target=max"),
    ("io.weight", "{} default"),
    ("io.bfq.weight", "{} default"),
    ("blkio.weight_device", "{} 0"),
    ("blkio.leaf_weight_device", "{} 0"),
    ("blkio.bfq.weight_device", "{} default"),
    ("blkio.throttle.", "{} 0"),
    ("rdma.max", "{} hca_handle=max hca_object=max"),
)


def previous(setting: Setting, directory: str) -> Setting | None:
    """Return a setting that restores the value which ``setting`` is about to replace.

    Reads that value from the control file.  Returns None if the file is missing or unreadable.
    """
    for file, value in setting.files:
        path = f"{directory}/{file}"
        if not posix.access(path, posix.F_OK):
            continue
        try:
            content = read(path)
        except OSError:
            return None
        files = ((file, restoring(file, content, value)),)
        controller, where = setting.controller, setting.where
        return Setting(setting.version, controller, files, where, setting.coupled, optional=True)
    return None


def restoring(file: str, content: str, value: str) -> str:
    """Return the text to write to ``file`` in order to undo a write of ``value``.

    ``content`` is the file's content before that write.
    """
    if file == OOM_CONTROL:
        return content.split()[1]  # of "oom_kill_disable 0"
    for beginning, reset_line in _BY_DEVICE:
        if file.startswith(beginning):
            return _by_device(content, value, reset_line)
    return content.strip()


def _by_device(content: str, value: str, reset_line: str) -> str:
    present = {line.split()[0]: line for line in content.splitlines() if line.strip()}
    lines = []
    for line in value.splitlines():
        # A weight without a device number is the default for devices that are not listed.
        device = line.split()[0] if " " in line.strip() else "default"
        lines.append(present.get(device) or reset_line.format(device))
    return "\n".join(lines)
