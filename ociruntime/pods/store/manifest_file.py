"""Read and write the JSON files in a pod's directory, and lock the pod's manifest.

Each file holds one JSON object and is replaced as a whole.  ``pod`` is the manifest;
``runtime-config`` contains the settings that the pod runs with, and is private (mode 0600).
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import replace_file
from ociruntime.pods.store.pod import EMBRYO, GONE, MARKED, PREPARE, Pod

MANIFEST = "pod"
RUNTIME_CONFIG = "runtime-config"
_MODES = {MANIFEST: 0o640, RUNTIME_CONFIG: 0o600}


def read_manifest(pod: Pod) -> dict[str, Any]:
    """Return the pod's manifest, the JSON object in its file ``pod``.

    Raises PodError if the file is damaged or not written yet, HostError if it cannot be read.
    """
    manifest = read_object(pod, MANIFEST)
    if manifest is None:
        raise PodError(f"read the manifest of pod {pod.uuid}: not found", f"the pod is {pod.state}")
    return manifest


def write_manifest(pod: Pod, manifest: dict[str, Any]) -> None:
    """Replace the pod's manifest; raise HostError if it cannot be written.

    The caller must hold ``manifest_lock``, unless it is still creating the pod.
    """
    write_object(pod, MANIFEST, manifest)


def read_runtime_config(pod: Pod) -> dict[str, Any]:
    """Return the pod's runtime-config, a JSON object with the settings that the pod runs with.

    Raises PodError if the file is damaged or not written yet, HostError if it cannot be read.
    """
    config = read_object(pod, RUNTIME_CONFIG)
    if config is None:
        raise PodError(
            f"read {RUNTIME_CONFIG} of pod {pod.uuid}: not found", f"the pod is {pod.state}"
        )
    return config


def write_runtime_config(pod: Pod, config: dict[str, Any]) -> None:
    """Replace the pod's runtime-config with ``config``, the settings that the pod runs with.

    Raises HostError if it cannot be written.
    """
    write_object(pod, RUNTIME_CONFIG, config)


def read_object(pod: Pod, name: str) -> dict[str, Any] | None:
    """Return the JSON object in the pod's file ``name``, or None if the file does not exist.

    An empty file counts as missing, because a power failure can empty a file that was not synced.
    The files ``pod`` and ``runtime-config`` are synced, so it is an error if they are empty.
    Raises PodError for invalid content, HostError if the file cannot be read.
    """
    try:
        text = pod.read(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f"read {name} of pod {pod.uuid}", error) from None
    if not text and name not in _MODES:
        return None
    return json_files.parse(text, f"{name} of pod {pod.uuid}")


def write_object(pod: Pod, name: str, value: dict[str, Any]) -> None:
    """Write ``value`` as JSON to the file ``name`` in the pod's directory, atomically.

    The file survives a power failure, unless the pod is still being created.  Raises HostError if
    it cannot be written.
    """
    data = json_files.text_of(value) + b"\n"
    # A pod that is still being made need not survive a power failure: ``sync_files`` or
    # ``to_prepared`` flushes its files before it counts as made.
    lasting = pod.phase not in (EMBRYO, PREPARE)
    try:
        replace_file(name, data, _MODES.get(name, 0o640), lasting=lasting, within=pod.fd)
    except OSError as error:
        raise HostError(f"write {name} of pod {pod.uuid}", error) from None


def sync_files(pod: Pod) -> None:
    """Flush the manifest and the runtime-config of a new pod to disk.

    Raises HostError if fsync(2) fails.
    """
    for name in _MODES:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=pod.fd)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f"sync {name} of pod {pod.uuid}", error) from None


LOCK_FILE = "pod.lck"


class manifest_lock:  # noqa: N801 - used like a function
    """Context manager: wait for the lock of a pod's manifest, and hold it.

    The lock is a separate file, because the manifest is replaced by a rename.  Raises HostError if
    locking fails.  Raises PodError if the pod was removed or is in the phase garbage or
    exited-garbage: the manifest of such a pod must not be changed.
    """

    __slots__ = ("_fd", "_pod")

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._fd = -1

    def __enter__(self) -> manifest_lock:
        uuid = self._pod.uuid
        try:
            # Do not create the file: only a pod that is being removed has none.
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(LOCK_FILE, flags, dir_fd=self._pod.fd)
        except FileNotFoundError:
            raise PodError(f'change pod {uuid}: its state is "{self._pod.refresh()}"') from None
        except OSError as error:
            raise HostError(f"open {LOCK_FILE} of pod {uuid}", error) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if self._pod.refresh() == GONE or self._pod.phase in MARKED:
                raise PodError(f'change pod {uuid}: its state is "{self._pod.state}"')
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)
