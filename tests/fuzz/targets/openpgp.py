"""OpenPGP: any bytes are refused, or are keys whose packets are parts of the input."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator

from ociruntime.images.trust.openpgp import _signer, is_detached, read_keys
from tests.fuzz.target import Target, refusals

_BODY = b"\x04" + bytes(4) + b"\x16" + bytes(20)
_USER = b"a <a@example.com>"


def _old(tag: int, body: bytes) -> bytes:
    return bytes([0x80 | tag << 2, len(body)]) + body


def _new(tag: int, body: bytes, kind: int = 0) -> bytes:
    first = bytes([0xC0 | tag])
    if kind == 1:
        return first + bytes([((len(body) - 192) >> 8) + 192, (len(body) - 192) & 255]) + body
    if kind == 2:
        return first + b"\xff" + len(body).to_bytes(4) + body
    return first + bytes([len(body)]) + body


def run(data: bytes) -> None:
    is_detached(data)
    with refusals():
        keys = read_keys(data, "the key")
        assert keys
        for key in keys:
            assert len(key.fingerprint) == 40
            (again,) = read_keys(key.data, "the same key")
            assert again == key, "a key's own packets are another key"
    with refusals():
        assert _signer(data.decode("utf-8", "replace"), 0)


def seeds() -> Iterator[bytes]:
    key = _old(6, _BODY) + _new(13, _USER) + _new(2, bytes(9)) + _new(14, _BODY)
    yield key
    yield key + _new(6, _BODY, 2) + _new(17, bytes(200), 1)
    text = base64.encodebytes(key)
    for kind in (b"PUBLIC KEY BLOCK", b"SIGNATURE"):
        head = b"-----BEGIN PGP " + kind + b"-----\n"
        yield head + b"Version: 1\n\n" + text + b"=abcd\n-----END PGP " + kind + b"-----\n"
    yield _new(2, bytes(40))
    yield _old(5, _BODY)
    status = (
        "[GNUPG:] GOODSIG 0 a\n[GNUPG:] VALIDSIG " + "A" * 40 + " 2026 1 0 4 0 1 10 00 " + "B" * 40
    )
    yield status.encode()


def mutate(data: bytes, rng: random.Random) -> bytes:
    if data.startswith(b"-----") or not data:
        at = rng.randrange(len(data) + 1)
        piece = rng.choice(
            (b"\n", b"\r\n", b"=", b"-----", b"\n\n", b"A", b"-----END PGP SIGNATURE-----")
        )
        return data[:at] + piece + data[at + rng.choice((0, 1, 4)) :]
    at = rng.randrange(len(data))
    size = rng.choice((0, 1, 191, 192, 223, 224, 254, 255))
    piece = rng.choice((bytes([size]), bytes([rng.randrange(128, 256)]), rng.randbytes(2), b""))
    return data[:at] + piece + data[at + rng.choice((0, 1, 1, 2)) :]


TARGET = Target(
    run,
    ("images/trust/openpgp.py",),
    seeds,
    mutate,
    ("-----BEGIN PGP ", "-----END PGP ", "VALIDSIG ", "[GNUPG:] "),
)
