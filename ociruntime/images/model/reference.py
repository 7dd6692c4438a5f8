"""Parse image references, as typed on the command line, without access to files or network.

    sha256:0123abcd...            an image in the store: its id, or the first 1 to 64 digits of it
    0123abcdef01                  the same if the store has such an image, otherwise a name
    docker://HOST/REPO[:TAG][@DIGEST]  busybox  HOST:PORT/REPO ...     an image in a registry
    oci:DIR[:TAG]  oci-archive:FILE[:TAG]  docker-archive:FILE[:NAME]  an image in a local file
    dir:DIR  tar:FILE  aci:FILE   a root filesystem, a tar archive of it, an App Container Image
    /DIR  ./FILE  ../FILE  FILE.aci  FILE.tar  FILE.tar.gz ...         the kind is detected

A reference is a path if it starts with a slash or a dot, or ends with an archive's extension.
Everything else is a name, even if the working directory has a file of that name.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model.digest import is_digest

DEFAULT_TAG = "latest"
LOCAL_KINDS = ("oci", "oci-archive", "docker-archive", "dir", "tar", "aci", "path")

FORMS = (
    "use a name such as busybox:1.36 or localhost:5000/team/web, docker://NAME, sha256:ID, "
    "oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:NAME], dir:DIR, tar:FILE, "
    "aci:FILE or a path"
)

_ARCHIVES = (".aci", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
_LONGEST_REPOSITORY = 255


@dataclass(frozen=True)
class Reference:
    """A parsed reference to an image.

    ``text`` is the reference as typed.  ``kind`` determines which other fields are set:

    ``registry``: ``host`` (docker.io for Docker Hub), ``repository``, ``tag`` ("" if the reference
    has only a digest) and ``digest`` ("" or sha256:HEX).  If the reference could also be an image
    id, ``maybe_id`` is that id, sha256:HEX.
    A kind in LOCAL_KINDS: ``path`` (absolute) and ``tag`` (name of the image in the file, or "").
    ``id``: ``digest``, which is sha256: followed by the id's digits or a prefix of them.

    ``platform`` is the platform that the user requested, "" for the machine's platform; ``parse``
    does not set it.
    """

    kind: str
    text: str
    host: str = ""
    repository: str = ""
    tag: str = ""
    digest: str = ""
    path: str = ""
    maybe_id: str = ""
    platform: str = ""

    @property
    def name(self) -> str:
        """The canonical form of the reference: the name of the image in the store."""
        if self.kind == "id":
            return self.digest
        if self.kind == "registry":
            tag = f":{self.tag}" if self.tag else ""
            return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" * bool(self.digest))
        return f"{self.kind}:{self.path}" + (f":{self.tag}" if self.tag else "")

    @property
    def is_local(self) -> bool:
        """True if the reference names a local file or directory."""
        return self.kind in LOCAL_KINDS


def parse(text: str) -> Reference:
    """Parse an image reference as typed; make a relative path absolute.

    Raises ImageError if the reference is invalid.
    """
    if not text or not text.isprintable() or text != text.strip():
        raise ImageError(f'invalid image reference "{text}"', FORMS)
    scheme, colon, rest = text.partition(":")
    if colon and scheme in LOCAL_KINDS and scheme != "path":
        return _local(scheme, text, rest)
    if text.startswith(("/", "./", "../", "file:")) or text in (".", ".."):
        path = text.removeprefix("file://").removeprefix("file:")
        return Reference("path", text, path=_absolute(text, path))
    if text.startswith("sha256:"):
        if not is_id_digits(text.removeprefix("sha256:")):
            hint = "an id is sha256: and up to 64 lower-case hexadecimal digits"
            raise ImageError(f'invalid image id "{text}"', hint)
        return Reference("id", text, digest=text)
    if "://" in text and not text.startswith("docker://"):
        scheme = text.partition("://")[0]
        raise ImageError(f'image "{text}": unsupported URL scheme "{scheme}"', FORMS)
    if ":" not in text and _archive_suffix(text):
        return Reference("path", text, path=_absolute(text, text))
    return _registry(text)


def _local(kind: str, text: str, rest: str) -> Reference:
    if kind in ("dir", "tar", "aci"):
        return Reference(kind, text, path=_absolute(text, rest))
    # The first colon ends the path; the tag after it may contain colons.
    path, _, tag = rest.partition(":")
    return Reference(kind, text, path=_absolute(text, path), tag=tag)


def _absolute(text: str, path: str) -> str:
    if not path:
        raise ImageError(f'image "{text}": missing path', FORMS)
    # POSIX gives a leading double slash a special meaning, and abspath preserves it.
    return "/" + os.path.abspath(path).lstrip("/")


def _registry(text: str) -> Reference:
    explicit = text.startswith("docker://")
    rest, at, digest = text.removeprefix("docker://").partition("@")
    if at and not (digest.startswith("sha256:") and is_digest(digest)):
        hint = "a digest is sha256: and 64 lower-case hexadecimal digits"
        raise ImageError(f'image "{text}": invalid digest "{digest}"', hint)
    # A colon after the last slash starts the tag; a colon before it starts the port.
    name, tag = rest, ""
    if ":" in rest.rpartition("/")[2]:
        name, _, tag = rest.rpartition(":")
        if not is_tag(tag):
            raise ImageError(f'image "{text}": invalid tag "{tag}"', TAGS)
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
    """Split ``name``, an image name without tag and digest, into (host, repository).

    Raises ImageError for an invalid name; the message quotes ``text``, the reference as typed.
    """
    first, slash, rest = name.partition("/")
    if slash and looks_like_host(first):
        host, repository = first, rest
        if not is_host(host):
            hint = "use HOST or HOST:PORT"
            raise ImageError(f'image "{text}": invalid registry "{host}"', hint)
        host = registry_name(host)
    else:
        host, repository = DOCKER_HUB, name
    if host == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    if not is_repository(repository) or len(repository) > _LONGEST_REPOSITORY:
        hint = "a repository must be lower case" if repository != repository.lower() else ""
        raise ImageError(f'invalid image name "{text}"', hint or FORMS)
    return host, repository


def _archive_suffix(name: str) -> str:
    """Return the archive extension of a file name, such as ".tar.gz"; "" if it has none."""
    suffixes = [suffix for suffix in _ARCHIVES if name.endswith(suffix) and name != suffix]
    return max(suffixes, key=len, default="")


LOWER = "0123456789abcdefghijklmnopqrstuvwxyz"
LETTERS = LOWER + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
HEXADECIMAL = "0123456789abcdef"
FEWEST_DIGITS, MOST_DIGITS = 1, 64  # digits in an image id or a prefix of it
SURE_DIGITS = 7  # a text of at least 7 hexadecimal digits is treated as an id, not as a name
DOCKER_HUB = "docker.io"
TAGS = "a tag has at most 128 letters, digits, _, . and -, and does not start with . or -"
# Aliases of Docker Hub, as a host or in credential files.
_HUB_ALIASES = ("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_HTTPS_PORT = 443
_LONGEST_TAG = 128
_LONGEST_PORT = 5


def consists_of(text: str, characters: str) -> bool:
    """Return whether every character of ``text`` is one of ``characters``."""
    return not text.strip(characters)


def is_id_digits(text: str) -> bool:
    """Return whether ``text`` is 1 to 64 hexadecimal digits: an image id or its prefix."""
    return FEWEST_DIGITS <= len(text) <= MOST_DIGITS and consists_of(text, HEXADECIMAL)


def is_tag(text: str) -> bool:
    """Return whether ``text`` is a valid tag (see TAGS for the rules)."""
    fits = 0 < len(text) <= _LONGEST_TAG and text[0] not in ".-"
    return fits and consists_of(text, LETTERS + "_.-")


def is_repository(text: str) -> bool:
    """Return whether ``text`` is a valid repository: components separated by slashes."""
    return all(_is_component(part) for part in text.split("/"))


def is_host(text: str) -> bool:
    """Return whether ``text`` is HOST or HOST:PORT; an IPv6 address must be in brackets."""
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        named = bool(bracket and address) and consists_of(address, HEXADECIMAL + "ABCDEF:")
        host, colon, port = rest.partition(":")
        named = named and not host
    else:
        host, colon, port = text.partition(":")
        named = all(_is_label(label) for label in host.split("."))
    return named and (not colon or _is_port(port))


def registry_name(host: str) -> str:
    """Return the canonical name of the registry HOST or HOST:PORT.

    Policies and credentials use this name.  It is in lower case; the aliases of Docker Hub become
    docker.io.  Port 443 is removed, unless the host alone would look like a repository
    (``hub:443/web``).
    """
    host = host.lower()
    name, colon, port = host.rpartition(":")
    if colon and _is_port(port):
        number = int(port)
        left_out = number == _HTTPS_PORT and looks_like_host(name)
        host = name if left_out else f"{name}:{number}"
    if host.startswith("["):
        host = _compressed(host)
    return DOCKER_HUB if host in _HUB_ALIASES else host


def _compressed(host: str) -> str:
    """Shorten the IPv6 address in ``[ADDRESS]`` or ``[ADDRESS]:PORT`` to its canonical form."""
    import ipaddress

    address, bracket, rest = host[1:].partition("]")
    try:
        return f"[{ipaddress.IPv6Address(address)}{bracket}{rest}"
    except ValueError:
        return host  # not a valid address: connecting will fail


def looks_like_host(text: str) -> bool:
    """Return whether ``text``, the first component of an image name, is a registry's host.

    As in docker, it is a host if it contains "." or ":", or is "localhost".
    """
    return "." in text or ":" in text or text == "localhost"


def prefix_name(prefix: str) -> str:
    """Return ``prefix``, HOST[:PORT][/PATH], with the registry's canonical name as host."""
    host, slash, path = prefix.partition("/")
    return f"{registry_name(host)}{slash}{path}"


def _is_port(text: str) -> bool:
    fits = 0 < len(text) <= _LONGEST_PORT and consists_of(text, DIGITS)
    return fits and 0 < int(text) < 65536


def _is_label(text: str) -> bool:
    """Return whether ``text`` can be a label of a hostname, such as ``example`` or ``my-host``."""
    return text.strip("-") == text != "" and consists_of(text, LETTERS + "-")


def _is_component(text: str) -> bool:
    """Return whether ``text`` can be a component of a repository's name.

    A component consists of lower-case letters and digits, with single separators between them: a
    dot, one or two underscores, or any number of dashes.
    """
    if text.strip("._-") != text or not text or not consists_of(text, LOWER + "._-"):
        return False
    between = "".join(letter if letter in "._-" else " " for letter in text).split()
    return all(run in (".", "_", "__") or consists_of(run, "-") for run in between)
