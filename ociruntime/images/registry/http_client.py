"""HTTP client for registries: TLS policy, safe redirects, retries, proxies.

The client uses ``requests``, which is imported at the first request.  It follows redirects itself,
because credentials for a registry must not reach the blob store that the registry redirects to.  It
ignores ``.netrc``: credentials come only from the files described in docs/images.md.
"""

from __future__ import annotations

import ipaddress
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from ociruntime.base.errors import RegistryError

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

CONNECT_SECONDS = 15.0
SILENT_SECONDS = 60.0  # timeout if the server sends nothing
LONGEST_MESSAGE = 200  # the maximum number of characters of a registry's message to quote
_BACKOFF = (0.2, 0.5, 1.0, 2.0)  # seconds before each retry
_LONGEST_BACKOFF = 60.0  # seconds; a longer Retry-After is an error
_MOST_REDIRECTS = 8
_REDIRECTS = (301, 302, 303, 307, 308)
_NO_PROXIES = {"http": "", "https": "", "all": ""}
_AMBIGUOUS = frozenset('\\"<>^`{|} ')  # characters on which URL parsers disagree
_TRANSIENT = (408, 429, 500, 502, 503, 504)


class HttpClient:
    """An HTTP client for registries and their blob and token servers.

    ``insecure`` lists disabled checks: "tls" disables certificate checks, "http" allows plain HTTP
    for all hosts.  ``sleep`` is called with the backoff in seconds before each retry.
    """

    def __init__(self, insecure: Set[str], sleep: Callable[[float], None] = time.sleep) -> None:
        self.insecure = insecure
        self._sleep = sleep
        self._session: Session | None = None
        self._schemes: dict[str, str] = {}
        self._lock = threading.Lock()  # several threads send requests

    def close(self) -> None:
        if self._session:
            self._session.close()

    def url(self, host: str, path: str) -> str:
        """Return the URL of ``path`` on ``host``.

        The scheme is https, or http if that is allowed and the host does not support TLS.
        """
        with self._lock:
            if host not in self._schemes:
                plain = self.allows_http(host) and not self._supports_tls(host)
                self._schemes[host] = "http" if plain else "https"
        return f"{self._schemes[host]}://{host}{path}"

    def allows_http(self, host: str) -> bool:
        """Return whether plain HTTP to HOST or HOST:PORT is allowed; it always is for loopback."""
        return "http" in self.insecure or is_loopback(host)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        form: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request with retries and redirects; return the final response.

        Returns the response whatever its HTTP status.  Its body has not been read yet: the caller
        reads it (``read_body``, or ``raw``) or closes the response.  ``form``, if given, is sent
        URL-encoded as the body of the request.  Raises RegistryError if the server cannot be
        reached or a redirect is refused.
        """
        sent = dict(headers)
        for _ in range(_MOST_REDIRECTS):
            response = self._with_retries(method, url, sent, form)
            target = response.headers.get("Location")
            if response.status_code not in _REDIRECTS or not target:
                return response
            response.close()
            try:
                following = urljoin(url, target)
                leaves = _origin(following) != _origin(url)
            except ValueError:
                raise RegistryError(
                    f"refusing redirect from {_shown(url)} to invalid URL {target!r}"
                ) from None
            self._check_redirect(url, following)
            if leaves:
                if form is not None:  # never resend a form, which may contain a secret
                    raise RegistryError(
                        f"refusing redirect from {_shown(url)} to {_shown(following)}:"
                        " it would send credentials to another host"
                    )
                sent.pop("Authorization", None)
            url = following
        raise RegistryError(f"{method} {_shown(url)}: more than {_MOST_REDIRECTS} redirects")

    def _check_redirect(self, url: str, following: str) -> None:
        if not is_plain(following):
            raise RegistryError(
                f"refusing redirect from {_shown(url)} to {_shown(following)!r}: the URL has a"
                " user name, or characters that programs interpret in different ways"
            )
        old, new = urlsplit(url), urlsplit(following)
        plain = new.scheme == "http" and (
            "http" in self.insecure or (old.scheme == "http" and is_loopback(new.netloc))
        )
        if not new.hostname or (new.scheme != "https" and not plain):
            hint = "use --insecure-options=http to allow it" if new.scheme == "http" else ""
            raise RegistryError(
                f"refusing redirect from {_shown(url)} to {_shown(following)}: not HTTPS", hint
            )

    def _with_retries(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        form: Mapping[str, str] | None,
    ) -> Response:
        from requests.exceptions import RequestException, SSLError

        for attempt in range(len(_BACKOFF) + 1):
            last = attempt == len(_BACKOFF)
            pause = 0.0 if last else _BACKOFF[attempt]
            try:
                response = self._once(method, url, headers, form)
            except RequestException as error:
                if last or isinstance(error, SSLError) or _is_final(error):
                    raise _request_error(method, url, error) from None
            else:
                if last or response.status_code not in _TRANSIENT:
                    break
                response.close()
                pause = _backoff(response, pause, url)
            self._sleep(pause)
        return response

    def _once(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        form: Mapping[str, str] | None,
    ) -> Response:
        session = self._open_session()
        # A proxy in the environment cannot reach the loopback addresses of this machine.
        proxies = _NO_PROXIES if is_loopback(urlsplit(url).netloc) else None
        verify: bool | None = False if "tls" in self.insecure else None
        return session.request(
            method,
            url,
            headers={"Accept-Encoding": "identity", **headers},
            data=form,
            stream=True,
            verify=verify,
            proxies=proxies,
            allow_redirects=False,
            timeout=(CONNECT_SECONDS, SILENT_SECONDS),
        )

    def _open_session(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._new_session()
            return self._session

    def _new_session(self) -> Session:
        try:
            from requests import Session
        except ImportError:
            hint = "pip install 'ociruntime[image]'"
            message = "access to registries needs the Python package requests"
            raise RegistryError(message, hint) from None
        if "tls" in self.insecure:
            import warnings

            warnings.filterwarnings("ignore", message="Unverified HTTPS request")
        from ociruntime import __version__

        session = Session()
        session.headers["User-Agent"] = f"ocipod/{__version__}"
        session.auth = _no_auth
        # requests parses the target of a redirect even with allow_redirects=False.
        session.resolve_redirects = _no_redirects  # type: ignore[assignment]
        return session

    def _supports_tls(self, host: str) -> bool:
        """Return whether ``host`` answers a TLS handshake with TLS rather than with plain HTTP.

        Also returns False if the handshake times out or the connection is reset.  If the host
        cannot be reached, returns True for HOST:PORT, so that the request reports the error.  For
        HOST without a port, returns False, so that the request tries HTTP on port 80.
        """
        import socket
        import ssl

        split = urlsplit(f"//{host}")
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        address = (split.hostname or "", split.port or 443)
        try:
            connection = socket.create_connection(address, CONNECT_SECONDS)
        except OSError:
            # HOST without a port: port 443 is closed, so try HTTP on port 80.  HOST:PORT: the
            # request reports the error.
            return split.port is not None
        try:
            context.wrap_socket(connection, server_hostname=split.hostname).close()
        except ssl.SSLError as error:
            return error.reason not in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_TOO_SMALL")
        except OSError:
            return False
        finally:
            connection.close()
        return True


def is_loopback(host: str) -> bool:
    """Return whether HOST or HOST:PORT is localhost or a loopback address; does not use DNS."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_plain(url: str) -> bool:
    r"""Return whether an untrusted URL is unambiguous, so that all parsers find the same host.

    We check URLs with urlsplit, but requests parses them with urllib3.  In ``http://a\@b``, urllib3
    finds the host ``a``, urlsplit ``b``.  Raises ValueError for an invalid URL.
    """
    odd = not url.isascii() or not url.isprintable() or not _AMBIGUOUS.isdisjoint(url)
    return not odd and "@" not in urlsplit(url).netloc


