"""The sources of an image: try the mirrors of its registry in configured order, then the registry.

``images/model/settings_files.py`` reads the list of mirrors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model.reference import Reference, prefix_name
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.registry.credential_files import credential
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.registry.registry import Registry
from ociruntime.images.store.resolve_index import Document

if TYPE_CHECKING:  # requests is an extra: commands without a registry run without it
    from requests import Response

Answer = TypeVar("Answer")


class Sources:
    """The mirrors and the registry of an image, which are tried in order.

    A source that succeeds after others have failed moves to the front.  If all sources fail, a
    method raises a RegistryError that quotes the error of each source; the error of a single source
    is raised unchanged.  The object is thread-safe.
    """

    def __init__(self, registries: list[Registry]) -> None:
        self.registries = registries
        self._lock = threading.Lock()
        self._latest = threading.local()  # ``registry``: the source this thread used last

    @classmethod
    def of(
        cls,
        reference: Reference,
        settings: Settings,
        http: HttpClient,
        warn: Callable[[str], None],
    ) -> Sources:
        """Return the sources of the image ``reference``, with their credentials.

        Calls ``warn`` for each ignored credentials file.  Raises HostError if a configuration file
        cannot be read, ImageError if it is malformed.
        """
        repositories = [(reference.host, reference.repository)]
        for mirror in reversed(settings.mirrors().get(reference.host, [])):
            host, _, path = prefix_name(mirror).partition("/")
            prefix = f"{path}/" if path else ""
            repositories.insert(0, (host, f"{prefix}{reference.repository}"))
        once = cache(warn)
        return cls(
            [
                Registry(*repository, http, credential(settings, *repository, once))
                for repository in repositories
            ]
        )

    def head_manifest(self, tag: str) -> str:
        """Return the digest of the manifest ``tag``, from the first source that succeeds.

        Returns "" if that source does not report the digest.
        """
        return self._first(lambda registry: registry.head_manifest(tag))

    def manifest(self, tag: str) -> Document:
        """Return the manifest or index ``tag``, from the first source that succeeds."""
        return self._first(lambda registry: registry.manifest(tag))

    def open_blob(self, digest: str, offset: int = 0) -> tuple[Response, int]:
        """Request a blob, starting at the byte ``offset``, from the first source that succeeds.

        Returns (response, actual offset).  The response's body is the blob from the actual offset
        to its end.  The actual offset is ``offset``, or 0 if the source does not support ranges.
        """
        return self._first(lambda registry: registry.open_blob(digest, offset))

    def give_up(self) -> bool:
        """Drop the source that this thread used last; if no other is left, keep it.

        Returns False if it was kept.  Returns True if another source can be tried, even if another
        thread has dropped this one already.
        """
        registry = getattr(self._latest, "registry", None)
        with self._lock:
            if registry not in self.registries:
                return True  # another thread has dropped it
            if len(self.registries) == 1:
                return False
            self.registries.remove(registry)
            return True

    def _first(self, request: Callable[[Registry], Answer]) -> Answer:
        """Call ``request`` with each source in turn; return the first result.

        If all sources fail, raises a RegistryError with their messages, or, if there is only one
        source, its own error.
        """
        faults: list[ImageError] = []
        for registry in list(self.registries):
            try:
                answer = request(registry)
            except ImageError as error:
                faults.append(error)
                continue
            self._latest.registry = registry
            with self._lock:
                if faults and registry in self.registries:
                    self.registries.remove(registry)
                    self.registries.insert(0, registry)
            return answer
        if len(faults) == 1:
            raise faults[0]
        raise RegistryError("; ".join(fault.message for fault in faults), faults[-1].hint)
