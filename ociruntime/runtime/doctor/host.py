"""The doctor's eyes: all that a probe may look at, so that a test can show it any host."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil


class Host:
    """This machine, as this process sees it.  No method raises OSError."""

    def __init__(self, state_root: str, rootless: bool) -> None:
        self.state_root = state_root
        self.rootless = rootless  # without the host's root: also root of a user namespace
        self.uid = os.geteuid()

    def read(self, path: str) -> str:
        """The file's text, empty if it cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def exists(self, path: str) -> bool:
        """Whether the path leads anywhere."""
        return os.path.exists(path)

    def writable(self, path: str) -> bool:
        """Whether this user may write there."""
        return os.access(path, os.W_OK, effective_ids=True)

    def program(self, name: str) -> str:
        """Its path, empty if it is not installed."""
        return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        """The errno of a system call whose arguments cannot succeed; 0 if it did all the same."""
        library = ctypes.CDLL(None, use_errno=True)
        values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
        result = library.syscall(ctypes.c_long(number), *values)
        return ctypes.get_errno() if result < 0 else 0

    def has_call(self, number: int, *arguments: int | bytes | None) -> bool:
        """Whether the kernel has the call, and no filter around us forbids it."""
        return self.call(number, *arguments) not in (errno.ENOSYS, errno.EPERM)

    def status(self, name: str) -> str:
        """A line of /proc/self/status."""
        for line in self.read("/proc/self/status").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
        return ""
