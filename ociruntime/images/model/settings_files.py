"""Read configuration files for images from the configuration directories, and merge them.

registries.json  {"mirrors": {"docker.io": ["localhost:5000", "mirror.example.org/hub"]}}
auth.json        credentials (images/registry/credential_files.py)
policy.json      which images are accepted (policy.py)
limits.json      limits of an image's resources (image_limits.py)
trustedkeys/     OpenPGP keys (trusted_keys.py)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.json_text import load
from ociruntime.images.model.image_limits import Limits
from ociruntime.images.model.reference import registry_name

Json = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """The configuration directories, as absolute paths; "" for a directory that is not used.

    Files in ``user`` override files in ``local``, which override files in ``system``.
    """

    system: str = ""
    local: str = ""
    user: str = ""

    @property
    def directories(self) -> list[str]:
        """The configuration directories that are used, highest precedence first."""
        return [directory for directory in (self.user, self.local, self.system) if directory]

    def documents(self, name: str) -> list[tuple[str, Json]]:
        """Return [(path, JSON object)] of the files called ``name``, highest precedence first.

        Raises HostError if a file cannot be read, ImageError if it is not a JSON object.
        """
        paths = [f"{directory}/{name}" for directory in self.directories]
        read = [(path, read_object(path)) for path in paths]
        return [(path, document) for path, document in read if document is not None]

    def mirrors(self) -> dict[str, list[str]]:
        """Return {registry: [mirrors to try before it]}, with mirrors as HOST[:PORT][/PATH].

        If several files list a registry, the file with the highest precedence wins.  Raises
        HostError if a file cannot be read, ImageError if it is invalid.
        """
        merged: dict[str, list[str]] = {}
        for path, document in reversed(self.documents("registries.json")):
            unknown = document.keys() - {"mirrors"}
            if unknown:
                raise ImageError(
                    f'read "{path}": unknown member "{min(unknown)}"', "supported: mirrors"
                )
            mirrors = document.get("mirrors", {})
            if not isinstance(mirrors, dict):
                raise ImageError(f'read "{path}": mirrors must be a JSON object')
            for host, addresses in mirrors.items():
                if not isinstance(addresses, list) or not all(
                    isinstance(address, str) and address and "://" not in address
                    for address in addresses
                ):
                    raise ImageError(
                        f'read "{path}": mirrors["{host}"] must be a list of HOST[:PORT][/PATH]'
                    )
                merged[registry_name(host)] = [address.rstrip("/") for address in addresses]
        return merged

    def limits(self) -> Limits:
        """Return the limits for images, merged from all ``limits.json`` files member by member.

        Raises HostError if a file cannot be read, ImageError if it is invalid.
        """
        from ociruntime.images.model.image_limits import FILE, Limits, read_limits

        merged: dict[str, int] = {}
        for path, document in reversed(self.documents(FILE)):
            merged |= read_limits(document, path)
        return Limits(**merged)


def read_object(path: str) -> Json | None:
    """Return the JSON object in the file ``path``; None if the file does not exist.

    Raises HostError if the file cannot be read, ImageError if it is not a JSON object.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    return parse_object(data, path)


def parse_object(data: bytes, path: str) -> Json:
    """Return the JSON object in ``data``, the content of the file ``path``.

    Raises ImageError if ``data`` is not a JSON object.
    """
    try:
        document = load(data)
    except (ValueError, RecursionError) as error:
        raise ImageError(f'read "{path}": invalid JSON: {error}') from None
    if not isinstance(document, dict):
        raise ImageError(f'read "{path}": the file is not a JSON object')
    return document
