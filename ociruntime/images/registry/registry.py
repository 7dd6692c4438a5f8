"""A client for a registry (distribution-spec 1.1): pull manifests and blobs of a repository.

Registry("localhost:5000", "team/web", http, credential)

"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model import media_types
from ociruntime.images.model.digest import check_content, digest_of, is_digest
from ociruntime.images.model.manifest import LARGEST_DOCUMENT, load_document
from ociruntime.images.model.reference import DOCKER_HUB
from ociruntime.images.registry.auth import Challenge, Credential, challenges
from ociruntime.images.registry.http_client import HttpClient, is_plain, read_body, refusal
from ociruntime.images.store.document import Document

if TYPE_CHECKING:
    from requests import Response

# Docker Hub's API has a different host than its images' names.
_ADDRESSES = {DOCKER_HUB: "registry-1.docker.io"}
_ACCEPT = ", ".join(media_types.INDEXES + media_types.MANIFESTS)
_LONGEST_TOKEN = 1 << 20


class Registry:
    """A repository at ``host``; every method raises RegistryError if the request fails."""

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
        return f"{self.host}/{self.repository}"

    def head_manifest(self, tag: str) -> str:
        """Return the digest of a tag (or digest) now, "" if the registry does not report it."""
        response = self._request("HEAD", f"/manifests/{tag}", {"Accept": _ACCEPT})
        response.close()
        if response.status_code != 200:
            raise self._refused("HEAD", response)
        digest = response.headers.get("Docker-Content-Digest", "")
        return digest if is_digest(digest) else ""

    def manifest(self, tag: str) -> Document:
        """Return the document for a tag or digest.  Raises ImageError for a digest mismatch."""
        response = self._request("GET", f"/manifests/{tag}", {"Accept": _ACCEPT})
        if response.status_code != 200:
            raise self._refused("GET", response)
        data = read_body(response, LARGEST_DOCUMENT)
        digest = tag if is_digest(tag) else response.headers.get("Docker-Content-Digest", "")
        if is_digest(digest):
            check_content(data, digest, f"the manifest {tag} from {self}")
        return Document(data, digest_of(data), response.headers.get("Content-Type", ""))

    def open_blob(self, digest: str, offset: int = 0) -> tuple[Response, int]:
        """Return a response to read a blob from, and the offset at which it starts.

        The offset is 0 if the registry does not support ranges.
        """
        wish = {"Range": f"bytes={offset}-"} if offset else {}
        response = self._request("GET", f"/blobs/{digest}", wish)
        if response.status_code == 206:
            begin = response.headers.get("Content-Range", "").removeprefix("bytes ")
            if begin.partition("-")[0].strip() == str(offset):
                return response, offset
            response.close()
            raise RegistryError(
                f"{self}: blob {digest}: the response has a different range than requested"
            )
        if response.status_code == 416 and offset:
            response.close()
            return self.open_blob(digest)
        if response.status_code != 200:
            raise self._refused("GET", response)
        return response, 0

    def _request(self, method: str, path: str, headers: dict[str, str]) -> Response:
        """Send a request, answering authentication challenges, also when a token has expired."""
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
            self._authorization = self._answer(offered, url)
            if not self._authorization:
                raise RegistryError(f"{method} {url}: 401 unauthorized", self._advice())
        return response

    def _sent_authorization(self) -> dict[str, str]:
        return {"Authorization": self._authorization} if self._authorization else {}

    def _answer(self, offered: list[Challenge], url: str) -> str:
        """Return the value of an Authorization header, "" if no challenge can be answered."""
        for challenge in offered:
            if challenge.scheme == "bearer" and challenge.parameters.get("realm"):
                return f"Bearer {self._token(challenge.parameters, url)}"
            if challenge.scheme == "basic" and self._credential and self._credential.user:
                return self._credential.basic
        return ""

    def _token(self, parameters: dict[str, str], url: str) -> str:
        realm = parameters["realm"]
        try:
            place, plain = urlsplit(realm), is_plain(realm)
        except ValueError:
            raise RegistryError(f"{self.host} wants its tokens asked for at {realm!r}") from None
        if not plain:
            words = f"{self.host} wants its tokens asked for at {realm!r}, no plain address"
            raise RegistryError(words)
        if place.scheme != "https" and not (
            place.scheme == "http" and url.startswith("http:") and self._may_be_plain(place.netloc)
        ):
            hint = "--insecure-options=http allows it"
            raise RegistryError(f"{self.host} wants its tokens asked for at {realm}", hint)
        query = {"scope": parameters.get("scope") or f"repository:{self.repository}:pull"}
        if parameters.get("service"):
            query["service"] = parameters["service"]
        known = self._credential
        if known and known.token:
            query |= {"grant_type": "refresh_token", "refresh_token": known.token}
            query["client_id"] = "ocipod"
            response = self._http.request("POST", realm, {}, query)
            method = "POST"
        else:
            headers = {"Authorization": known.basic} if known else {}
            joint = "&" if place.query else "?"
            response = self._http.request("GET", f"{realm}{joint}{urlencode(query)}", headers)
            method = "GET"
        if response.status_code != 200:
            raise refusal(method, response, self._advice())
        document = load_document(read_body(response, _LONGEST_TOKEN), f"the token of {realm}")
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RegistryError(f"{realm}: no token in the answer")
        return token

    def _may_be_plain(self, host: str) -> bool:
        return self._http.allows_http(host)

    def _refused(self, method: str, response: Response) -> ImageError:
        unauthorized = response.status_code in (401, 403)
        return refusal(method, response, self._advice() if unauthorized else "")

    def _advice(self) -> str:
        if self._credential:
            return f"the credentials for {self} were not accepted"
        return f"credentials for {self.host} go into auth.json"
