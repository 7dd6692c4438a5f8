"""Check and derive names of apps and volumes.

A name consists of words of ``[a-z0-9]``, joined by single dashes, and has at most 200 characters.
"""

from __future__ import annotations

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_LONGEST = 200  # leaves room for prefixes and suffixes in a file name (255)


def is_name(text: str) -> bool:
    """Return whether ``text`` is a valid name of an app or volume."""
    return bool(text) and text == _spelled(text) and len(text) <= _LONGEST


def name_of_image(reference: str) -> str:
    """Derive an app's name from the last component of an image's ``reference``.

    ``docker://registry:5000/team/My_App:1.2@sha256:...`` gives ``my-app``.  Returns "" if the
    component has no valid characters.
    """
    text = reference.partition("@")[0]
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ("docker", "oci", "oci-archive", "docker-archive", "dir", "tar", "file"):
        text = rest
    last = text.rstrip("/").rpartition("/")[2]
    last = last.partition(":")[0]
    for ending in (".aci", ".tar", ".tar.gz", ".tgz", ".oci"):
        last = last.removesuffix(ending)
    return _spelled(last.lower())[:_LONGEST].rstrip("-")


def volume_of_path(path: str) -> str:
    """Derive a volume's name from its path: ``/var/lib/data`` gives ``volume-var-lib-data``."""
    return _spelled(f"volume-{path.lower()}")[:_LONGEST].rstrip("-")


def _spelled(text: str) -> str:
    """Convert ``text`` to a name of valid characters, or to "" if it contains no valid characters.

    Removes invalid characters at both ends.  Replaces each sequence of invalid characters between
    valid characters with a dash.
    """
    parts: list[str] = []
    word = ""
    for character in text:
        if character in _LETTERS:
            word += character
        elif word:
            parts.append(word)
            word = ""
    if word:
        parts.append(word)
    return "-".join(parts)
