"""OpenPGP (RFC 4880): parse public keys, and verify signatures with ``gpgv``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.host_programs import find_program
from ociruntime.images.model.manifest import LARGEST_DOCUMENT

TIMEOUT = 60.0  # seconds for gpgv
_PUBLIC_KEY, _USER_ID, _SIGNATURE = 6, 13, 2  # packet tags
_SECRET_KEYS = (5, 7)
_ARMOR = re.compile(rb"-----BEGIN PGP ([A-Z ]+)-----\r?\n(.*?)-----END PGP \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Key:
    """An OpenPGP public key: its fingerprint (40 upper-case digits), user ids and binary data."""

    fingerprint: str
    user_ids: tuple[str, ...]
    data: bytes


def read_keys(data: bytes, what: str) -> list[Key]:
    """Return the public keys in ``data``, which is binary or ASCII-armored.

    Raises ImageError if the data contains no valid public key, or if it contains a secret key.
    ``what`` describes the data in the error message.
    """
    binary = dearmored(data, what) if data.lstrip().startswith(b"-----") else data
    # For each key: (body of its packet, [(tag, body)] of the packets after it, begin, end).
    keys: list[tuple[bytes, list[tuple[int, bytes]], int, int]] = []
    for tag, body, begin, end in _packets(binary, what):
        if tag in _SECRET_KEYS:
            raise ImageError(
                f"{what}: contains a secret key", "export public keys with gpg --export"
            )
        if tag == _PUBLIC_KEY:
            keys.append((body, [], begin, end))
        elif not keys:
            raise ImageError(f"{what}: contains no public key")
        else:
            first = keys[-1]
            keys[-1] = (first[0], [*first[1], (tag, body)], first[2], end)
    if not keys:
        raise ImageError(f"{what}: contains no public key")
    return [
        Key(
            _fingerprint(body, what),
            tuple(text.decode(errors="replace") for tag, text in others if tag == _USER_ID),
            binary[begin:end],
        )
        for body, others, begin, end in keys
    ]


def dearmored(data: bytes, what: str) -> bytes:
    """Return the content of the ASCII-armored blocks in OpenPGP data, decoded and joined.

    Raises ImageError if there is no complete block, or if its base64 is invalid.
    """
    blocks = [block[2] for block in _ARMOR.finditer(data)]
    if not blocks:
        raise ImageError(f"{what}: contains no complete ASCII-armored block")
    return b"".join(_block(block, what) for block in blocks)


def _block(block: bytes, what: str) -> bytes:
    lines = [line.strip() for line in block.splitlines()]
    # A block consists of headers, an empty line, base64 and a line "=CHECKSUM".
    body = lines[lines.index(b"") + 1 :] if b"" in lines else lines
    text = b"".join(line for line in body if not line.startswith(b"="))
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ImageError(f"{what}: ASCII armor is not valid base64") from None


def _packets(data: bytes, what: str) -> Iterator[tuple[int, bytes, int, int]]:
    """Yield (tag, body, begin, end) of each OpenPGP packet in ``data``.

    ``data[begin:end]`` is the whole packet, including its header.  Raises ImageError if the data is
    truncated or not OpenPGP; ``what`` describes it in the error message.
    """
    at = 0
    while at < len(data):
        begin, first = at, data[at]
        try:
            tag, length, at = _header(data, at + 1, first)
        except IndexError:
            raise ImageError(f"{what}: truncated OpenPGP packet") from None
        if not first & 0x80 or length < 0:
            raise ImageError(f"{what}: not an OpenPGP key")
        if at + length > len(data):
            raise ImageError(f"{what}: truncated OpenPGP packet")
        yield tag, data[at : at + length], begin, at + length
        at += length


def _header(data: bytes, at: int, first: int) -> tuple[int, int, int]:
    """Return (tag, length of the body, offset of the body) of an OpenPGP packet.

    ``first`` is the packet's first byte, ``at`` the offset of its second byte in ``data``.  The
    length is -1 if the packet's header does not state it (partial or indeterminate length).
    """
    if first & 0x40:
        tag, length = first & 0x3F, data[at]
        if length < 192:
            return tag, length, at + 1
        if length < 224:
            return tag, ((length - 192) << 8) + data[at + 1] + 192, at + 2
        return tag, int.from_bytes(data[at + 1 : at + 5]) if length == 255 else -1, at + 5
    tag, kind = (first >> 2) & 0x0F, first & 3
    size = (1, 2, 4, 0)[kind]
    return tag, int.from_bytes(data[at : at + size]) if size else -1, at + size


def _fingerprint(body: bytes, what: str) -> str:
    if body[:1] != b"\x04":
        raise ImageError(f"{what}: unsupported OpenPGP key version", "supported: 4")
    framed = b"\x99" + len(body).to_bytes(2) + body
    return hashlib.sha1(framed, usedforsecurity=False).hexdigest().upper()


def is_detached(signature: bytes) -> bool:
    """Return whether an OpenPGP signature is detached: it does not contain the signed content."""
    if signature.lstrip().startswith(b"-----"):
        return signature.lstrip().startswith(b"-----BEGIN PGP SIGNATURE-----")
    first = signature[0] if signature else 0
    return bool(first & 0x80) and _header(signature + bytes(6), 1, first)[0] == _SIGNATURE


def verify(signature: bytes, content: bytes | None, keys: Iterable[Key]) -> tuple[str, bytes]:
    """Verify an OpenPGP signature; return (fingerprint of the signer's key, signed content).

    ``content`` is the signed content if the signature is detached; None if ``signature`` contains
    the content.  Raises ImageError if the signature is invalid or was not made with one of
    ``keys``, or if gpgv is not installed.  Raises HostError if gpgv cannot be run.
    """
    program = find_program("gpgv")
    if not program:
        raise ImageError("OpenPGP signatures need the program gpgv", "install the package gpgv")
    files = {"keys": b"".join(key.data for key in keys), "signature": signature}
    if content is not None:
        files["content"] = content
    with _temporary_files(files) as home:
        command = [program, "--homedir", home, "--keyring", f"{home}/keys", "--status-fd", "2"]
        if content is None:
            command += ["--output", "-", f"{home}/signature"]
        else:
            command += [f"{home}/signature", f"{home}/content"]
        status, code, signed = _run(command, f"{home}/status")
        signer = _signer(status, code)
        if content is not None:
            return signer, content
        if not signed:
            hint = "create it with gpg --sign, or with gpg --detach-sign over the image's manifest"
            raise ImageError("verify the OpenPGP signature: it contains no signed document", hint)
        return signer, signed


@contextmanager
def _temporary_files(files: dict[str, bytes]) -> Iterator[str]:
    """Yield a temporary directory that contains ``files``, {name: content}.  Raises HostError."""
    try:
        directory = tempfile.TemporaryDirectory(prefix="ocipod-gpgv-")
    except OSError as error:
        raise HostError("create a temporary directory for gpgv", error) from None
    with directory as home:
        for name, data in files.items():
            try:
                with open(f"{home}/{name}", "wb") as file:
                    file.write(data)
            except OSError as error:
                raise HostError(f'write "{home}/{name}"', error) from None
        yield home


def _run(command: list[str], status: str) -> tuple[str, int, bytes]:
    """Run gpgv; return (status lines, exit status, output).

    The status lines (``--status-fd``) go through the file ``status``.  The size of the output is
    limited, because gpgv decompresses content before it verifies the signature: a few kilobytes can
    expand to gigabytes.  Raises ImageError if the output is too large, HostError if gpgv cannot be
    run or times out.
    """
    try:
        with (
            open(status, "wb") as errors,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            ) as child,
        ):
            assert child.stdout is not None
            timer = threading.Timer(TIMEOUT, child.kill)
            timer.start()
            try:
                signed = child.stdout.read(LARGEST_DOCUMENT + 1)
                if len(signed) <= LARGEST_DOCUMENT:
                    child.wait()
            finally:
                late = not timer.is_alive()
                timer.cancel()
                child.kill()
        if late:
            raise TimeoutError(f"timed out after {TIMEOUT:.0f} s")
        if len(signed) > LARGEST_DOCUMENT:
            message = f"the signed content is larger than {LARGEST_DOCUMENT} bytes"
            raise ImageError(f"verify the OpenPGP signature: {message}")
        with open(status, "rb") as file:
            lines = file.read(LARGEST_DOCUMENT).decode(errors="replace")
        return lines, child.returncode, signed
    except OSError as error:
        raise HostError("run gpgv", error) from None


def _signer(status: str, code: int) -> str:
    """Return the fingerprint of the signer's primary key, from gpgv's ``status`` lines.

    Raises ImageError unless the signature is good and gpgv's exit status ``code`` is 0.
    """
    lines = [line.split() for line in status.split("\n") if line.startswith("[GNUPG:] ")]
    reports = {line[1]: line[2:] for line in lines if len(line) > 1}
    if code == 0 and "GOODSIG" in reports and reports.get("VALIDSIG"):
        return reports["VALIDSIG"][-1]
    reasons = {
        "BADSIG": "the signature does not match the content",
        "EXPSIG": "the signature has expired",
        "EXPKEYSIG": "the key has expired",
        "REVKEYSIG": "the key was revoked",
        "NO_PUBKEY": "the key is not trusted for this image",
        "ERRSIG": "gpgv cannot check the signature",
        "NODATA": "not an OpenPGP signature",
    }
    reason = next((text for word, text in reasons.items() if word in reports), "rejected by gpgv")
    by = reports.get("NO_PUBKEY") or reports.get("BADSIG") or []
    raise ImageError(f"verify the OpenPGP signature: {reason}" + (f" (key {by[0]})" if by else ""))
