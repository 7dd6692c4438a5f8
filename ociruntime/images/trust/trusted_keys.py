"""Read and write the files with OpenPGP keys that are trusted to sign images.

    trustedkeys/root.d/FINGERPRINT                  trusted for every image
    trustedkeys/prefix.d/PREFIX/FINGERPRINT         trusted for images whose names begin with PREFIX

Every configuration directory may contain such files.  In PREFIX, a comma stands for a slash.  An
empty file masks the file of that name in directories with lower precedence.
"""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.files import replace_file
from ociruntime.images.model.reference import LOCAL_KINDS, prefix_name
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.trust.openpgp import Key, read_keys
from ociruntime.images.trust.policy import covers

ROOT = "root.d"


def directory_of(prefix: str) -> str:
    """Return the subdirectory of ``trustedkeys`` for a prefix of image names.

    The prefix "" stands for all images.
    """
    return f"prefix.d/{prefix.replace('/', ',')}" if prefix else ROOT


def keys_for(name: str, settings: Settings) -> list[Key]:
    """Return the trusted keys that may sign images called ``name``.

    Raises HostError if a file cannot be read, ImageError if it contains no valid key.
    """
    keys: dict[str, Key] = {}
    for relative, path in _files(settings).items():
        prefix = prefix_of(os.path.dirname(relative))
        data = _read(path) if not prefix or covers(prefix, name) else b""
        if data:
            keys |= {key.fingerprint: key for key in read_keys(data, f'read OpenPGP key "{path}"')}
    return list(keys.values())


def overview(settings: Settings) -> dict[str, list[str]]:
    """Return the trusted keys as {prefix of image names, "" for all images: [fingerprints]}.

    Raises HostError if a file cannot be read.
    """
    names: dict[str, list[str]] = {}
    for relative, path in sorted(_files(settings).items()):
        if _read(path):
            prefix = prefix_of(os.path.dirname(relative))
            names.setdefault(prefix, []).append(os.path.basename(path))
    return names


def prefix_of(directory: str) -> str:
    """Return the prefix of image names for ``directory``, a subdirectory of ``trustedkeys``.

    This is the inverse of ``directory_of``, except that it converts the registry's name to its
    canonical form.
    """
    if directory == ROOT:
        return ""
    prefix = directory.removeprefix("prefix.d/").replace(",", "/")
    local = prefix.partition(":")[0] in LOCAL_KINDS
    return prefix if local else prefix_name(prefix)


def _files(settings: Settings) -> dict[str, str]:
    """Return {path relative to ``trustedkeys``: absolute path} of all key files.

    If several configuration directories contain the same relative path, the directory with the
    highest precedence wins.
    """
    files: dict[str, str] = {}
    for directory in settings.directories:
        top = f"{directory}/trustedkeys"
        for below in (ROOT, *(f"prefix.d/{escaped}" for escaped in _names(f"{top}/prefix.d"))):
            for fingerprint in _names(f"{top}/{below}"):
                files.setdefault(f"{below}/{fingerprint}", f"{top}/{below}/{fingerprint}")
    return files


def add_key(directory: str, prefix: str, key: Key) -> str:
    """Write a trusted key to a file in the configuration directory; return the file's path.

    The key may sign images whose names begin with ``prefix``, or all images if it is "".  Raises
    HostError if the file cannot be written.
    """
    parent = f"{directory}/trustedkeys/{directory_of(prefix)}"
    path = f"{parent}/{key.fingerprint}"
    try:
        os.makedirs(parent, 0o755, exist_ok=True)
        replace_file(path, key.data, lasting=True)
        os.chmod(path, 0o644)  # independent of the umask
    except OSError as error:
        raise HostError(f'write trusted key "{path}"', error) from None
    return path


def read_key_file(path: str) -> list[Key]:
    """Return the OpenPGP keys in the file ``path``.

    Raises HostError if it cannot be read, ImageError if it contains no valid key.
    """
    data = _read(path)
    if not data:
        raise ImageError(f'read OpenPGP keys "{path}": the file is empty')
    return read_keys(data, f'read OpenPGP keys "{path}"')


def _names(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise HostError(f'read directory "{directory}"', error) from None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise HostError(f'read OpenPGP key "{path}"', error) from None
