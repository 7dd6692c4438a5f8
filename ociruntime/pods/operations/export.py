"""An app that has ended as an image: its image's layers and one with what it has changed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import tempfile
import time
from contextlib import contextmanager

from ociruntime.base.errors import HostError, ImageError, PodError, reason
from ociruntime.base.fault import fault
from ociruntime.base.linux import CLONE_NEWNS
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import digest_of
from ociruntime.images.model.image import Image, Layer
from ociruntime.images.model.media_types import OCI_LAYER
from ociruntime.images.store.made_image import StoredLayer, manifest_of, to_bytes
from ociruntime.pods.bundle import overlay
from ociruntime.pods.bundle.own_mounts import mount
from ociruntime.pods.manifest.build import app_entry
from ociruntime.pods.operations.layer_tar import write_layer
from ociruntime.pods.store.lock import open_directory, try_lock
from ociruntime.pods.store.manifest_file import read_manifest, read_object, read_runtime_config
from ociruntime.pods.store.pod import GONE, MARKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    from ociruntime.images.store.store import Store
    from ociruntime.pods.store.pod import Pod

ENDED = ("exited", "exited garbage")
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
# Files that the pod is seen by; without content they are only where those were mounted.
_MOUNTED_FILES = ("etc/hosts", "etc/resolv.conf", "etc/hostname")


class BlobsAndNew(Blobs):
    """The store's blobs, and files without a name that only exist for the export."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.new: dict[str, BinaryIO] = {}

    def path_of(self, digest: str) -> str:
        """Opened anew, a file is read from its beginning."""
        file = self.new.get(digest)
        return f"/proc/self/fd/{file.fileno()}" if file else super().path_of(digest)

    def size(self, digest: str) -> int:
        """Bytes.  Raises ImageError if it is not there."""
        with self.open(digest) as blob:
            return blob.seek(0, os.SEEK_END)

    def add(self, content: bytes, directory: str) -> str:
        """Adds a small one; its digest."""
        file = tempfile.TemporaryFile(dir=directory)
        file.write(content)
        file.flush()
        digest = digest_of(content)
        self.new[digest] = file
        return digest


@contextmanager
def kept(pod: Pod) -> Iterator[None]:
    """For the context's time nobody removes ``pod``, which has ended.  Raises PodError, HostError.

    It may still be marked as garbage: its directory has another path then.
    """
    if pod.refresh() not in ENDED:
        raise _not_ended(pod)
    # A lock of its own: looking at the pod drops one of the same descriptor.
    lock = open_directory(".", pod.fd)
    try:
        if not try_lock(lock, exclusive=False) or pod.refresh() not in ENDED:
            pod.refresh()
            raise _not_ended(pod)
        fault("export.after-lock")
        yield
    finally:
        os.close(lock)


def _not_ended(pod: Pod) -> PodError:
    going = pod.state == GONE or pod.phase in MARKED
    hint = "it is being removed" if going else "only what has ended can be exported"
    return PodError(f"pod {pod.uuid} is {pod.state}", hint)


def exported(
    pod: Pod, app_name: str, store: Store, blobs: BlobsAndNew, directory: str, *, squash: bool
) -> Image:
    """The app as an image, of which ``blobs`` then has what the store has not.

    ``pod`` is kept meanwhile.  ``directory`` is where files may be made that have no name.  With
    ``squash`` it has one layer, with everything.  Raises PodError, ImageError, HostError.
    """
    settings = read_runtime_config(pod)
    app_entry(read_manifest(pod), app_name)
    known = read_object(pod, f"apps/{app_name}/image.json")
    if known is None:
        raise PodError(f'app "{app_name}" has no files any more')
    users = settings.get("private_users")
    shift = int(users["shift"]) if users else 0
    whole = squash or not settings.get("overlay")
    base = None if whole else _base(store, known)
    home = f"apps/{app_name}"
    here = f"/proc/self/fd/{pod.fd}/{home}"
    try:
        file = tempfile.TemporaryFile(dir=directory)
        if not whole:
            layer = _pack(file, lambda to: write_layer(f"{here}/upper", to, shift, _unused(here)))
        elif settings.get("overlay"):
            tree = f"{settings['directory']}/cas/tree/{known['tree']}/rootfs"
            layer = _pack(file, lambda to: _merged(tree, pod.fd, home, to, users))
        else:
            layer = _pack(file, lambda to: write_layer(f"{here}/bundle/rootfs", to, shift))
    except OSError as error:
        raise HostError(f'pack app "{app_name}" of pod {pod.uuid}', error) from error
    blobs.new[layer.digest] = file
    stored = [_stored(one) for one in base.layers] if base else []
    return _image(known, [*stored, layer], blobs, directory, f"{pod.uuid}/{app_name}")


