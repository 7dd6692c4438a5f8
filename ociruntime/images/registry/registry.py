"""A registry client (distribution-spec 1.1) that authenticates and gets manifests and blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model import media_types
from ociruntime.images.model.digest import check_content, digest_of, is_digest
from ociruntime.images.model.manifest import LARGEST_DOCUMENT
from ociruntime.images.model.reference import DOCKER_HUB
from ociruntime.images.registry.authentication import Challenge, bearer_token, challenges
from ociruntime.images.registry.credential_files import Credential
from ociruntime.images.registry.http_client import HttpClient, read_body, refusal
from ociruntime.images.store.resolve_index import Document

if TYPE_CHECKING:  # requests is an extra: commands without a registry run without it
    from requests import Response

_ADDRESSES = {DOCKER_HUB: "registry-1.docker.io"}  # host in image names -> host of the HTTP API
_ACCEPT = ", ".join(media_types.INDEXES + media_types.MANIFESTS)


class Registry:
    """A client for one repository of a registry; its methods raise RegistryError on failure."""

    def __init__(
        self, host: str, repository: str, http: HttpClient, credential: Credential | None = None
    ) -> None:
        self.host = host
        self.repository = repository
        self._address = _ADDRESSES.get(host, host)
        self._http = http
        self._credential = credential
        self._authorization = ""

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}".rstrip("/")

    def ping(self) -> None:
        """Raise RegistryError if the host serves no registry API or refuses the credentials.

        See distribution-spec, "Determining Support".
        """
        response = self._request("GET", "", {})
        response.close()
        if response.status_code != 200:
            raise self._refused("GET", response)

    def head_manifest(self, tag: str) -> str:
        """Return the digest of the manifest ``tag``; "" if the registry does not report it."""
        response = self._request("HEAD", f"/manifests/{tag}", {"Accept": _ACCEPT})
        response.close()
        if response.status_code != 200:
            raise self._refused("HEAD", response)
        digest = response.headers.get("Docker-Content-Digest", "")
        return digest if is_digest(digest) else ""

    def manifest(self, tag: str) -> Document:
        """Return the manifest or index with the given tag or digest.

        Raises ImageError if the document does not match the requested or reported digest.
        """
        response = self._request("GET", f"/manifests/{tag}", {"Accept": _ACCEPT})
        if response.status_code != 200:
            raise self._refused("GET", response)
        data = read_body(response, LARGEST_DOCUMENT)
        digest = tag if is_digest(tag) else response.headers.get("Docker-Content-Digest", "")
        if is_digest(digest):
            check_content(data, digest, f'manifest "{tag}" from {self}')
        return Document(data, digest_of(data), response.headers.get("Content-Type", ""))

    def open_blob(self, digest: str, offset: int = 0) -> tuple[Response, int]:
        """Request a blob, starting at the byte ``offset``; return (response, actual offset).

        The response's body is the blob from the actual offset to its end.  The actual offset is
        ``offset``, or 0 if the registry does not support ranges.
        """
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        response = self._request("GET", f"/blobs/{digest}", headers)
        if response.status_code == 206:
            begin = response.headers.get("Content-Range", "").removeprefix("bytes ")
            if begin.partition("-")[0].strip() == str(offset):
                return response, offset
            response.close()
            raise RegistryError(
                f"download blob {digest} from {self}: requested the blob from byte {offset}, but"
                f' the response\'s Content-Range is "{begin}"'
            )
        if response.status_code == 416 and offset:
            response.close()
            return self.open_blob(digest)
        if response.status_code != 200:
            raise self._refused("GET", response)
        return response, 0

    def _request(self, method: str, path: str, headers: dict[str, str]) -> Response:
        """Send a request and return the response; after status 401, authenticate and retry once."""
        url = self._http.url(self._address, f"/v2/{self.repository}{path}")
        for attempt in (1, 2):
            sent = {**headers, **self._sent_authorization()}
            response = self._http.request(method, url, sent)
            if response.status_code != 401 or attempt == 2:
                break
            offered = challenges(response.headers.get("WWW-Authenticate", ""))
            if urlsplit(response.url).netloc != urlsplit(url).netloc:
                break  # challenged by a host that we were redirected to: send it no credentials
            response.close()
            self._authorization = self._authenticate(offered, url)
            if not self._authorization:
                raise RegistryError(f"{method} {url}: 401 unauthorized", self._hint())
        return response

    def _sent_authorization(self) -> dict[str, str]:
        return {"Authorization": self._authorization} if self._authorization else {}

    def _authenticate(self, offered: list[Challenge], url: str) -> str:
        """Return an Authorization header's value that answers one of the challenges in ``offered``.

        Requests a bearer token even if there are no credentials.  Returns "" if none of the
        challenges can be answered.  ``url`` is the URL that the registry refused.
        """
        for challenge in offered:
            if challenge.scheme == "bearer" and challenge.parameters.get("realm"):
                parameters = challenge.parameters
                scope = parameters.get("scope") or self._scope()
                token = bearer_token(
                    self._http,
                    self.host,
                    self._credential,
                    parameters | {"scope": scope},
                    url,
                    self._hint(),
                )
                return f"Bearer {token}"
            if challenge.scheme == "basic" and self._credential and self._credential.user:
                return self._credential.basic
        return ""

    def _scope(self) -> str:
        return f"repository:{self.repository}:pull" if self.repository else ""

    def _refused(self, method: str, response: Response) -> ImageError:
        unauthorized = response.status_code in (401, 403)
        return refusal(method, response, self._hint() if unauthorized else "")

    def _hint(self) -> str:
        if self._credential:
            return f"the registry does not accept the credentials for {self}: log in again"
        return f"log in to {self.host}, or add credentials to auth.json"
