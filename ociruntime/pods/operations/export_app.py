"""Export an exited app as an image: the layers of the app's image and a layer of changes."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

from ociruntime.base.errors import HostError, ImageError, PodError, reason
from ociruntime.base.fault_injection import fault
from ociruntime.base.linux import CLONE_NEWNS
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import digest_of
from ociruntime.images.model.image import Image, Layer
from ociruntime.images.model.image_limits import MOST, Budget, Limits
from ociruntime.images.model.media_types import OCI_LAYER
from ociruntime.images.store.make_manifest import StoredLayer, manifest_of, to_bytes
from ociruntime.images.store.store import Store
from ociruntime.images.tar.decompression import CHUNK
from ociruntime.images.tar.layer_writer import LayerTar, Member, of_directory
from ociruntime.pods.bundle import overlay
from ociruntime.pods.bundle.private_mount_namespace import mount
from ociruntime.pods.manifest.build_manifest import app_entry
from ociruntime.pods.store.lock import open_directory, try_lock
from ociruntime.pods.store.manifest_file import read_manifest, read_object, read_runtime_config
from ociruntime.pods.store.pod import GONE, MARKED, Pod

_AT_REST = ("prepared", "exited", "exited garbage")
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
# Mount points of files that the pod provides; exported only if they have content of their own.
_MOUNTED_FILES = ("etc/hosts", "etc/resolv.conf", "etc/hostname")


class BlobsAndNew(Blobs):
    """The blobs in the image store, plus an export's new blobs in unlinked temporary files."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.new: dict[str, BinaryIO] = {}

    def path_of(self, digest: str) -> str:
        """Return a path by which the blob ``digest`` can be opened."""
        file = self.new.get(digest)
        return f"/proc/self/fd/{file.fileno()}" if file else super().path_of(digest)

    def size(self, digest: str) -> int:
        """Return the size of the blob ``digest`` in bytes.  Raises ImageError if it is missing."""
        with self.open(digest) as blob:
            return blob.seek(0, os.SEEK_END)

    def add(self, content: bytes, directory: str) -> str:
        """Write ``content`` to a new blob, a temporary file in ``directory``; return its digest."""
        file = tempfile.TemporaryFile(dir=directory)
        file.write(content)
        file.flush()
        digest = digest_of(content)
        self.new[digest] = file
        return digest


@contextmanager
def lock_stopped_pod(pod: Pod, action: str) -> Iterator[None]:
    """Context manager: lock a prepared or exited pod, so that no process removes or starts it.

    Raises PodError, whose message begins with ``action``, if the pod is in another state.  Raises
    HostError if it cannot be locked.
    """
    if pod.refresh() not in _AT_REST:
        raise _not_ended(pod, action)
    # Lock another descriptor of the directory: refresh() unlocks the pod's own.
    lock = open_directory(".", pod.fd)
    try:
        if not try_lock(lock, exclusive=False) or pod.refresh() not in _AT_REST:
            pod.refresh()
            raise _not_ended(pod, action)
        fault("export.after-lock")
        yield
    finally:
        os.close(lock)


def _not_ended(pod: Pod, action: str) -> PodError:
    removed = pod.state == GONE or pod.phase in MARKED
    hint = "it is being removed" if removed else "stop it first"
    return PodError(f'{action} pod {pod.uuid}: its state is "{pod.state}"', hint)


def exported(
    pod: Pod,
    app_name: str,
    store: Store,
    blobs: BlobsAndNew,
    directory: str,
    limits: Limits,
    *,
    squash: bool,
) -> Image:
    """Return an image made of the app's image and the files that the app has changed.

    Blobs that the image store lacks are added to ``blobs``, as temporary files in ``directory``.
    With ``squash``, the image has a single layer.  The export is subject to the maximum size in
    ``limits``, but not to the other limits.  The caller must be in the context
    ``lock_stopped_pod``.

    Raises PodError if the app is not found or has no files any more.  Raises ImageError if the
    app's image is missing, a file of the app cannot be packed, or a limit is exceeded.  Raises
    PodError or HostError if a file cannot be read or written.
    """
    settings = read_runtime_config(pod)
    app_entry(read_manifest(pod), app_name)
    known = read_object(pod, f"apps/{app_name}/image.json")
    if known is None:
        raise PodError(f'export app "{app_name}": its files have been removed')
    users = settings.get("private_users")
    shift = int(users["shift"]) if users else 0
    whole = squash or not settings.get("overlay")
    base = None if whole else _base(store, known)
    home = f"apps/{app_name}"
    here = f"/proc/self/fd/{pod.fd}/{home}"
    # Limit only the size: everything that a running program can create must be exportable.
    budget = Budget(replace(limits, files=MOST, depth=MOST), lambda: (MOST, MOST))
    try:
        file = tempfile.TemporaryFile(dir=directory)
        if not whole:
            upper = of_directory(
                f"{here}/upper", budget, shift=shift, upper=True, skipped=_unused(here)
            )
            layer = _pack(file, lambda to: _write(upper, to))
        elif settings.get("overlay"):
            tree = f"{settings['directory']}/cas/tree/{known['tree']}/rootfs"
            layer = _pack(file, lambda to: _merged(tree, pod.fd, home, to, budget, users))
        else:
            rootfs = of_directory(f"{here}/bundle/rootfs", budget, shift=shift)
            layer = _pack(file, lambda to: _write(rootfs, to))
    except (HostError, ImageError) as error:
        why = error.message.replace(here, home)
        raise ImageError(
            f'pack the files of app "{app_name}" of pod {pod.uuid}: {why}', error.hint
        ) from error
    except OSError as error:
        raise HostError(f'pack the files of app "{app_name}" of pod {pod.uuid}', error) from error
    blobs.new[layer.digest] = file
    stored = [_stored(one) for one in base.layers] if base else []
    return _image(known, [*stored, layer], blobs, directory, f"{pod.uuid}/{app_name}")