def _base(store: Store, known: dict[str, Any]) -> Image:
    try:
        return store.find(str(known["id"]))
    except ImageError as error:
        hint = "--squash needs the rendered files alone"
        raise ImageError(f"the app's image is not in the store any more: {error}", hint) from error


def _stored(layer: Layer) -> StoredLayer:
    return StoredLayer(layer.digest, layer.size, layer.diff_id, layer.compression)


def _unused(home: str) -> list[str]:
    """Of the files that are only there to mount others on, those that are still empty."""
    return [name for name in _MOUNTED_FILES if _is_empty_file(f"{home}/upper/{name}")]


def _is_empty_file(path: str) -> bool:
    try:
        status = os.lstat(path)  # a link may lead to a file of the host
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


class _Hashing:
    """Counts what it hands on, and hashes it."""

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
    """Fills ``file`` with a compressed layer."""
    stored = _Hashing(file)
    with gzip.GzipFile(fileobj=stored, mode="wb", mtime=0, filename="") as packed:
        plain = _Hashing(packed)
        write(plain)  # type: ignore[arg-type]  # tarfile only writes
    file.flush()
    return StoredLayer(
        f"sha256:{stored.hash.hexdigest()}",
        stored.size,
        f"sha256:{plain.hash.hexdigest()}",
        "gzip",
    )


def _merged(tree: str, pod: int, home: str, target: BinaryIO, users: dict[str, int] | None) -> None:
    """The app's files as it saw them, by an overlay in a process with mounts of its own."""
    read, write = os.pipe2(os.O_CLOEXEC)
    told, telling = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            # The working directory is the one thing that comes along into new mounts.
            os.fchdir(pod)
            with open(write, "wb") as to:
                _write_merged(tree, home, to, users)
            os._exit(0)
        except OSError as error:
            os.write(telling, reason(error).encode())
        except BaseException as error:  # noqa: BLE001 - the child must end here, whatever comes
            os.write(telling, str(error).encode())
        finally:
            os._exit(1)
    os.close(write)
    os.close(telling)
    with open(read, "rb") as source, open(told, "rb") as failure:
        while part := source.read(1 << 20):
            target.write(part)
        why = failure.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if status:
        raise PodError(f"the app's files could not be read: {why or 'its reader was killed'}")


def _write_merged(tree: str, home: str, target: BinaryIO, users: dict[str, int] | None) -> None:
    root = f"{home}/bundle/rootfs"
    overlay.unshare(CLONE_NEWNS)
    mount("", "/", "", _MS_REC | _MS_PRIVATE)
    if not users:
        overlay.mount_overlay(tree, home, root)
        write_layer(root, target)
        return
    with overlay.UserNamespace(users["shift"], users["count"]) as namespace:
        overlay.mount_overlay(tree, home, root, namespace)
        write_layer(root, target, users["shift"])


def _image(
    known: dict[str, Any],
    layers: list[StoredLayer],
    blobs: BlobsAndNew,
    directory: str,
    what: str,
) -> Image:
    """The image of ``layers`` with the configuration of the app's image."""
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
