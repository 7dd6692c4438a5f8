"""Parse references to images on a command line; pure, no access to disk or network.

    sha256:0123abcd...            in the store, by its id or 7 or more digits of it
    0123abcdef01                  the same, if the store has it; otherwise in a registry
    docker://HOST/REPO[:TAG][@DIGEST], busybox, HOST:PORT/REPO, ...       in a registry
    oci:DIR[:TAG]  oci-archive:FILE[:TAG]  docker-archive:FILE[:NAME]     an image's own formats
    dir:DIR  tar:FILE  aci:FILE  a root tree, a tarball of one, an App Container Image
    /DIR  ./FILE  ../FILE  FILE.aci  FILE.tar  FILE.tar.gz ...            whatever is found there

A word that could be both a path and a name is a name, whatever the working directory: paths start
with a slash or a dot, or have an archive's extension.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model.digest import is_digest
from ociruntime.images.model.reference_parts import (
    DOCKER_HUB,
    TAGS,
    is_host,
    is_host_alone,
    is_id_digits,
    is_repository,
    is_tag,
    registry_name,
)

DEFAULT_TAG = "latest"
LOCAL_KINDS = ("oci", "oci-archive", "docker-archive", "dir", "tar", "aci", "path")

FORMS = (
    "a name such as busybox:1.36 or localhost:5000/team/web, docker://NAME, sha256:ID, "
    "oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:NAME], dir:DIR, tar:FILE, "
    "aci:FILE or a path"
)

_ARCHIVES = (".aci", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
_LONGEST_REPOSITORY = 255


@dataclass(frozen=True)
class Reference:
    """A parsed reference to an image.

    ``kind`` is ``id``, ``registry`` or one of LOCAL_KINDS.  ``registry`` has ``host`` (docker.io
    for Docker Hub), ``repository``, ``tag`` (empty if there is only a digest) and ``digest`` (empty
    or sha256:HEX).  Local kinds have ``path`` (absolute) and ``tag``, the image's name in the file
    (empty
    if not given).  ``id`` has ``digest``, sha256: and 7 to 64 digits.  A registry's name that could
    also be an id has that in ``maybe_id``.
    """

    kind: str
    text: str
    host: str = ""
    repository: str = ""
    tag: str = ""
    digest: str = ""
    path: str = ""
    maybe_id: str = ""

    @property
    def name(self) -> str:
        """The canonical form, which is the image's name in the store."""
        if self.kind == "id":
            return self.digest
        if self.kind == "registry":
            tag = f":{self.tag}" if self.tag else ""
            return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" * bool(self.digest))
        return f"{self.kind}:{self.path}" + (f":{self.tag}" if self.tag else "")

    @property
    def base_name(self) -> str:
        """The last component without tag and extension, from which an app's name is derived."""
        if self.kind == "id":
            return self.digest.removeprefix("sha256:")[:12]
        if self.kind == "registry":
            return self.repository.rpartition("/")[2]
        name = os.path.basename(self.path)
        return name.removesuffix(_archive_suffix(name))

    @property
    def is_local(self) -> bool:
        """Return whether it refers to local files."""
        return self.kind in LOCAL_KINDS


def parse(text: str) -> Reference:
    """Parse ``text``.  Looks up nothing but the working directory, for relative paths.

    Raises ImageError.
    """
    if not text or not text.isprintable() or text != text.strip():
        raise ImageError(f"{text!r} names no image", FORMS)
    scheme, colon, rest = text.partition(":")
    if colon and scheme in LOCAL_KINDS and scheme != "path":
        return _local(scheme, text, rest)
    if text.startswith(("/", "./", "../", "file:")) or text in (".", ".."):
        path = text.removeprefix("file://").removeprefix("file:")
        return Reference("path", text, path=_absolute(text, path))
    if text.startswith("sha256:"):
        if not is_id_digits(text.removeprefix("sha256:")):
            raise ImageError(f'invalid image id "{text}"', "sha256: and 7 to 64 hexadecimal digits")
        return Reference("id", text, digest=text)
    if "://" in text and not text.startswith("docker://"):
        raise ImageError(f'"{text}": images are not fetched from such addresses', FORMS)
    if ":" not in text and _archive_suffix(text):
        return Reference("path", text, path=_absolute(text, text))
    return _registry(text)


def _local(kind: str, text: str, rest: str) -> Reference:
    if kind in ("dir", "tar", "aci"):
        return Reference(kind, text, path=_absolute(text, rest))
    # The first colon ends the path; the rest may contain colons.
    path, _, tag = rest.partition(":")
    return Reference(kind, text, path=_absolute(text, path), tag=tag)


def _absolute(text: str, path: str) -> str:
    if not path:
        raise ImageError(f'"{text}" names no file', FORMS)
    # POSIX gives a leading double slash a special meaning, and abspath preserves it.
    return "/" + os.path.abspath(path).lstrip("/")


def _registry(text: str) -> Reference:
    explicit = text.startswith("docker://")
    rest, at, digest = text.removeprefix("docker://").partition("@")
    if at and not (digest.startswith("sha256:") and is_digest(digest)):
        raise ImageError(
            f'"{text}": invalid digest "{digest}"', "sha256: and 64 hexadecimal digits"
        )
    # A colon after the last slash starts the tag; one before it starts the port.
    name, tag = rest, ""
    if ":" in rest.rpartition("/")[2]:
        name, _, tag = rest.rpartition(":")
        if not is_tag(tag):
            raise ImageError(f'"{text}": invalid tag "{tag}"', TAGS)
    host, repository = split_name(text, name)
    return Reference(
        "registry",
        text,
        host=host,
        repository=repository,
        tag=tag or ("" if digest else DEFAULT_TAG),
        digest=digest,
        maybe_id=f"sha256:{text}" if not explicit and is_id_digits(text) else "",
    )


def split_name(text: str, name: str) -> tuple[str, str]:
    """Split a name without tag and digest to (host, repository); ``text`` is for errors.

    Raises ImageError.
    """
    first, slash, rest = name.partition("/")
    if slash and is_host_alone(first):
        host, repository = first, rest
        if not is_host(host):
            raise ImageError(f'"{text}": invalid registry "{host}"', "HOST or HOST:PORT")
        host = registry_name(host)
    else:
        host, repository = DOCKER_HUB, name
    if host == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    if not is_repository(repository) or len(repository) > _LONGEST_REPOSITORY:
        hint = "repositories are written in lower case" if repository != repository.lower() else ""
        raise ImageError(f'invalid image name "{text}"', hint or FORMS)
    return host, repository


def _archive_suffix(name: str) -> str:
    """Return the extension if it is an archive's and not the whole name, else ""."""
    found = [suffix for suffix in _ARCHIVES if name.endswith(suffix) and name != suffix]
    return max(found, key=len, default="")
