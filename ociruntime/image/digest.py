"""Digests: ``sha256:`` or ``sha512:`` and hexadecimal digits."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from ociruntime.errors import ImageError

if TYPE_CHECKING:
    from hashlib import _Hash

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


def check_digest(text: object) -> str:
    """``text`` itself.  Raises ImageError if it is no digest: it becomes part of a path."""
    if not isinstance(text, str) or not _DIGEST.fullmatch(text):
        raise ImageError(f'no digest: "{text}"', "sha256:, or sha512:, and hexadecimal digits")
    return text


def is_digest(text: str) -> bool:
    """Whether ``text`` is one of a known algorithm."""
    return _DIGEST.fullmatch(text) is not None


def hasher(digest: str) -> _Hash:
    """A fresh hash of the kind that ``digest`` (checked) names."""
    return hashlib.new(digest.partition(":")[0])


def digest_of(content: bytes, like: str = "sha256:") -> str:
    """The digest of ``content``, by the algorithm of the digest ``like``."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def check_content(content: bytes, digest: str, what: str) -> None:
    """Raises ImageError unless ``content`` has this digest (checked)."""
    found = digest_of(content, digest)
    if found != digest:
        raise ImageError(f"digest mismatch of {what}: {found} instead of {digest}")


def chain_id(diff_ids: list[str]) -> str:
    """The identity of layers applied in order (image-spec, config.md): same id, same tree."""
    if not diff_ids:
        return digest_of(b"")
    chain = diff_ids[0]
    for diff_id in diff_ids[1:]:
        chain = digest_of(f"{chain} {diff_id}".encode())
    return chain
