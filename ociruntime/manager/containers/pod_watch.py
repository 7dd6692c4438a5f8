"""Watch the directories of pods for changes, with inotify(7) in the event loop."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Iterator

from ociruntime._system_calls import ffi, lib
from ociruntime.base.errors import HostError

CLOSE_NOWRITE = 0x10  # a directory was closed, which may have released a flock(2) on it
MOVED_TO = 0x80
MOVE_SELF = 0x800
DELETE_SELF = 0x400
OVERFLOW = 0x4000
IGNORED = 0x8000
_HEAD = struct.Struct("iIII")


class Watcher:
    """An inotify(7) instance; it calls ``on_overflow`` when the kernel has dropped events."""

    def __init__(self, on_overflow: Callable[[], None]) -> None:
        """Create the inotify instance.  Raises HostError if the kernel refuses it."""
        self._fd = _check(lib.oci_inotify(), "watch directories")
        self._calls: dict[int, Callable[[], None]] = {}
        self._on_overflow = on_overflow
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    def watch(self, path: str, events: int, call: Callable[[], None]) -> int:
        """Call ``call`` when one of ``events`` (an inotify mask) happens in the directory ``path``.

        Returns the watch descriptor, the argument of ``forget``.  ``CLOSE_NOWRITE`` applies to the
        directory itself, not to its entries.  Raises HostError if the kernel refuses the watch.
        """
        number = lib.oci_watch(self._fd, ffi.from_buffer(os.fsencode(path) + b"\0"), events)
        _check(number, f'watch "{path}"')
        self._calls[number] = call
        return int(number)

    def forget(self, number: int) -> None:
        """Remove the watch with the descriptor ``number``, which ``watch`` has returned."""
        if self._calls.pop(number, None) is not None:
            lib.oci_unwatch(self._fd, number)  # an error is expected if the directory is gone

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        # Call each directory's callback once, however many events the directory has.
        calls: dict[int, Callable[[], None]] = {}
        for number, events, name in parse(data):
            if events & OVERFLOW:
                self._on_overflow()
            elif events & IGNORED:
                self._calls.pop(number, None)
            elif number in self._calls and not (events & CLOSE_NOWRITE and name):
                calls[number] = self._calls[number]
        for call in calls.values():
            call()


def parse(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (watch descriptor, event mask, entry name or b"") from bytes read from inotify(7)."""
    at = 0
    while at < len(data):
        number, events, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield number, events, data[at : at + length].rstrip(b"\0")
        at += length


def _check(result: int, action: str) -> int:
    if result < 0:
        raise HostError(action, OSError(-result, os.strerror(-result)))
    return result
