"""HTTP for registries: TLS policy, safe redirects, retries, proxies.

Based on ``requests``, which is imported at the first request.  Redirects are followed here, because
credentials for a registry must not reach the blob store that it redirects to.  ``.netrc`` is
ignored: credentials come only from the files in docs/images.md.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from ociruntime.base.errors import RegistryError

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

CONNECT_SECONDS = 15.0
SILENT_SECONDS = 60.0  # timeout without a byte received
LONGEST_MESSAGE = 200  # maximum characters of a registry's message to quote
_PAUSES = (0.2, 0.5, 1.0, 2.0)  # backoff in seconds before each retry
_LONGEST_PAUSE = 60.0
_MOST_REDIRECTS = 8
_REDIRECTS = (301, 302, 303, 307, 308)
_NO_PROXIES = {"http": "", "https": "", "all": ""}
_NOT_PLAIN = frozenset('\\"<>^`{|} ')
_TRANSIENT = (408, 429, 500, 502, 503, 504)


class HttpClient:
    """``insecure``: "tls" disables certificate checks, "http" allows plain HTTP for all hosts.

    ``sleep`` is called with the backoff in seconds before a retry.
    """

    def __init__(self, insecure: Set[str], sleep: Callable[[float], None] = time.sleep) -> None:
        self.insecure = insecure
        self._sleep = sleep
        self._session: Session | None = None
        self._schemes: dict[str, str] = {}

    def close(self) -> None:
        if self._session:
            self._session.close()

    def url(self, host: str, path: str) -> str:
        """Return the URL of ``path`` at a registry; HTTP if allowed and the host speaks no HTTPS.

        Raises RegistryError.
        """
        if host not in self._schemes:
            self._schemes[host] = "https"
            if self.allows_http(host) and not self._speaks_tls(host):
                self._schemes[host] = "http"
        return f"{self._schemes[host]}://{host}{path}"

    def allows_http(self, host: str) -> bool:
        """Return whether plain HTTP is allowed for HOST or HOST:PORT."""
        return "http" in self.insecure or is_loopback(host)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        form: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request, following redirects and retrying; return the final response.

        Its status may be an error.  The body is not read yet (``read_body`` or ``raw``); a caller
        that does not read it must close it.  Raises RegistryError if there is no response.
        """
        sent = dict(headers)
        for _ in range(_MOST_REDIRECTS):
            response = self._patiently(method, url, sent, form)
            target = response.headers.get("Location")
            if response.status_code not in _REDIRECTS or not target:
                return response
            response.close()
            try:
                following = urljoin(url, target)
                leaves = _origin(following) != _origin(url)
            except ValueError:
                raise RegistryError(
                    f"refusing redirect from {_shown(url)} to the invalid URL {target!r}"
                ) from None
            self._check_redirect(url, following)
            if leaves:
                if form is not None:  # never resend a form, which may contain a secret
                    raise RegistryError(
                        f"refusing redirect from {_shown(url)} to {_shown(following)}"
                    )
                sent.pop("Authorization", None)
            url = following
        raise RegistryError(f"{method} {_shown(url)}: more than {_MOST_REDIRECTS} redirects")

    def _check_redirect(self, url: str, following: str) -> None:
        if not is_plain(following):
            raise RegistryError(
                f"refusing redirect from {_shown(url)} to the ambiguous URL {_shown(following)!r}"
            )
        old, new = urlsplit(url), urlsplit(following)
        plain = new.scheme == "http" and (
            "http" in self.insecure or (old.scheme == "http" and is_loopback(new.netloc))
        )
        if not new.hostname or (new.scheme != "https" and not plain):
            hint = "--insecure-options=http allows it" if new.scheme == "http" else ""
            raise RegistryError(
                f"refusing redirect from {_shown(url)} to {_shown(following)}", hint
            )

    def _patiently(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        form: Mapping[str, str] | None,
    ) -> Response:
        from requests.exceptions import RequestException, SSLError

        for attempt in range(len(_PAUSES) + 1):
            last = attempt == len(_PAUSES)
            pause = 0.0 if last else _PAUSES[attempt]
            try:
                response = self._once(method, url, headers, form)
            except RequestException as error:
                if last or isinstance(error, SSLError) or _is_final(error):
                    raise _unanswered(method, url, error) from None
            else:
                if last or response.status_code not in _TRANSIENT:
                    break
                response.close()
                pause = _wanted_pause(response, pause, url)
            self._sleep(pause)
        return response

    def _once(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        form: Mapping[str, str] | None,
    ) -> Response:
        session = self._opened()
        # A proxy from the environment cannot reach this machine's loopback.
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

    def _opened(self) -> Session:
        if self._session is None:
            try:
                from requests import Session
            except ImportError:
                hint = "pip install 'ociruntime[image]'"
                raise RegistryError("registries need the package requests", hint) from None
            if "tls" in self.insecure:
                import warnings

                warnings.filterwarnings("ignore", message="Unverified HTTPS request")
            from ociruntime import __version__

            self._session = Session()
            self._session.headers["User-Agent"] = f"ocipod/{__version__}"
            self._session.auth = _unchanged
            # requests parses the target of a redirect even with allow_redirects=False.
            self._session.resolve_redirects = _nowhere  # type: ignore[assignment]
        return self._session

    def _speaks_tls(self, host: str) -> bool:
        """Return False if the host answers a TLS handshake with something else."""
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
            # Nothing listens on 443; the request itself will report the error if 80 fails too.
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
    """Return whether HOST or HOST:PORT is the loopback, independent of name servers."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_plain(url: str) -> bool:
    """Return whether all parsers agree on what an untrusted URL means.

    We check a URL with urlsplit, but requests follows urllib3's reading.  For urllib3 a backslash
    ends the host, while for urlsplit an ``@`` after it still begins the host.  Raises ValueError
    for an invalid URL.
    """
    odd = not url.isascii() or not url.isprintable() or not _NOT_PLAIN.isdisjoint(url)
    return not odd and "@" not in urlsplit(url).netloc


def retry_after(value: str, now: float) -> float | None:
    """Parse a Retry-After header to seconds; None if there is nothing to wait for."""
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
    """Read at most ``longest`` bytes of the body.  Raises RegistryError.

    The body is not decompressed: an unrequested encoding could be a decompression bomb.
    """
    body = b""
    try:
        encoding = response.headers.get("Content-Encoding", "") or "identity"
        if encoding.lower() != "identity":
            hint = "a proxy on the way may do that"
            raise RegistryError(f"{_shown(response.url)}: unasked, encoded by {encoding}", hint)
        while data := response.raw.read(longest + 1 - len(body), decode_content=False):
            body += data
        if len(body) > longest:
            raise RegistryError(f"{_shown(response.url)}: longer than {longest} bytes")
    except Exception as error:
        if isinstance(error, RegistryError | MemoryError):
            raise
        raise RegistryError(f"{_shown(response.url)}: the answer ended early: {error}") from None
    finally:
        response.close()
    return body


def refusal(method: str, response: Response, hint: str = "") -> RegistryError:
    """Return an error with request, status, and the messages in the registry's JSON."""
    import json

    said: list[str] = []
    try:
        for error in json.loads(read_body(response, 1 << 16))["errors"][:3]:
            said.append(_shortened(str(error.get("message") or error.get("code") or "")))
    except (RegistryError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        said.clear()  # malformed: use none of it
    words = _shortened(f"{response.status_code} {response.reason or ''}".strip().lower())
    text = ": ".join([f"{method} {_shown(response.url)}", words, *filter(None, said)])
    return RegistryError(text, hint)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def _wanted_pause(response: Response, pause: float, url: str) -> float:
    wanted = retry_after(response.headers.get("Retry-After", ""), time.time())
    if wanted is None:
        return pause
    if wanted > _LONGEST_PAUSE:
        status = f"{response.status_code} {response.reason}".lower()
        raise RegistryError(
            f"{_shown(url)}: {status}: the registry demands a pause of {wanted:.0f} s"
        )
    return wanted


def _unchanged(request: PreparedRequest) -> PreparedRequest:
    """Authentication that adds nothing; without one, requests would use .netrc."""
    return request


def _nowhere(*arguments: object, **named: object) -> Iterator[Response]:
    """Replacement for requests' own handling of redirects: yield none."""
    del arguments, named
    return iter(())


def _origin(url: str) -> tuple[str, str | None, int | None]:
    split = urlsplit(url)
    return split.scheme, split.hostname, split.port or {"http": 80, "https": 443}.get(split.scheme)


def _shown(url: str) -> str:
    """Return ``url`` without the query, where blob stores put signatures."""
    return url.partition("?")[0]


def _is_final(error: Exception) -> bool:
    """Return whether a retry is pointless: connection refused, or unknown host.

    A connect timeout counts as well, so that a mirror that is down costs the timeout only once.
    """
    from requests.exceptions import ConnectTimeout

    text = str(error)
    return isinstance(error, ConnectTimeout) or "NameResolutionError" in text or "refused" in text


def _unanswered(method: str, url: str, error: Exception) -> RegistryError:
    from requests.exceptions import SSLError, Timeout

    # requests quotes the URL; remove the query, which may be a secret.
    text = re.sub(r"(url: [^\s?]*)\?\S*", r"\1", str(error))
    host = urlsplit(url).netloc
    if isinstance(error, SSLError):
        hint = "--insecure-options=tls leaves certificates unchecked"
        if "WRONG_VERSION_NUMBER" in text:
            hint = "it may speak plain HTTP, which --insecure-options=http allows"
        words = text.partition("SSLError(")[2] or text
        return RegistryError(f"{host}: no trusted connection: {words.strip('()')}", hint)
    if isinstance(error, Timeout):
        return RegistryError(f"{method} {_shown(url)}: no answer in time")
    if "NameResolutionError" in text:
        return RegistryError(f"cannot resolve {host}")
    if "refused" in text:
        return RegistryError(f"{host}: connection refused")
    return RegistryError(f"{method} {_shown(url)}: {text}")
