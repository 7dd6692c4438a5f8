"""Configuration files for images, and how those of several directories are combined.

``registries.json``  {"mirrors": {"docker.io": ["localhost:5000", "mirror.example.org/hub"]}}
``auth.json``        credentials (registry/auth.py)
``policy.json``      which images are accepted (policy.py)
``limits.json``      limits of an image's resources (limits.py)
``trustedkeys/``     OpenPGP keys (trusted_keys.py)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.json_text import load
from ociruntime.images.model.limits import Limits
from ociruntime.images.model.reference import registry_name

Json = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """The three configuration directories, as absolute paths; "" for one that does not exist."""

    system: str = ""
    local: str = ""
    user: str = ""

    @property
    def directories(self) -> list[str]:
        """The directories, highest precedence first."""
        return [directory for directory in (self.user, self.local, self.system) if directory]

    def documents(self, name: str) -> list[tuple[str, Json]]:
        """Return (path, document) of each file called ``name``, highest precedence first.

        Raises HostError, ImageError.
        """
        paths = [f"{directory}/{name}" for directory in self.directories]
        found = [(path, read_object(path)) for path in paths]
        return [(path, document) for path, document in found if document is not None]

    def mirrors(self) -> dict[str, list[str]]:
        """Return registry -> mirrors to try before it; the list of the highest precedence wins.

        Raises HostError, ImageError.
        """
        merged: dict[str, list[str]] = {}
        for path, document in reversed(self.documents("registries.json")):
            unknown = document.keys() - {"mirrors"}
            if unknown:
                raise ImageError(f'{path}: unknown member "{min(unknown)}"', "mirrors")
            mirrors = document.get("mirrors", {})
            if not isinstance(mirrors, dict):
                raise ImageError(f"{path}: mirrors: not an object")
            for host, places in mirrors.items():
                if not isinstance(places, list) or not all(
                    isinstance(place, str) and place and "://" not in place for place in places
                ):
                    hint = "a list of HOST[:PORT][/PATH]"
                    raise ImageError(f'{path}: mirrors["{host}"] is wrong', hint)
                merged[registry_name(host)] = [place.rstrip("/") for place in places]
        return merged

    def limits(self) -> Limits:
        """Return the limits of an image; for each one the file of the highest precedence wins.

        Raises HostError, ImageError.
        """
        from ociruntime.images.model.limits import FILE, Limits, read_limits

        merged: dict[str, int] = {}
        for path, document in reversed(self.documents(FILE)):
            merged |= read_limits(document, path)
        return Limits(**merged)


def read_object(path: str) -> Json | None:
    """Return the JSON object in a file, None if it does not exist.

    Raises HostError, ImageError.
    """
    try:
        with open(path, "rb") as file:
            document = load(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f"read {path}", error) from None
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ImageError(f"{path}: not a JSON object")
    return document
