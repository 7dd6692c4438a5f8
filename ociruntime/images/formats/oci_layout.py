"""Read OCI image layouts (image-spec, image-layout.md), in a directory or a tar archive."""

from __future__ import annotations

from collections.abc import Callable

from ociruntime.base.errors import ImageError
from ociruntime.images.model.digest import check_content
from ociruntime.images.model.image import Descriptor
from ociruntime.images.model.manifest import LARGEST_DOCUMENT, load_document
from ociruntime.images.model.platforms import Entry, choose, matching_platforms, read_index
from ociruntime.images.store.resolve_index import Document, resolve_to_image
from ociruntime.images.tar.archives import Files, Reading, read_small

# Annotations with an image's name; docker and containerd write the second.
_NAMES = ("org.opencontainers.image.ref.name", "io.containerd.image.name")


class Layout:
    """An OCI image layout in an archive or directory.

    The constructor raises ImageError if ``files`` is not a layout of a supported version.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        head = load_document(read_small(files, "oci-layout", 1 << 16), f"{files}: oci-layout")
        version = head.get("imageLayoutVersion")
        if not isinstance(version, str) or not version.startswith("1."):
            message = f"unsupported imageLayoutVersion {version!r}"
            raise ImageError(f"read {files}: oci-layout: {message}", "supported: 1.0.0")

    def image(self, tag: str, platform: str = "") -> list[Document]:
        """Return the manifest of the image ``tag`` for ``platform``, and the indexes above it.

        The list contains the indexes from the outermost to the innermost, and the manifest last.
        ``tag`` may be "" if the layout has only one image.  Raises HostError if a file cannot be
        read, ImageError if the layout is invalid or has no such image.
        """
        chosen = _chosen(self.entries(), tag, platform, f"{self.files}: index.json")
        return resolve_to_image(self._document(chosen.digest), self._document, platform)

    def entries(self) -> list[Entry]:
        """Return the entries of the layout's ``index.json``.

        Raises HostError if the file cannot be read, ImageError if it is invalid.
        """
        what = f"read {self.files}: index.json"
        data = read_small(self.files, "index.json", LARGEST_DOCUMENT)
        entries = read_index(data, "", what)
        if entries is None:
            raise ImageError(f"{what} is not an image index")
        return entries

    def open_blob(self, digest: str) -> Reading:
        """Return a stream of a blob; the caller closes it.

        Raises HostError if the blob cannot be read, ImageError if it is missing.
        """
        return self.files.open(blob_path(digest))[0]

    def _document(self, digest: str) -> Document:
        data = read_small(self.files, blob_path(digest), LARGEST_DOCUMENT)
        check_content(data, digest, f"{self.files}: {blob_path(digest)}")
        return Document(data, digest, "")


def is_layout(has: Callable[[str], bool]) -> bool:
    """Return whether a directory or archive is an OCI image layout.

    ``has(name)`` returns whether the directory or archive contains the file ``name``.
    """
    return has("oci-layout") and has("index.json")


def blob_path(digest: str) -> str:
    """Return the path of a blob in an OCI layout, such as ``blobs/sha256/HEX``."""
    return f"blobs/{digest.replace(':', '/')}"


def _chosen(entries: list[Entry], tag: str, platform: str, what: str) -> Descriptor:
    """Return the descriptor of the image ``tag`` (a name or digest) for ``platform``.

    ``tag`` may be "" if the index has only one image.  Raises ImageError unless exactly one image
    matches; ``what`` names the index in the error message.
    """
    named = [
        entry for entry in entries if not tag or tag in (*names_of(entry), entry.descriptor.digest)
    ]
    available = sorted({names_of(entry)[0] for entry in entries if names_of(entry)})
    if not named:
        hint = f"available: {', '.join(available) or 'none'}"
        raise ImageError(f'{what} has no image "{tag}"', hint)
    if len(named) == 1:
        return named[0].descriptor
    names = {names_of(entry)[0] if names_of(entry) else "" for entry in named}
    if len(names) > 1:
        hint = f"append :TAG to the path, one of: {', '.join(available)}"
        raise ImageError(f"{what} has several images", hint)
    return choose(named, matching_platforms(platform), what)


def names_of(entry: Entry) -> list[str]:
    """Return the image names in the annotations of an index entry."""
    values = [entry.annotations.get(key) for key in _NAMES]
    return [name for name in values if isinstance(name, str) and name]