def _write(members: Iterator[Member], target: BinaryIO) -> None:
    shutil.copyfileobj(LayerTar(members), target, CHUNK)


def _base(store: Store, known: dict[str, Any]) -> Image:
    try:
        return store.find(str(known["id"]))
    except ImageError as error:
        raise ImageError(
            f"export an app: its image is no longer in the store: {error}",
            "use --squash, which does not need the image",
        ) from error


def _stored(layer: Layer) -> StoredLayer:
    return StoredLayer(layer.digest, layer.size, layer.diff_id, layer.compression)


def _unused(home: str) -> list[str]:
    """Return the files of ``_MOUNTED_FILES`` that are empty in the app's upper directory.

    ``home`` is the app's directory.  Such an empty file is only the mount point of a file that the
    pod provides.
    """
    return [name for name in _MOUNTED_FILES if _is_empty_file(f"{home}/upper/{name}")]


def _is_empty_file(path: str) -> bool:
    try:
        status = os.lstat(path)  # never follow: a symbolic link could point to a file of the host
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


class _Hashing:
    """A file-like object that writes to ``target``, counts the bytes and computes their SHA-256."""

    __slots__ = ("_target", "hash", "size")

    def __init__(self, target: BinaryIO | gzip.GzipFile) -> None:
        self._target = target
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self._target.write(data)

    def flush(self) -> None:
        self._target.flush()


def _pack(file: BinaryIO, write: Callable[[BinaryIO], None]) -> StoredLayer:
    """Call ``write`` with a file-like object whose data is gzipped and written to ``file``.

    Returns the layer with the digests of the compressed and of the uncompressed data.
    """
    stored = _Hashing(file)
    with gzip.GzipFile(fileobj=stored, mode="wb", mtime=0, filename="") as packed:
        plain = _Hashing(packed)
        write(plain)  # type: ignore[arg-type]  # only write() is called
    file.flush()
    return StoredLayer(
        f"sha256:{stored.hash.hexdigest()}",
        stored.size,
        f"sha256:{plain.hash.hexdigest()}",
        "gzip",
    )


def _merged(
    tree: str, pod: int, home: str, target: BinaryIO, budget: Budget, users: dict[str, int] | None
) -> None:
    """Write a tar archive of an app's root filesystem, an overlay, to ``target``.

    ``pod`` is a descriptor of the pod's directory, ``home`` the app's directory below it, ``tree``
    the unpacked image.  ``users`` is the member ``private_users`` of runtime-config, or None if the
    pod has no user namespace.  A child process mounts the overlay in a new mount namespace and
    reads its files.  Raises PodError if the child fails.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    error_read, error_write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            # Only the working directory survives the switch to a new mount namespace.
            os.fchdir(pod)
            with open(write, "wb") as to:
                _write_merged(tree, home, to, budget, users)
            os._exit(0)
        except OSError as error:
            os.write(error_write, reason(error).encode())
        except BaseException as error:  # noqa: BLE001 - the child must not return into the caller
            os.write(error_write, str(error).encode())
        finally:
            os._exit(1)
    os.close(write)
    os.close(error_write)
    with open(read, "rb") as source, open(error_read, "rb") as failure:
        while part := source.read(1 << 20):
            target.write(part)
        why = failure.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if status:
        app = home.rpartition("/")[2]
        raise PodError(f'read the files of app "{app}": {why or "the reading process was killed"}')


def _write_merged(
    tree: str, home: str, target: BinaryIO, budget: Budget, users: dict[str, int] | None
) -> None:
    root = f"{home}/bundle/rootfs"
    overlay.unshare(CLONE_NEWNS)
    mount("", "/", "", _MS_REC | _MS_PRIVATE)
    if not users:
        overlay.mount_overlay(tree, home, root)
        _write(of_directory(root, budget), target)
        return
    with overlay.UserNamespace(users["shift"], users["count"]) as namespace:
        overlay.mount_overlay(tree, home, root, namespace)
        _write(of_directory(root, budget, shift=users["shift"]), target)


def _image(
    known: dict[str, Any],
    layers: list[StoredLayer],
    blobs: BlobsAndNew,
    directory: str,
    what: str,
) -> Image:
    """Build an image from ``layers`` and the configuration of the app's image.

    ``known`` is the content of the app's image.json.  ``what``, the text ``UUID/APP``, is recorded
    in the image's history.  Adds the configuration and the manifest to ``blobs``.
    """
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    config = dict(known.get("config") or {})
    entry = {"created": now, "created_by": f"ocipod export {what}"}
    before = config.get("history") or []
    config["history"] = [*before, entry] if len(layers) > 1 else [entry]
    config["created"] = now
    config["rootfs"] = {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]}
    data = to_bytes(config)
    document = manifest_of(data, layers)
    digest = blobs.add(data, directory)
    blobs.add(document.data, directory)
    return Image(
        id=document.digest,
        name="",
        names=(),
        manifest=json.loads(document.data),
        config=config,
        config_digest=digest,
        layers=tuple(
            Layer(
                one.digest, one.size, f"{OCI_LAYER}+{one.compression}", one.diff_id, one.compression
            )
            for one in layers
        ),
        chain_id="",
        size=sum(one.size for one in layers),
        imported=0.0,
        used=0.0,
        index="",
    )
