"""A FUSE filesystem that shows a directory, then falls silent, like a network disk without server.

``python -m tests.faults.silent_filesystem TARGET SOURCE [deaf]`` mounts it at TARGET.  After
SIGUSR1 it reads requests without answering them; with ``deaf`` it does not even read them.  Nothing
is cached, so that each access needs an answer.  When the process exits, the kernel answers every
request with ENOTCONN.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import struct
import sys
from collections.abc import Callable

from tests.support import isolation

HEADER = struct.Struct("=IIQQIIIHH")  # length, opcode, unique, node, uid, gid, pid ...
REPLY = struct.Struct("=IiQ")
ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
ENTRY_HEAD = struct.Struct("=QQQQII")
ATTRIBUTES_HEAD = struct.Struct("=QII")
OPENED = struct.Struct("=QII")
INIT_REPLY = struct.Struct("=IIIIHHIIHHI28x")
DIRECTORY_ENTRY = struct.Struct("=QQII")
STATISTICS = struct.Struct("=QQQQQIIII24x")

SPACE = STATISTICS.pack(1 << 20, 1 << 19, 1 << 19, 9999, 999, 4096, 255, 4096, 0)
NO_REPLY = {2, 36, 42}  # FORGET, INTERRUPT, BATCH_FORGET
LARGEST = 1 << 17
ROOT = 1


def _text(data: bytes) -> str:
    return os.fsdecode(data.split(b"\0", 1)[0])


def _pair(data: bytes) -> tuple[str, str]:
    first, second = data.split(b"\0")[:2]
    return os.fsdecode(first), os.fsdecode(second)


class Server:
    """Answers requests from the files below ``source``."""

    def __init__(self, fd: int, source: str) -> None:
        self._fd = fd
        self._paths = {ROOT: source}
        self._nodes: dict[str, int] = {source: ROOT}
        self._answers: dict[int, Callable[[int, bytes], bytes]] = {
            1: self._lookup,
            3: self._getattr,
            4: self._setattr,
            5: lambda node, _: os.fsencode(os.readlink(self._paths[node])),
            8: self._mknod,
            9: self._mkdir,
            10: self._unlink,
            11: self._rmdir,
            12: lambda node, data: self._rename(node, data, 8),
            14: self._open,
            15: self._read,
            16: self._write,
            17: lambda node, data: SPACE,
            18: self._release,
            20: lambda node, data: b"",
            26: self._init,
            27: lambda node, data: OPENED.pack(0, 0, 0),
            28: self._readdir,
            29: lambda node, data: b"",
            35: self._create,
            45: lambda node, data: self._rename(node, data, 16),
        }

    def serve_one(self) -> None:
        """Answer the next request."""
        request = os.read(self._fd, LARGEST + 4096)
        _, opcode, unique, node, *_ = HEADER.unpack_from(request)
        if opcode in NO_REPLY:
            return
        body, error = b"", 0
        try:
            answer = self._answers.get(opcode)
            if answer is None:
                raise OSError(errno.ENOSYS, "")
            body = answer(node, request[HEADER.size :])
        except OSError as failure:
            error = failure.errno or errno.EIO
        os.write(self._fd, REPLY.pack(REPLY.size + len(body), -error, unique) + body)

    def _unlink(self, node: int, data: bytes) -> bytes:
        os.unlink(self._below(node, data))
        return b""

    def _rmdir(self, node: int, data: bytes) -> bytes:
        os.rmdir(self._below(node, data))
        return b""

    def _below(self, node: int, name: bytes) -> str:
        return f"{self._paths[node]}/{_text(name)}"

    def _node(self, path: str) -> int:
        node = self._nodes.setdefault(path, len(self._nodes) + ROOT)
        self._paths[node] = path
        return node

    def _attributes(self, path: str) -> bytes:
        about = os.lstat(path)
        times = (int(about.st_atime), int(about.st_mtime), int(about.st_ctime))
        return ATTRIBUTES.pack(
            *(about.st_ino, about.st_size, about.st_blocks, *times, 0, 0, 0),
            *(about.st_mode, about.st_nlink, about.st_uid, about.st_gid, about.st_rdev, 4096, 0),
        )

    def _entry(self, path: str) -> bytes:
        attributes = self._attributes(path)
        return ENTRY_HEAD.pack(self._node(path), 0, 0, 0, 0, 0) + attributes

    def _init(self, _node: int, data: bytes) -> bytes:
        major, minor = struct.unpack_from("=II", data)
        return INIT_REPLY.pack(major, min(minor, 31), 0, 0, 12, 10, LARGEST, 1, 0, 0, 0)

    def _lookup(self, node: int, data: bytes) -> bytes:
        return self._entry(self._below(node, data))

    def _getattr(self, node: int, _data: bytes) -> bytes:
        return ATTRIBUTES_HEAD.pack(0, 0, 0) + self._attributes(self._paths[node])

    def _setattr(self, node: int, data: bytes) -> bytes:
        path = self._paths[node]
        valid, _, _, size = struct.unpack_from("=IIQQ", data)
        mode, _, uid, gid = struct.unpack_from("=IIII", data, 68)
        if valid & 1:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & 6:
            os.chown(path, uid if valid & 2 else -1, gid if valid & 4 else -1)
        if valid & 8:
            os.truncate(path, size)
        return self._getattr(node, data)

    def _mknod(self, node: int, data: bytes) -> bytes:
        mode, device = struct.unpack_from("=II", data)
        path = self._below(node, data[16:])
        os.mknod(path, mode, device)
        return self._entry(path)

    def _mkdir(self, node: int, data: bytes) -> bytes:
        path = self._below(node, data[8:])
        os.mkdir(path, struct.unpack_from("=I", data)[0])
        return self._entry(path)

    def _rename(self, node: int, data: bytes, skipped: int) -> bytes:
        target = struct.unpack_from("=Q", data)[0]
        old, new = _pair(data[skipped:])
        source, result = f"{self._paths[node]}/{old}", f"{self._paths[target]}/{new}"
        os.rename(source, result)
        for path, number in list(self._nodes.items()):
            if path == source or path.startswith(f"{source}/"):
                moved = result + path.removeprefix(source)
                del self._nodes[path]
                self._nodes[moved], self._paths[number] = number, moved
        return b""

    def _open(self, node: int, data: bytes) -> bytes:
        flags = struct.unpack_from("=I", data)[0] & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        return OPENED.pack(os.open(self._paths[node], flags), 0, 0)

    def _create(self, node: int, data: bytes) -> bytes:
        flags, mode = struct.unpack_from("=II", data)
        path = self._below(node, data[16:])
        fd = os.open(path, flags | os.O_CREAT, mode)
        return self._entry(path) + OPENED.pack(fd, 0, 0)

    def _read(self, _node: int, data: bytes) -> bytes:
        fd, offset, size = struct.unpack_from("=QQI", data)
        return os.pread(fd, size, offset)

    def _write(self, _node: int, data: bytes) -> bytes:
        fd, offset, size = struct.unpack_from("=QQI", data)
        written = os.pwrite(fd, data[40 : 40 + size], offset)
        return struct.pack("=II", written, 0)

    def _release(self, _node: int, data: bytes) -> bytes:
        os.close(struct.unpack_from("=Q", data)[0])
        return b""

    def _readdir(self, node: int, data: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", data)
        listing = b""
        for at, name in enumerate([".", "..", *sorted(os.listdir(self._paths[node]))], 1):
            text = os.fsencode(name)
            entry = DIRECTORY_ENTRY.pack(at, at, len(text), 0) + text
            entry += bytes(-len(entry) % 8)
            if at > offset and len(listing) + len(entry) <= size:
                listing += entry
        return listing


def main(target: str, source: str, manner: str = "") -> None:
    """Mount the filesystem, print a line on standard output, and serve forever."""
    waking, wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    data = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    isolation.mount("silent", target, "fuse.silent", data=data)
    server = Server(fd, source)
    server.serve_one()
    print("mounted", flush=True)
    while not select.select([waking], [], [], 0)[0]:
        ready, _, _ = select.select([fd, waking], [], [])
        if waking not in ready:
            server.serve_one()
    print("silent", flush=True)
    while True:
        if manner == "deaf":
            signal.pause()
        os.read(fd, LARGEST + 4096)


if __name__ == "__main__":
    main(*sys.argv[1:])
