"""OpenPGP keys and signatures made by ``gpg`` in a separate home."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

MISSING = "" if shutil.which("gpg") and shutil.which("gpgv") else "gpg or gpgv is not installed"


class GnuPG:
    """A home directory ``home`` of gpg, which must not exist; ``close`` ends the agent."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self.home = home

    def close(self) -> None:
        command = ["gpgconf", "--homedir", str(self.home), "--kill", "all"]
        subprocess.run(command, check=False, capture_output=True, timeout=30)

    def __call__(self, *args: str, data: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--yes"]
        command += ["--passphrase", "", "--pinentry-mode", "loopback", "--no-auto-check-trustdb"]
        done = subprocess.run([*command, *args], input=data, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def make_key(self, person: str) -> str:
        """Create a key; return its fingerprint."""
        self("--quick-generate-key", person, "ed25519", "sign", "never")
        listed = self("--with-colons", "--list-keys", person).decode().splitlines()
        return next(line.split(":")[9] for line in listed if line.startswith("fpr:"))

    def export(self, fingerprint: str, armor: bool = True) -> bytes:
        return self(*(["--armor"] if armor else []), "--export", fingerprint)

    def sign(self, fingerprint: str, data: bytes, *how: str) -> bytes:
        """Sign data.

        The option ``how`` is ``--sign``, ``--clear-sign`` or ``--detach-sign``, maybe with
        ``--armor``.
        """
        return self("--local-user", fingerprint, *how, "--output", "-", data=data)
