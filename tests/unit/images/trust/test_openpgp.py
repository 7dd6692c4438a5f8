"""Invalid OpenPGP key files, and signatures that ``gpgv`` does not handle."""

from __future__ import annotations

import base64
import errno
import os
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.trust import openpgp
from ociruntime.images.trust.openpgp import Key, read_keys, verify

# Packets with the old headers: a tag, a length of one byte, a body.
PUBLIC = b"\x98\x06\x04" + bytes(5)
USER = b"\xb4\x05Alice"
SECRET = b"\x94\x06\x04" + bytes(5)


def armored(data: bytes) -> bytes:
    body = base64.b64encode(data)
    begin, end = (b"-----%s PGP PUBLIC KEY BLOCK-----\n" % word for word in (b"BEGIN", b"END"))
    return begin + b"Comment: x\n\n" + body + b"\n=AAAA\n" + end


def test_keys() -> None:
    (binary,) = read_keys(PUBLIC + USER, "it")
    assert (binary.user_ids, binary.data) == (("Alice",), PUBLIC + USER)
    assert read_keys(armored(PUBLIC + USER), "it") == [binary]
    assert len(read_keys(armored(PUBLIC + USER) + armored(PUBLIC), "it")) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it: .*no public key"),
        (USER, "it: .*no public key"),
        (PUBLIC + SECRET, "it: .*a secret key"),
        (b"\x98\x06\x03" + bytes(5), "it: .*key version"),
        (PUBLIC[:5], "it: truncated OpenPGP packet"),
        (PUBLIC + b"\xb4", "it: truncated OpenPGP packet"),
        (PUBLIC + b"\xb5\x00", "it: truncated OpenPGP packet"),
        (PUBLIC + b"\xcd\xff\x00", "it: truncated OpenPGP packet"),
        (PUBLIC + b"\xcd\xff\x00\x00\x00", "it: truncated OpenPGP packet"),
        (PUBLIC + b"\xcd\xc1", "it: truncated OpenPGP packet"),
        (PUBLIC + b"\xcd\xe1", "it: .*OpenPGP key"),
        (b"hello", "it: .*OpenPGP key"),
        (armored(PUBLIC)[:-10], "it: .*ASCII-armored"),
        (armored(PUBLIC).replace(b"m", b"?"), "it: .*valid base64"),
    ],
)
def test_what_is_no_key(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_keys(data, "it")


def test_gpgv_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openpgp, "find_program", lambda name: "")
    keys = [Key("0" * 40, (), PUBLIC)]
    with pytest.raises(ImageError, match="program gpgv"):
        verify(b"x", b"y", keys)
    (tmp_path / "gpgv").touch()
    monkeypatch.setattr(openpgp, "find_program", lambda name: f"{tmp_path}/{name}")
    with pytest.raises(HostError, match="run gpgv: permission denied"):
        verify(b"x", b"y", keys)


def test_another_gpgv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports a good signature, but not the signed content."""
    monkeypatch.setattr(openpgp, "find_program", lambda name: f"{tmp_path}/{name}")
    good = "[GNUPG:] GOODSIG 1\n[GNUPG:] VALIDSIG 12 34"
    (tmp_path / "gpgv").write_text(f"#!/bin/sh\necho '{good}' >&2\n")
    (tmp_path / "gpgv").chmod(0o755)
    assert verify(b"x", b"y", []) == ("34", b"y")
    with pytest.raises(ImageError, match=r"^verify the OpenPGP signature: "):
        verify(b"x", None, [])


def test_a_signature_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is decompressed before the signer is known: 3 KiB became 3 GB."""
    monkeypatch.setattr(openpgp, "find_program", lambda name: f"{tmp_path}/{name}")
    (tmp_path / "gpgv").write_text("#!/bin/sh\nexec cat /dev/zero\n")
    (tmp_path / "gpgv").chmod(0o755)
    with pytest.raises(ImageError, match="larger than 4194304"):
        verify(b"x", None, [])


def test_a_gpgv_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openpgp, "find_program", lambda name: f"{tmp_path}/{name}")
    monkeypatch.setattr(openpgp, "TIMEOUT", 0.2)
    (tmp_path / "gpgv").write_text("#!/bin/sh\nexec sleep 100\n")
    (tmp_path / "gpgv").chmod(0o755)
    with pytest.raises(HostError, match="run gpgv: timed out after 0 s"):
        verify(b"x", None, [])


def test_temporary_files_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openpgp, "find_program", lambda name: f"{tmp_path}/{name}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(HostError, match="directory for gpgv: no such file"):
        verify(b"x", None, [])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(path: str, mode: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(openpgp, "open", fail, raising=False)
    with pytest.raises(HostError, match='/keys": no space left'):
        verify(b"x", None, [])
    assert list(tmp_path.iterdir()) == []
