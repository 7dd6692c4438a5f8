"""Check and compute the digests of blobs and images, such as ``sha256:HEX`` or ``sha512:HEX``."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ociruntime.base.errors import ImageError

if TYPE_CHECKING:
    from hashlib import _Hash

LENGTHS = {"sha256": 64, "sha512": 128}  # digits


def check_digest(text: object, what: str = "") -> str:
    """Return ``text`` if it is a valid digest, and therefore safe as a part of a path.

    Raises ImageError otherwise; ``what`` names the source of the digest in the error message.
    """
    if not isinstance(text, str) or not is_digest(text):
        hint = "a digest is sha256: and 64 hexadecimal digits, or sha512: and 128"
        raise ImageError(f'{what}{": " * bool(what)}invalid digest "{text}"', hint)
    return text


def is_digest(text: str) -> bool:
    """Return whether ``text`` is a valid ``sha256:`` or ``sha512:`` digest."""
    algorithm, _, digits = text.partition(":")
    return LENGTHS.get(algorithm) == len(digits) and not digits.strip("0123456789abcdef")


def hasher(digest: str) -> _Hash:
    """Return a new hash object for the algorithm of ``digest``, which must be valid."""
    return hashlib.new(digest.partition(":")[0])


def digest_of(content: bytes, like: str = "sha256:") -> str:
    """Return the digest of ``content``, with the same algorithm as the digest ``like``."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def check_content(content: bytes, digest: str, what: str) -> None:
    """Raise ImageError if the digest of ``content`` is not ``digest``.

    ``what`` names the content in the error message.
    """
    actual = digest_of(content, digest)
    if actual != digest:
        raise ImageError(f"{what}: digest mismatch: expected {digest}, got {actual}")


def chain_id(diff_ids: list[str]) -> str:
    """Return the ChainID of layers, as defined in image-spec, config.md.

    ``diff_ids`` lists the layers' diff_ids, lowest layer first.
    """
    if not diff_ids:
        return digest_of(b"")
    chain = diff_ids[0]
    for diff_id in diff_ids[1:]:
        chain = digest_of(f"{chain} {diff_id}".encode())
    return chain
