"""Download the blobs of one image in parallel.

Several threads run, and each downloads one blob at a time.  Locks protect the data that they share:
the budget, the progress, and the order of the sources.  Concurrent fetches of the same image wait
for each other's file locks.  They cannot deadlock, because a thread holds only one such lock at a
time.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model.image import Descriptor, Progress
from ociruntime.images.registry.resumable_download import Download, partial_path
from ociruntime.images.registry.sources import Sources
from ociruntime.images.store.import_image import Incoming

AT_ONCE = 4
_END = 2.0  # seconds to wait for the other downloads to end after a failure


class Downloads:
    """The downloads of one image's blobs; their files stay in ``directory`` until ``discard``."""

    def __init__(self, directory: str, sources: Sources, progress: Progress) -> None:
        self.directory = directory
        self.sources = sources
        self.progress = progress
        self.blobs: list[Descriptor] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._active: set[Download] = set()

    def add_all(self, incoming: Incoming, wanted: Sequence[tuple[Descriptor, str]]) -> None:
        """Download blobs, and add them to the import ``incoming``.

        ``wanted`` lists (blob, label for progress).  The first failure ends all downloads.  Raises
        HostError if a file cannot be written, RegistryError if a download fails, ImageError for
        wrong content or an exceeded limit.
        """
        self.blobs += [blob for blob, _ in wanted]
        for blob, kind in wanted:
            self._report(kind, 0, blob.size)
        waiting = deque(wanted)
        ended: SimpleQueue[BaseException | None] = SimpleQueue()

        def work() -> None:
            try:
                while not self._stopped.is_set():
                    try:
                        blob, kind = waiting.popleft()
                    except IndexError:
                        break
                    self._add(incoming, blob, kind)
                ended.put(None)
            except BaseException as failure:  # noqa: BLE001 - raised in the main thread
                ended.put(failure)

        # Daemon threads: an interrupted program must not wait for a registry that sends nothing.
        threads = [
            threading.Thread(target=work, daemon=True) for _ in range(min(AT_ONCE, len(wanted)))
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                if failure := ended.get():
                    raise failure
        finally:
            self._end(threads)

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        self._stopped.set()
        with self._lock:
            for download in self._active:
                download.interrupt()
        end = time.monotonic() + _END
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))

    def _add(self, incoming: Incoming, blob: Descriptor, kind: str) -> None:
        """Download one blob into the import ``incoming``; ``kind`` is its label for progress.

        Raises HostError if a file cannot be written, RegistryError if the download fails,
        ImageError for wrong content or an exceeded limit.
        """
        with self._lock:
            incoming.budget.check_bytes(blob.size)
        exceeded: list[ImageError] = []  # errors of the budget, which a retry cannot avoid
        while True:
            with Download(self.directory, self.sources, blob) as download:
                # A concurrent download of the blob may have finished while we waited.
                if incoming.has(blob.digest):
                    return
                try:
                    self._complete(incoming, download, kind, exceeded)
                except RegistryError:
                    raise
                except ImageError:
                    if exceeded:
                        raise
                    download.discard()
                    # An earlier attempt or a mirror may have delivered wrong data: try again.
                    if not download.resumed and not self.sources.give_up():
                        raise
                else:
                    incoming.adopt(download.path, blob.digest)
                    return

    def _complete(
        self, incoming: Incoming, download: Download, kind: str, exceeded: list[ImageError]
    ) -> None:
        def took(count: int, done: int) -> None:
            """Count ``count`` bytes against the image's limits before they are written.

            ``done`` is the number of bytes of this blob so far, including these.  Raises ImageError
            if a limit is exceeded, RegistryError if another download has failed.
            """
            if self._stopped.is_set():
                message = "stopped, because the download of another blob failed"
                raise RegistryError(f"download blob {download.blob.digest}: {message}")
            try:
                with self._lock:
                    incoming.budget.take_bytes(count)
            except ImageError as error:
                exceeded.append(error)
                raise
            self._report(kind, done, download.blob.size)

        with self._lock:
            self._active.add(download)
        try:
            download.complete(took)
        finally:
            with self._lock:
                self._active.discard(download)

    def _report(self, kind: str, done: int, total: int) -> None:
        with self._lock:
            self.progress(kind, done, total)

    def present(self, blob: Descriptor) -> int:
        """Return the number of bytes of a blob that an interrupted download has left on disk."""
        try:
            return os.lstat(partial_path(self.directory, blob.digest)).st_size
        except OSError:
            return 0

    def discard(self) -> None:
        """Remove the files of all downloads, except those that another process is using.

        Raises HostError if a file cannot be removed.
        """
        for blob in self.blobs:
            with Download(self.directory, self.sources, blob, wait=0) as download:
                download.discard()
