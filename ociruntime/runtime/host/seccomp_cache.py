"""Cache compiled seccomp filters from one `create` to the next.

Most containers of an engine have the same profile, and libseccomp takes many milliseconds to
compile it.  So each filter is kept in a file in the directory ``.seccomp`` of the state root.  The
parts of such a file are:

    magic, CRC-32 of all that follows, sizes of the four parts, filter flags
    key        the members of the profile that affect the filter, the kernel, the machine
    makers     the files that compiled the filter (libseccomp, its binding, our modules), with
               their stat(2): lines "DEVICE INODE SIZE MTIME PATH"
    calls      the names of the system calls that the filter allows (seccomp_verdicts.py)
    filter     the ``struct sock_filter`` array

A file's name is only a hint: the whole key is compared, so no profile can be crafted to get the
filter of another profile.

A cached filter confines containers, so it must be trustworthy.  It is used only if the directory
and the file belong to our own user, no other user can access them, and they are not links.  Only
that user and root can write there, and both can already replace the runtime and every container's
state.  The state root is never mounted in a container.  Entries that are damaged, owned by another
user or written by another version are ignored, and failing to write the cache is not an error.
"""

from __future__ import annotations

import marshal
import posix
from _struct import Struct
from binascii import crc32

from ociruntime.base.files import remove_file, replace_file
from ociruntime.base.linux import S_IFDIR, S_IFMT
from ociruntime.runtime.spec.config_types import Seccomp

LIMIT = 64  # files; an engine has one profile, or one for each set of capabilities
LARGEST = 1 << 20  # bytes of a file
S_IFREG = 0o100000
OTHERS = 0o077

MAGIC = b"SECCOMP2"
HEAD = Struct("=8sIIIIII")
CHECKED = 12  # offset of the data that the CRC covers

# listenerPath and listenerMetadata, which only the agent needs, do not affect the filter.
DECISIVE = ("defaultAction", "defaultErrnoRet", "architectures", "flags", "syscalls")


def cached_filter(profile: Seccomp, directory: str) -> tuple[bytes, int, frozenset[str]]:
    """Return (filter, flags, allowed calls) for a profile, from the cache if possible.

    ``directory`` is the directory of the cache.  If the cache has no entry for the profile, calls
    ``seccomp.compile_filter`` and ``seccomp_verdicts.allowed_calls``, and tries to store their
    results.  Raises ConfigError if the profile is invalid or not supported.
    """
    members = [profile.get(name) for name in DECISIVE]
    # marshal version 2 has no references, so that equal values give equal bytes.
    key = marshal.dumps([members, *posix.uname()[2:]], 2)
    path = f"{directory}/{crc32(key):08x}"
    try:
        cached = _find(directory, path, key)
    except OSError:
        cached = None
    if cached is None:
        from ociruntime.runtime.host.seccomp import compile_filter
        from ociruntime.runtime.host.seccomp_verdicts import allowed_calls

        program, flags = compile_filter(profile)
        cached = program, flags, allowed_calls(program)
        try:
            _store(directory, path, key, *cached)
        except OSError:
            pass
    return cached


def _find(directory: str, path: str, key: bytes) -> tuple[bytes, int, frozenset[str]] | None:
    """Return (filter, flags, allowed calls) of the cache entry ``path``; None if it is not valid.

    Raises OSError if the entry does not exist or cannot be read.
    """
    if not _is_private(posix.lstat(directory), S_IFDIR):
        return None
    data = _read_private(path)
    if len(data) < HEAD.size:
        return None
    magic, check, key_size, makers_size, calls_size, filter_size, flags = HEAD.unpack_from(data)
    makers_at = HEAD.size + key_size
    calls_at = makers_at + makers_size
    filter_at = calls_at + calls_size
    if (
        magic != MAGIC
        or len(data) != filter_at + filter_size
        or crc32(data[CHECKED:]) != check
        or data[HEAD.size : makers_at] != key
    ):
        return None
    for line in data[makers_at:calls_at].splitlines():
        if _identity(line.split(b" ", 4)[4]) != line:
            return None
    return data[filter_at:], flags, frozenset(data[calls_at:filter_at].decode().split())


def _store(
    directory: str, path: str, key: bytes, program: bytes, flags: int, allowed: frozenset[str]
) -> None:
    """Write a cache entry, unless it is too large.  Raises OSError if it cannot be written."""
    makers = b"\n".join([_identity(maker) for maker in _makers()])
    calls = " ".join(sorted(allowed)).encode()
    sizes = Struct("=IIIII").pack(len(key), len(makers), len(calls), len(program), flags)
    body = b"".join([sizes, key, makers, calls, program])
    if CHECKED + len(body) > LARGEST:
        return
    try:
        posix.mkdir(directory, 0o700)
    except FileExistsError:
        if not _is_private(posix.lstat(directory), S_IFDIR):
            return
    _evict(directory)
    replace_file(path, MAGIC + crc32(body).to_bytes(4, "little") + body)


def _evict(directory: str) -> None:
    """If the cache is full, remove its oldest files, including unfinished ones of killed writers.

    Raises OSError if a file cannot be removed.
    """
    paths = [f"{directory}/{name}" for name in posix.listdir(directory)]
    if len(paths) < LIMIT:
        return
    ages = sorted((posix.lstat(path).st_mtime_ns, path) for path in paths)
    for _, path in ages[: len(paths) - LIMIT + 1]:
        remove_file(path)


def _makers() -> list[bytes]:
    """Return the paths of the libraries and modules that compile filters.

    Raises OSError if /proc/self/maps cannot be read.
    """
    from ociruntime.runtime.host import seccomp, seccomp_verdicts

    libraries = {
        line.split(None, 5)[5]
        for line in _mapped_files().splitlines()
        if b"seccomp" in line.rpartition(b"/")[2]
    }
    modules = {str(module.__file__).encode() for module in (seccomp, seccomp_verdicts)}
    return sorted(libraries | modules)


def _mapped_files() -> bytes:
    # Read until end of file: the kernel returns at most a page at a time.
    fd = posix.open("/proc/self/maps", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: posix.read(fd, 1 << 16), b""))
    finally:
        posix.close(fd)


def _identity(path: bytes) -> bytes:
    """Return the line ``DEVICE INODE SIZE MTIME PATH`` for a file.

    Raises OSError if stat(2) fails.
    """
    file = posix.stat(path)
    return b"%d %d %d %d %s" % (
        file.st_dev,
        file.st_ino,
        file.st_size,
        file.st_mtime_ns,
        path,
    )


def _read_private(path: str) -> bytes:
    """Return the content of a file; b"" if it is too large, or not private and regular.

    A private file belongs to this user, and other users have no access to it.  Raises
    OSError if the file cannot be opened or read.
    """
    # O_NONBLOCK: opening a FIFO must not wait for a writer.
    flags = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
    fd = posix.open(path, flags)
    try:
        node = posix.fstat(fd)
        if not _is_private(node, S_IFREG) or node.st_size > LARGEST:
            return b""
        return posix.read(fd, LARGEST)
    finally:
        posix.close(fd)


def _is_private(node: posix.stat_result, kind: int) -> bool:
    return (
        node.st_mode & S_IFMT == kind
        and node.st_uid == posix.geteuid()
        and not node.st_mode & OTHERS
    )
