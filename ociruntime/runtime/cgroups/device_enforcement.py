"""Enforce a device policy: with devices.allow and devices.deny (v1) or an eBPF program (v2)."""

from __future__ import annotations

import errno
import posix
from collections.abc import Sequence
from typing import Any

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups.control_files import failure, may_set_device_rules
from ociruntime.runtime.cgroups.device_policy import lines_v1, policy


class DeviceRules:
    """A container's device rules: checked by the constructor, enforced by :meth:`install`.

    ``directory_v1`` is the container's cgroup directory in the v1 devices hierarchy,
    ``directory_v2`` in the unified hierarchy; "" if the host has no such hierarchy.  ``directory``
    is the first of them that is not "", and ``policy`` the DevicePolicy for the rules.  The
    constructor raises ConfigError for a rule that is invalid, or that the host's cgroups cannot
    express.
    """

    __slots__ = ("_lines", "_program", "directory", "policy")

    def __init__(
        self, entries: Sequence[dict[str, Any]], where: str, directory_v1: str, directory_v2: str
    ) -> None:
        self.policy = device_policy = policy(entries, where)
        self.directory = directory_v1 or directory_v2
        self._lines: list[tuple[str, str, str]] = []
        self._program = b""
        if directory_v1:
            self._lines = lines_v1(device_policy)
        elif directory_v2:
            from ociruntime.runtime.cgroups.device_program import assemble

            self._program = assemble(device_policy)
        elif entries and may_set_device_rules():
            raise ConfigError(
                where,
                "needs cgroup v2 or the devices controller of cgroup v1, but this host has neither",
            )

    def install(self) -> None:
        """Replace the cgroup's device rules with ``policy``.

        Raises HostError if the kernel refuses the rules.
        """
        if self._program:
            from ociruntime.runtime.cgroups.device_program import install

            install(self._program, self.directory)
        elif self._lines:
            _write_lists(self.directory, self._lines)


def _write_lists(directory: str, lines: list[tuple[str, str, str]]) -> None:
    lists: dict[str, int] = {}  # descriptors by file name; each list is opened once for all lines
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
        hint = "a cgroup cannot allow a device that its parent cgroup denies"
    elif error.errno == errno.EINVAL:
        hint = "the device list of a cgroup that has child cgroups cannot be replaced"
    prefix = f"{where}: " if where else ""
    return failure(f'{prefix}write "{line}" to "{directory}/{file}"', error, hint)
