"""Authenticate to a registry: parse challenges, get a bearer token from the token server.

See RFC 9110, section 11.3, and "Token Authentication Specification" of CNCF Distribution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from ociruntime.base.errors import RegistryError
from ociruntime.images.model.manifest import load_document
from ociruntime.images.registry.credential_files import Credential
from ociruntime.images.registry.http_client import HttpClient, is_plain, read_body, refusal

_PARAMETER = re.compile(r'([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,\s*)?')
_SCHEME = re.compile(r"\s*([A-Za-z0-9-]+)(?:\s+|$)")
_LONGEST_TOKEN = 1 << 20  # bytes of a token server's response


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge from a WWW-Authenticate header, with lower-case scheme and parameter names."""

    scheme: str
    parameters: dict[str, str]


def challenges(header: str) -> list[Challenge]:
    """Parse a WWW-Authenticate header; return its challenges, up to the first malformed one."""
    parsed: list[Challenge] = []
    at = 0
    while match := _SCHEME.match(header, at):
        at = match.end()
        parameters: dict[str, str] = {}
        while pair := _PARAMETER.match(header, at):
            quoted = pair[2] if pair[2] is not None else pair[3]
            parameters[pair[1].lower()] = re.sub(r"\\(.)", r"\1", quoted)
            at = pair.end()
        parsed.append(Challenge(match[1].lower(), parameters))
    return parsed


def bearer_token(
    http: HttpClient,
    host: str,
    credential: Credential | None,
    parameters: dict[str, str],
    url: str,
    hint: str,
) -> str:
    """Request a bearer token from the token server that a registry's challenge names.

    ``parameters`` are the challenge's parameters, and must contain ``realm`` (the token server's
    URL) and ``scope``.  ``host`` is the registry; ``url`` is the URL for which the registry
    requires the token.  If the token server refuses the request, ``hint`` is the error's hint.
    Raises RegistryError if the token server cannot be trusted, refuses the request, or sends no
    token.
    """
    realm = parameters["realm"]
    what = f"{host}: refusing token server {realm!r}"
    try:
        server, plain = urlsplit(realm), is_plain(realm)
    except ValueError:
        raise RegistryError(f"{what}: invalid URL") from None
    if not plain:
        raise RegistryError(f"{what}: ambiguous URL, which programs could read differently")
    if not server.hostname:
        raise RegistryError(f"{what}: the URL names no host")
    if server.scheme != "https" and not (
        server.scheme == "http" and url.startswith("http:") and http.allows_http(server.netloc)
    ):
        raise RegistryError(f"{what}: not HTTPS", "use --insecure-options=http to allow HTTP")
    query = {"scope": parameters["scope"]}
    if parameters.get("service"):
        query["service"] = parameters["service"]
    if credential and credential.token:
        query |= {"grant_type": "refresh_token", "refresh_token": credential.token}
        query["client_id"] = "ocipod"
        response = http.request("POST", realm, {}, query)
        method = "POST"
    else:
        headers = {"Authorization": credential.basic} if credential else {}
        joint = "&" if server.query else "?"
        response = http.request("GET", f"{realm}{joint}{urlencode(query)}", headers)
        method = "GET"
    if response.status_code != 200:
        raise refusal(method, response, hint)
    document = load_document(read_body(response, _LONGEST_TOKEN), f"{method} {realm}: response")
    token = document.get("token") or document.get("access_token")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise RegistryError(f"{method} {realm}: the response has no valid token")
    return token
