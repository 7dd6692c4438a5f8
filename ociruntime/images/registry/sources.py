"""Sources of an image: the mirrors of its registry in order, then the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model.reference import Reference, prefix_name
from ociruntime.images.model.settings import Settings
from ociruntime.images.registry.auth import credential
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.registry.registry import Registry
from ociruntime.images.store.document import Document

if TYPE_CHECKING:
    from requests import Response

Answer = TypeVar("Answer")


class Sources:
    """The registries to try in order; the last one that answered is tried first next time.

    If all fail, raises the registry's own error, with those of the mirrors appended.
    """

    def __init__(self, registries: list[Registry]) -> None:
        self.registries = registries

    @classmethod
    def of(cls, reference: Reference, settings: Settings, http: HttpClient) -> Sources:
        """Return the sources of an image.

        Raises HostError, ImageError for faulty configuration.
        """
        places = [(reference.host, reference.repository)]
        for mirror in reversed(settings.mirrors().get(reference.host, [])):
            host, _, path = prefix_name(mirror).partition("/")
            places.insert(0, (host, f"{path}/{reference.repository}" if path else places[-1][1]))
        return cls([Registry(*place, http, credential(settings, *place)) for place in places])

    def head_manifest(self, tag: str) -> str:
        """Return ``Registry.head_manifest`` of the first that has it."""
        return self._ask(lambda registry: registry.head_manifest(tag))

    def manifest(self, tag: str) -> Document:
        """Return ``Registry.manifest`` of the first that has it."""
        return self._ask(lambda registry: registry.manifest(tag))

    def open_blob(self, digest: str, offset: int = 0) -> tuple[Response, int]:
        """Return ``Registry.open_blob`` of the first that has it."""
        return self._ask(lambda registry: registry.open_blob(digest, offset))

    def give_up(self) -> bool:
        """Drop the source that answered last; return whether another one is left."""
        if len(self.registries) == 1:
            return False
        del self.registries[0]
        return True

    def _ask(self, question: Callable[[Registry], Answer]) -> Answer:
        faults: list[ImageError] = []
        for registry in list(self.registries):
            try:
                answer = question(registry)
            except ImageError as error:
                faults.append(error)
                continue
            if faults:
                self.registries.remove(registry)
                self.registries.insert(0, registry)
            return answer
        if len(faults) == 1:
            raise faults[0]
        told = "; ".join(fault.message for fault in faults)
        raise RegistryError(told, faults[-1].hint)
