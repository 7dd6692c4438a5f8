"""Write cpio archives in the ``newc`` format, cpio(5), for the kernel's initramfs."""

from __future__ import annotations

import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MAGIC = b"070701"
_END = "TRAILER!!!"
_ALIGNMENT = 4


def archive(files: Mapping[str, bytes], programs: frozenset[str] = frozenset()) -> bytes:
    """Return an archive of regular files, by relative path; parent directories are added.

    ``programs`` become executable.  /dev/console is added for process 1.
    """
    parts: list[bytes] = []
    directories: set[str] = set()

    def add(name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        parts.append(_entry(len(parts) + 1, name, mode, data, device))

    def add_directories(name: str) -> None:
        parent = name.rpartition("/")[0]
        if parent and parent not in directories:
            add_directories(parent)
            directories.add(parent)
            add(parent, stat.S_IFDIR | 0o755)

    add_directories("dev/console")
    add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    for name, data in files.items():
        add_directories(name)
        add(name, stat.S_IFREG | (0o755 if name in programs else 0o644), data)
    parts.append(_entry(0, _END, 0, b"", (0, 0)))
    return b"".join(parts)


def _entry(number: int, name: str, mode: int, data: bytes, device: tuple[int, int]) -> bytes:
    path = name.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device of the file (2), rdev (2), name size,
    # checksum
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
    head = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return _aligned(head + path) + _aligned(data)


def _aligned(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)