def retry_after(value: str, now: float) -> float | None:
    """Convert a Retry-After header (seconds or a date) to seconds; None if empty or invalid.

    ``now`` is in seconds since the epoch.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    if not value:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def read_body(response: Response, longest: int) -> bytes:
    """Return the body of a response, and close the response.

    Raises RegistryError if the connection is interrupted, if the body is longer than ``longest``
    bytes, or if it is compressed.  No compression was requested, and a compressed body could be a
    decompression bomb.
    """
    body = b""
    try:
        encoding = response.headers.get("Content-Encoding", "") or "identity"
        if encoding.lower() != "identity":
            hint = "no compression was requested; a proxy may have added it"
            message = f"unsupported Content-Encoding {encoding}"
            raise RegistryError(f"read {_shown(response.url)}: {message}", hint)
        while data := response.raw.read(longest + 1 - len(body), decode_content=False):
            body += data
        if len(body) > longest:
            message = f"the response is longer than {longest} bytes"
            raise RegistryError(f"read {_shown(response.url)}: {message}")
    except Exception as error:
        if isinstance(error, RegistryError | MemoryError):
            raise
        message = f"the connection was interrupted: {error}"
        raise RegistryError(f"read {_shown(response.url)}: {message}") from None
    finally:
        response.close()
    return body


def refusal(method: str, response: Response, hint: str = "") -> RegistryError:
    """Return a RegistryError that quotes the request, the HTTP status and the server's errors."""
    import json

    messages: list[str] = []
    try:
        for error in json.loads(read_body(response, 1 << 16))["errors"][:3]:
            messages.append(_truncated(str(error.get("message") or error.get("code") or "")))
    except (RegistryError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        messages.clear()  # the body is malformed: quote none of it
    status = _truncated(f"{response.status_code} {response.reason or ''}".strip().lower())
    text = ": ".join([f"{method} {_shown(response.url)}", status, *filter(None, messages)])
    return RegistryError(text, hint)


def _truncated(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def _backoff(response: Response, pause: float, url: str) -> float:
    """Return the seconds to wait before a retry, from the response's Retry-After header.

    Returns ``pause`` if there is no such header.  Raises RegistryError if the header demands more
    than ``_LONGEST_BACKOFF``; its message quotes ``url``.
    """
    demanded = retry_after(response.headers.get("Retry-After", ""), time.time())
    if demanded is None:
        return pause
    if demanded > _LONGEST_BACKOFF:
        status = f"{response.status_code} {response.reason}".lower()
        raise RegistryError(f"{_shown(url)}: {status}", f"retry after {demanded:.0f} s")
    return demanded


def _no_auth(request: PreparedRequest) -> PreparedRequest:
    """Return the request unchanged.

    Without this hook, the library ``requests`` would add credentials from ``.netrc``.
    """
    return request


def _no_redirects(*arguments: object, **named: object) -> Iterator[Response]:
    """Follow no redirects; this replaces the method of ``requests`` that follows them."""
    del arguments, named
    return iter(())


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return a URL's origin: (scheme, host, port)."""
    split = urlsplit(url)
    return split.scheme, split.hostname, split.port or {"http": 80, "https": 443}.get(split.scheme)


def _shown(url: str) -> str:
    """Return ``url`` without its query, which can contain a blob store's signature."""
    return url.partition("?")[0]


def _is_final(error: Exception) -> bool:
    """Return whether retrying after ``error`` is pointless.

    A retry is pointless if the connection was refused, the host is unknown or connecting timed out.
    A mirror that is down thus costs only one timeout.
    """
    from requests.exceptions import ConnectTimeout

    text = str(error)
    return isinstance(error, ConnectTimeout) or "NameResolutionError" in text or "refused" in text


def _request_error(method: str, url: str, error: Exception) -> RegistryError:
    from requests.exceptions import SSLError, Timeout

    # requests quotes the URL; remove the query, which may be a secret.
    text = re.sub(r"(url: [^\s?]*)\?\S*", r"\1", str(error))
    host = urlsplit(url).netloc
    if isinstance(error, SSLError):
        hint = "use --insecure-options=tls to disable certificate checks"
        if "WRONG_VERSION_NUMBER" in text:
            hint = "the registry may speak plain HTTP: use --insecure-options=http to allow it"
        cause = text.partition("SSLError(")[2] or text
        return RegistryError(f"connect to {host}: TLS: {cause.strip('()')}", hint)
    if isinstance(error, Timeout):
        return RegistryError(f"{method} {_shown(url)}: timed out")
    if "NameResolutionError" in text:
        return RegistryError(f"connect to {host}: cannot resolve the host name")
    if "refused" in text:
        return RegistryError(f"connect to {host}: connection refused")
    return RegistryError(f"{method} {_shown(url)}: {text}")
