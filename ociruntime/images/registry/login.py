"""Log in to registries: check credentials, and store them in an ``auth.json`` (auth.py)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.files import replace_file
from ociruntime.images.model.reference import DOCKER_HUB, is_host, registry_name
from ociruntime.images.model.settings import Json, read_object
from ociruntime.images.registry.auth import Credential, plain_key
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.registry.registry import Registry

FILE = "auth.json"


def registry_of(text: str) -> str:
    """Return a registry's canonical name, given HOST[:PORT] or a URL; "" means Docker Hub.

    Raises ImageError.
    """
    host = registry_name(plain_key(text)) if text else DOCKER_HUB
    if not is_host(host):
        raise ImageError(f'invalid registry "{text}"', "use HOST or HOST:PORT, such as quay.io")
    return host


def check(http: HttpClient, host: str, credential: Credential) -> None:
    """Check that the registry ``host`` accepts the credentials.  Raises RegistryError if not."""
    Registry(host, "", http, credential).ping()


def keep(directory: str, host: str, credential: Credential) -> str:
    """Add a registry's credentials to ``auth.json`` in ``directory``; return the file's path.

    Credentials of other registries are kept.  Raises HostError, and ImageError if the file is
    malformed.
    """
    pair = f"{credential.user}:{credential.password}".encode()

    def put(auths: Json) -> bool:
        for key in [key for key in auths if registry_name(plain_key(key)) == host]:
            del auths[key]
        auths[host] = {"auth": base64.b64encode(pair).decode()}
        return True

    return _change(directory, put)[0]


def forget(directory: str, host: str) -> bool:
    """Remove a registry's credentials from ``auth.json``; return whether there were any.

    Raises HostError, ImageError.
    """

    def drop(auths: Json) -> bool:
        keys = [key for key in auths if registry_name(plain_key(key)) == host]
        for key in keys:
            del auths[key]
        return bool(keys)

    return _change(directory, drop)[1]


def _change(directory: str, change: Callable[[Json], bool]) -> tuple[str, bool]:
    """Call ``change`` with the entries of ``auth.json``; rewrite the file if it returns True.

    Returns (path of the file, whether it was rewritten).  Raises HostError, ImageError.
    """
    path = f"{directory}/{FILE}"
    lock = -1
    try:
        os.makedirs(directory, 0o755, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)  # two logins at once: neither may undo the other
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
