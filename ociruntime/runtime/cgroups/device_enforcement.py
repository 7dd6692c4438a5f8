"""Enforcement of a device policy: by the v1 lists, or by an eBPF program on v2."""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups.control_files import failure, may_set_device_rules
from ociruntime.runtime.cgroups.device_policy import lines_v1, policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class DeviceRules:
    """A container's device rules: checked on construction, written by :meth:`install`.

    ``directory_v1`` is the container's directory in the devices hierarchy and
    ``directory_v2`` that in the unified one, each empty where the host has none.  ``directory``
    is the one that gets the rules of ``policy``.  The constructor raises ConfigError, ``install``
    HostError.
    """

    __slots__ = ("_lines", "_program", "directory", "policy")

    def __init__(
        self, entries: Sequence[dict[str, Any]], where: str, directory_v1: str, directory_v2: str
    ) -> None:
        self.policy = wanted = policy(entries, where)
        self.directory = directory_v1 or directory_v2
        self._lines: list[tuple[str, str, str]] = []
        self._program = b""
        if directory_v1:
            self._lines = lines_v1(wanted)
        elif directory_v2:
            from ociruntime.runtime.cgroups.device_program import assemble

            self._program = assemble(wanted)
        elif entries and may_set_device_rules():
            raise ConfigError(where, "the host has no device cgroup")

    def install(self) -> None:
        """Replace the cgroup's device rules."""
        if self._program:
            from ociruntime.runtime.cgroups.device_program import install

            install(self._program, self.directory)
        elif self._lines:
            _write_lists(self.directory, self._lines)


def _write_lists(directory: str, lines: list[tuple[str, str, str]]) -> None:
    lists: dict[str, int] = {}  # each is opened once: there are a dozen lines
    try:
        for file, line, where in lines:
            try:
                if file not in lists:
                    lists[file] = posix.open(
                        f"{directory}/{file}", posix.O_WRONLY | posix.O_CLOEXEC
                    )
                posix.write(lists[file], line.encode())
            except OSError as error:
                if error.errno == errno.EPERM and not may_set_device_rules():
                    return  # only root of the initial user namespace may write the lists
                raise _explain(directory, file, line, where, error) from None
    finally:
        for fd in lists.values():
            posix.close(fd)


def _explain(directory: str, file: str, line: str, where: str, error: OSError) -> HostError:
    hint = ""
    if error.errno == errno.EPERM:
        hint = "a cgroup cannot have a device that its parent does not have"
    elif error.errno == errno.EINVAL:
        hint = "the list of a cgroup with children cannot be replaced"
    prefix = f"{where}: " if where else ""
    return failure(f'{prefix}write "{line}" to {directory}/{file}', error, hint)
