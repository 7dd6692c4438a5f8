"""The host as probes see it; tests replace it to simulate any host."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil


class Host:
    """The real host, as this process sees it.  No method raises OSError."""

    def __init__(self, state_root: str, rootless: bool) -> None:
        self.state_root = state_root
        self.rootless = rootless  # not root of the initial user namespace
        self.uid = os.geteuid()

    def read(self, path: str) -> str:
        """Return the contents of a file, "" if it cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        return os.path.exists(path)

    def writable(self, path: str) -> bool:
        """Return whether this user may write to the path."""
        return os.access(path, os.W_OK, effective_ids=True)

    def program(self, name: str) -> str:
        """Return the path of a program, "" if it is not installed."""
        return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        """Return the errno of a system call with invalid arguments; 0 if it succeeded anyway."""
        library = ctypes.CDLL(None, use_errno=True)
        values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
        result = library.syscall(ctypes.c_long(number), *values)
        return ctypes.get_errno() if result < 0 else 0

    def has_call(self, number: int, *arguments: int | bytes | None) -> bool:
        """Return whether the kernel has the system call and no seccomp filter forbids it."""
        return self.call(number, *arguments) not in (errno.ENOSYS, errno.EPERM)

    def status(self, name: str) -> str:
        """Return a field of /proc/self/status."""
        for line in self.read("/proc/self/status").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
        return ""
