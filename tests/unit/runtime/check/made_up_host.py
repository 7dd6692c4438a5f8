"""A fake host for the probes and checks of `ociruntime check`."""

from __future__ import annotations

import errno

from ociruntime.base.linux import NAMESPACE_FILES
from ociruntime.runtime.check.finding import Host

ALL_FILES = (*(f"/proc/self/ns/{file}" for file in NAMESPACE_FILES.values()), "/")


class MadeUp(Host):
    """A host with the given files, by path.

    ``refusal`` is the errno of every system call, ``writes`` are the writable paths, and ``absent``
    the files of ``ALL_FILES`` that this host lacks.
    """

    def __init__(
        self,
        files: dict[str, str],
        *,
        rootless: bool = False,
        uid: int = 0,
        refusal: int = errno.EINVAL,
        writes: tuple[str, ...] = (),
        absent: tuple[str, ...] = (),
    ) -> None:
        self.state_root = "/run/ociruntime"
        self.rootless = rootless
        self.uid = uid
        self.files = files
        self.refusal = refusal
        self.writes = writes
        self.absent = absent

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def exists(self, path: str) -> bool:
        return path in self.files or (path in ALL_FILES and path not in self.absent)

    def writable(self, path: str) -> bool:
        return path in self.writes

    def program(self, name: str) -> str:
        return self.files.get(name, "")

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        return self.refusal
