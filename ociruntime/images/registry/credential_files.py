"""Read and store registry credentials in files.

The files have the format of ``auth.json`` of podman, skopeo and Docker::

    {"auths": {"registry.example.org": {"auth": "<base64 of USER:PASSWORD>"},
               "registry.example.org/team": {"username": "...", "password": "..."},
               "docker.io": {"identitytoken": "..."}}}

The first file with a matching entry is used: our own ``auth.json`` files come before those of
podman, skopeo and Docker.  Within a file, the entry with the longest matching path wins.

Environment variables determine the paths of the other tools' files.  Under sudo these variables may
come from the calling user.  Therefore root ignores files that other users own, and warns.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.files import replace_file
from ociruntime.base.trusted_directories import owner_flaw
from ociruntime.images.model.reference import DOCKER_HUB, is_host, prefix_name, registry_name
from ociruntime.images.model.settings_files import Json, Settings, parse_object, read_object

FILE = "auth.json"
_LARGEST = 1 << 20  # bytes of a file


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials for a registry; ``token`` is an identity token, used instead of a password.

    ``repr`` hides the password and the token.
    """

    user: str
    password: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.user!r}, ...)"

    @property
    def basic(self) -> str:
        """The value of the Authorization header for basic authentication."""
        both = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(both).decode()}"


def credential(
    settings: Settings, host: str, repository: str, warn: Callable[[str], None]
) -> Credential | None:
    """Return the credentials for a repository; None if no file contains any.

    Calls ``warn`` for each file that is ignored because root does not trust its owner.  Raises
    HostError if a file cannot be read, ImageError if it is malformed.
    """
    for path, document in _documents(settings, warn):
        entries = _entries(path, document)
        for key in keys(host, repository):
            if key in entries:
                return _credential(path, *entries[key])
    return None


def hosts(settings: Settings, warn: Callable[[str], None]) -> dict[str, str]:
    """Return {HOST or HOST/PATH: path of the file} for all registries with credentials.

    Calls ``warn`` for each file that is ignored because root does not trust its owner.  Raises
    HostError if a file cannot be read, ImageError if it is malformed.
    """
    files: dict[str, str] = {}
    for path, document in _documents(settings, warn):
        for key in _entries(path, document):
            files.setdefault(key, path)
    return files


def keys(host: str, repository: str) -> list[str]:
    """Return the keys of ``auths`` that apply to a repository, most specific first.

    For example: ``quay.io/team/web``, ``quay.io/team``, ``quay.io``.
    """
    parts = repository.split("/")
    paths = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return [*(f"{host}/{path}" for path in paths), host]


def _documents(settings: Settings, warn: Callable[[str], None]) -> list[tuple[str, Json]]:
    documents = settings.documents("auth.json")
    for path in _paths_of_other_tools():
        document = _read_of_other_tool(path, warn)
        if document is not None:
            documents.append((path, document))
    return documents


def _read_of_other_tool(path: str, warn: Callable[[str], None]) -> Json | None:
    """Return the JSON object in another tool's credentials file; None if missing or untrusted.

    Checks the file before opening it for reading: opening a device can have side effects, and
    opening a FIFO can block.  Raises HostError if the file cannot be read, ImageError if it is
    malformed.
    """
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    try:
        status = os.fstat(place)
        if os.geteuid() == 0 and (problem := owner_flaw(status)):
            warn(
                f'ignoring the credentials in "{path}": the file {problem} (log in as root, or add '
                "the credentials to auth.json in a configuration directory)"
            )
            return None
        if not stat.S_ISREG(status.st_mode):
            raise ImageError(f'read credentials "{path}": not a regular file')
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(f"/proc/self/fd/{place}", flags), "rb") as file:
            data = file.read(_LARGEST + 1) or b""
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    finally:
        os.close(place)
    if len(data) > _LARGEST:
        raise ImageError(f'read credentials "{path}": the file is larger than {_LARGEST} bytes')
    return parse_object(data, path)


def _paths_of_other_tools() -> list[str]:
    """Return the paths of podman's, skopeo's and Docker's credentials files, in order of use."""
    environment = os.environ
    home = environment.get("HOME", "")
    paths = [environment.get("REGISTRY_AUTH_FILE", "")]
    if run := environment.get("XDG_RUNTIME_DIR", ""):
        paths.append(f"{run}/containers/auth.json")
    configuration = environment.get("XDG_CONFIG_HOME", "") or (home and f"{home}/.config")
    if configuration:
        paths.append(f"{configuration}/containers/auth.json")
    docker = environment.get("DOCKER_CONFIG", "") or (home and f"{home}/.docker")
    if docker:
        paths.append(f"{docker}/config.json")
    return [path for path in paths if path]


