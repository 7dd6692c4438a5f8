"""Update of the limits of an existing container: all of them, or none."""

from __future__ import annotations

from ociruntime.base.errors import ContainerError, RuntimeFailure
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.previous import previous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ociruntime.runtime.cgroups.group import Cgroup
    from ociruntime.runtime.cgroups.setting import Setting


class Update:
    """An update, checked on construction (ConfigError, ContainerError) and then written.

    Device rules are excluded: on v1, a list can only be replaced by way of an empty one.
    """

    def __init__(self, cgroup: Cgroup, resources: Mapping[str, Any], where: str) -> None:
        if resources and not cgroup.placements:
            raise ContainerError(
                "the container has no cgroup of its own, and so no limits",
                "it was created with --cgroup-manager disabled, or by a user without one",
            )
        self._cgroup = cgroup
        self._found = cgroup.settings(resources, where)
        self._before: list[Setting] = []  # in the order of putting back

    def write(self) -> None:
        """Write the limits; what a refusal leaves half done is undone.

        Raises ConfigError (a limit below the usage, where that is to be checked) before
        anything is written, and HostError.
        """
        directories = self._cgroup.directories()
        for setting in self._found:
            if setting.floor:
                control_files.check_floor(setting, directories[setting.controller])
        if not self._found:
            return
        for setting in self._found:
            found = previous(setting, directories[setting.controller])
            if found is not None:
                self._before.insert(0, found)
        try:
            self._cgroup.tell(self._found)
            control_files.apply(self._found, directories)
        except RuntimeFailure as failure:
            left = self.undo()
            if left:
                failure.message += f"; what could not be put back: {', '.join(left)}"
            raise

    def undo(self) -> list[str]:
        """Restore the previous values; return the kernel's errors for those that it refuses."""
        left = []
        back = self._before
        if back:
            try:
                self._cgroup.tell(back)
            except RuntimeFailure as failure:
                left.append(failure.message)
        for kind in {setting.coupled: None for setting in back}:
            group = [setting for setting in back if setting.coupled == kind]
            for settings in [group] if kind else [[setting] for setting in group]:
                try:
                    control_files.apply(settings, self._cgroup.directories())
                except RuntimeFailure as failure:
                    left.append(failure.message)
        return left
