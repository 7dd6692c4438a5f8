"""Import images from local files (``fetch FILE``, ``image load``), and detect their format."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, replace

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.files import mode_of
from ociruntime.images.formats.docker_archive import full_name, listing
from ociruntime.images.formats.oci_layout import Layout, is_layout, names_of
from ociruntime.images.model.image import Descriptor, Image, Progress
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.model.reference import Reference
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.resolve_index import Document, ImageVerifier
from ociruntime.images.store.resolve_index import take_in as take_in_documents
from ociruntime.images.store.store import Store
from ociruntime.images.tar.archives import (
    ArchiveFiles,
    DirectoryFiles,
    compression_of_file,
    member_name,
    members,
    open_file,
    plain,
)
from ociruntime.images.trust.check_stored_image import Permission
from ociruntime.images.trust.policy import ACCEPT, REJECT

_SIGNIFICANT = ("oci-layout", "index.json", "manifest.json", "manifest")
_MOST_INSPECTED = 1000  # members to inspect in a compressed archive, where seeking is impossible


def recognized(reference: Reference, budget: Budget) -> Reference:
    """Detect the kind of file at a reference's path; return the reference with that kind.

    A kind is, for example, ``oci-archive``.  Raises HostError if the file cannot be read,
    ImageError if it is neither a directory nor an archive.
    """
    path = reference.path
    if stat.S_ISDIR(mode_of(path)):
        kind = "oci" if is_layout(DirectoryFiles(path).has) else "dir"
        return replace(reference, kind=kind)
    with open_file(path) as file:
        limit = _MOST_INSPECTED if compression_of_file(file, f'"{path}"') else budget.limits.files
        names: set[str] = set()
        for count, (member, _) in enumerate(members(plain(file, f'"{path}"', budget), budget)):
            name = member_name(member.name)
            top = name.partition("/")[0]
            # An archive may have millions of members: collect only significant names.
            names.add(name if name in _SIGNIFICANT else "rootfs" if top == "rootfs" else "")
            if count >= limit:
                break
    return replace(reference, kind=kind_of_archive(names))


def kind_of_archive(names: Set[str]) -> str:
    """Return an archive's format, such as ``oci-archive``, given the names of its members.

    ``names`` contains the names of the archive's members that are in ``_SIGNIFICANT``.  It also
    contains "rootfs" if the archive has members at or below that path, and "" if it has any other
    members.
    """
    if is_layout(names.__contains__):
        return "oci-archive"
    if "manifest.json" in names:
        return "docker-archive"
    if "manifest" in names and {name.partition("/")[0] for name in names} == {"manifest", "rootfs"}:
        return "aci"
    return "tar"


def named_images(reference: Reference, tmp: str, budget: Budget) -> dict[str, list[str]]:
    """Return the images in an archive or layout as {tag: [full names of the image]}.

    A reference to an image in the file ends with this tag.  The tag is "" if the file contains only
    one image.  For an image without a name, it is the digest in a layout, and the position in a
    docker archive, such as "@1" for the second image.  In a layout, a name without a slash, such as
    "latest", is a tag and not a full name.  Raises HostError if the file cannot be read, ImageError
    if it is invalid.
    """
    path = reference.path
    images: dict[str, list[str]] = {}
    if reference.kind == "docker-archive":
        with closing(ArchiveFiles(path, tmp, budget)) as files:
            for index, entry in enumerate(listing(files)):
                tags = [str(name) for name in entry.get("RepoTags") or ()]
                key = tags[0] if tags else f"@{index}"
                images[key] = [name for name in map(full_name, tags) if name]
    elif reference.kind in ("oci", "oci-archive"):
        layout = (
            DirectoryFiles(path) if reference.kind == "oci" else ArchiveFiles(path, tmp, budget)
        )
        with closing(layout):
            for index_entry in Layout(layout).entries():
                # Entries for several platforms have the same name; the last annotation is longest.
                names = names_of(index_entry)
                full = [full_name(name) for name in names if "/" in name]
                images[names[-1] if names else index_entry.descriptor.digest] = [
                    name for name in full if name
                ]
    return images if len(images) != 1 else {"": next(iter(images.values()))}


@dataclass(frozen=True, slots=True)
class Claims:
    """Decide whether an imported image gets the name that its file declares.

    The image gets the name if the policy accepts images of that name without a signature, and if
    no other image has the name.  If ``replace`` is set, the image takes the name from the other
    image.  If the imported image does not get the name, ``warn`` is called.
    """

    permission: Permission
    replace: bool
    warn: Callable[[str], None]

    def settle(self, store: Store, image: Image, name: str, path: str) -> bool:
        """Give an imported image the name ``name`` that its file declares, if that is allowed.

        ``path`` is the path of the file.  Returns whether the image now has the name; if it does
        not, calls ``warn``.
        """
        rule = self.permission.policy.rule(name)
        hint = f"see {rule.where}"
        if rule.kind == REJECT:
            why = "the signature policy rejects images of that name"
        elif rule.kind != ACCEPT and not self.permission.unsigned:
            why = "the signature policy requires a signature for that name"
        else:
            other = store.claim_name(image.id, name, replace=self.replace)
            if not other:
                return True
            why = f"image {other[:19]} has that name"
            hint = "use ocipod fetch --replace to take the name from it"
        self.warn(f'import "{path}": ignored the name "{name}" in its manifest: {why} ({hint})')
        return False


def take_in(
    store: Store,
    reference: Reference,
    progress: Progress,
    claims: Claims,
    verifier: ImageVerifier,
    budget: Budget,
) -> Image:
    """Import an image from the local file that ``reference`` names; return the image.

    The store keeps it under the name of the reference.  Raises HostError if the file cannot be
    read, ImageError if it is invalid, exceeds a limit or is not permitted by the policy.
    """
    try:
        there = os.stat(reference.path)
    except OSError as error:
        raise HostError(f'open "{reference.path}"', error) from None
    if not stat.S_ISDIR(there.st_mode):
        budget.source = there.st_size
    if reference.kind in ("oci", "oci-archive"):
        return _from_layout(store, reference, verifier, progress, budget)
    claimed = ""
    with Incoming(store, budget) as incoming:
        if reference.kind == "aci":
            from ociruntime.images.formats.aci import add_aci

            manifest, aci = add_aci(incoming, store, reference.path, progress, claims.permission)
            claimed = aci.reference.name
        else:
            manifest = _made(incoming, reference, store.tmp, progress)
        signer = _signer(store, reference, [manifest], verifier)
        image = incoming.commit(manifest.digest, reference.name, signer=signer)
    if claimed:
        claims.settle(store, image, claimed, reference.path)
    return image


def _made(incoming: Incoming, reference: Reference, tmp: str, progress: Progress) -> Document:
    """Convert a docker archive, tarball or directory to an OCI image; return the manifest."""
    path = reference.path
    if reference.kind == "docker-archive":
        from ociruntime.images.formats.docker_archive import add_image

        with closing(ArchiveFiles(path, tmp, incoming.budget)) as files:
            return add_image(incoming, files, reference.tag, progress)
    from ociruntime.images.formats.plain_tree import add_directory, add_tarball

    add = add_directory if reference.kind == "dir" else add_tarball
    return add(incoming, path, progress)


def _from_layout(
    store: Store, reference: Reference, verifier: ImageVerifier, progress: Progress, budget: Budget
) -> Image:
    path = reference.path
    files: DirectoryFiles | ArchiveFiles = DirectoryFiles(path)
    if reference.kind != "oci":
        files = ArchiveFiles(path, store.tmp, budget)
    with closing(files):
        layout = Layout(files)
        documents = layout.image(reference.tag, reference.platform)
        signer = _signer(store, reference, documents, verifier)

        def add_all(incoming: Incoming, wanted: Sequence[tuple[Descriptor, str]]) -> None:
            for blob, kind in wanted:
                with closing(layout.open_blob(blob.digest)) as stream:
                    incoming.add_blob(stream, blob.digest, blob.size, progress, kind)

        return take_in_documents(
            store, documents, add_all, "copying", reference.name, signer, budget
        )


def _signer(
    store: Store, reference: Reference, documents: list[Document], verifier: ImageVerifier
) -> str:
    """Verify an image's signature; return the signer, or "" if no signature is required.

    Raises ImageError if the policy does not permit the image.
    """
    id = documents[-1].digest
    try:
        if store.record(reference.name).id == id and verifier.knows(id):
            return ""
    except ImageError:
        pass  # the image is not in the store
    return verifier(documents)


def load(
    store: Store,
    path: str,
    fetch: Callable[[str], Image],
    permission: Permission,
    settings: Settings,
    warn: Callable[[str], None],
) -> Iterator[tuple[Image, list[str]]]:
    """Import all images of the archive or layout at ``path``; yield (image, its new names).

    ``fetch(text)`` imports the image that the local reference ``text`` names.  As in docker, an
    image in the store loses its name if an imported image has the same name.  An image that gets no
    name is stored under the name of its file.  Raises HostError if the file cannot be read,
    ImageError if it is invalid or contains no images.
    """
    limits = settings.limits()
    reference = recognized(Reference("path", path, path=path), Budget.at(store.path, limits))
    images = named_images(reference, store.tmp, Budget.at(store.path, limits))
    if not images:
        hint = "use an archive made with `docker save`, or an OCI image layout"
        raise ImageError(f'load "{path}": the file contains no images', hint)
    claims = Claims(permission, replace=True, warn=warn)
    for tag, names in images.items():
        source = replace(reference, tag=tag).name
        image = fetch(source)
        claimed = [name for name in names if claims.settle(store, image, name, path)]
        if claimed:
            store.remove_name(image.id, source)
        yield image, claimed