def _entries(path: str, document: Json) -> dict[str, tuple[str, Json]]:
    """Return {canonical key: (key as written, entry)} for the entries of a credentials file.

    Omits empty entries.  If several keys have the same canonical form, the key that is written in
    this form wins, otherwise the first key.  Raises ImageError if the file is malformed.
    """
    auths = document.get("auths", {})
    if not isinstance(auths, dict) or not all(
        isinstance(values, dict) for values in auths.values()
    ):
        raise ImageError(
            f'read "{path}": "auths" must be a JSON object whose values are JSON objects'
        )
    entries: dict[str, tuple[str, Json]] = {}
    for key, entry in auths.items():
        name = prefix_name(plain_key(key))
        if entry and (name not in entries or key == name):
            entries[name] = (key, entry)
    return entries


def plain_key(key: str) -> str:
    """Return a key of ``auths``, such as ``https://index.docker.io/v1/``, as HOST or HOST/PATH."""
    if "://" not in key:
        return key.rstrip("/")
    address = key.partition("://")[2].rstrip("/")
    return address.removesuffix("/v1").removesuffix("/v2")


def _is_text(value: object) -> bool:
    """Return whether ``value`` is a string without lone surrogates, which JSON can contain."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _credential(path: str, key: str, entry: Json) -> Credential:
    where = f'read credentials "{path}": auths["{key}"]'
    texts = {name: entry.get(name, "") for name in ("username", "password", "identitytoken")}
    if not all(_is_text(value) for value in texts.values()):
        raise ImageError(f"{where}: username, password and identitytoken must be strings")
    user, password, token = texts.values()
    encoded = entry.get("auth", "")
    if encoded and not user:
        try:
            decoded = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, ValueError, TypeError):
            raise ImageError(f"{where}.auth: invalid base64") from None
        user, colon, password = decoded.rstrip("\0").partition(":")
        if not colon:
            raise ImageError(f"{where}.auth: must be the base64 of USER:PASSWORD")
    if not user and not token:
        raise ImageError(f"{where}: must have auth, username or identitytoken")
    return Credential(user, password, token)


def registry_of(text: str) -> str:
    """Return the canonical name of a registry, given HOST[:PORT] or a URL; "" means Docker Hub.

    Raises ImageError if ``text`` is not a valid registry.
    """
    host = registry_name(plain_key(text)) if text else DOCKER_HUB
    if not is_host(host):
        raise ImageError(f'invalid registry "{text}"', "use HOST or HOST:PORT, such as quay.io")
    return host


def keep(directory: str, host: str, credential: Credential) -> str:
    """Store credentials for the registry ``host`` in ``DIRECTORY/auth.json``; return that path.

    Keeps the credentials for other registries.  Raises HostError if the file cannot be read or
    written, ImageError if it is malformed.
    """
    pair = f"{credential.user}:{credential.password}".encode()

    def put(auths: Json) -> bool:
        for key in [key for key in auths if registry_name(plain_key(key)) == host]:
            del auths[key]
        auths[host] = {"auth": base64.b64encode(pair).decode()}
        return True

    return _change(directory, put)[0]


def forget(directory: str, host: str) -> bool:
    """Remove the credentials for the registry ``host`` from ``DIRECTORY/auth.json``.

    Returns whether the file contained any.  Raises HostError if the file cannot be read or written,
    ImageError if it is malformed.
    """

    def drop(auths: Json) -> bool:
        keys = [key for key in auths if registry_name(plain_key(key)) == host]
        for key in keys:
            del auths[key]
        return bool(keys)

    return _change(directory, drop)[1]


def _change(directory: str, change: Callable[[Json], bool]) -> tuple[str, bool]:
    """Call ``change`` with the entries of ``DIRECTORY/auth.json``, which it may modify.

    If ``change`` returns True, rewrites the file.  Returns (path of the file, whether it was
    rewritten).  Raises HostError if the file cannot be read or written, ImageError if it is
    malformed.
    """
    path = f"{directory}/{FILE}"
    lock = -1
    try:
        os.makedirs(directory, 0o755, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)  # a concurrent login must not be lost
        document = read_object(path) or {}
        auths = document.setdefault("auths", {})
        if not isinstance(auths, dict):
            raise ImageError(f'read "{path}": "auths" must be a JSON object')
        changed = change(auths)
        if changed:
            text = json.dumps(document, indent=1).encode() + b"\n"
            replace_file(path, text, 0o600, lasting=True)
        return path, changed
    except OSError as error:
        raise HostError(f'write credentials to "{path}"', error) from None
    finally:
        with suppress(OSError):
            os.close(lock)
