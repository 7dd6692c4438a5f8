"""The connection to ocid: send JSON requests over its socket, raise DaemonError for errors.

connection = Connection("/run/ocid/ocid.sock")
record = connection.get("/v1/containers/web")
connection.post("/v1/containers/web/stop", {"timeout": 5})
"""

from __future__ import annotations

from _socket import socket
from collections.abc import Callable, Iterator
from typing import Any

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.manager.client.http import (
    Answer,
    ChunkedBody,
    chunked_request,
    quoted,
    request,
)

_START_OCID = "is ocid running? systemctl start ocid, or: ocid &"


class DaemonError(RuntimeFailure):
    """An error answer of the daemon, with its HTTP ``status`` and its error ``code``.

    ``exit_code`` is 125, 126 or 127 if a container's program did not start (``StartFailed``);
    otherwise it is 0.
    """

    def __init__(self, message: str, code: str, status: int, exit_code: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.exit_code = exit_code


class Connection:
    """A client of the daemon that listens on the socket ``path``.

    Each request opens its own connection.  All methods raise HostError if the daemon cannot be
    reached, DaemonError for an error answer, RuntimeFailure for a malformed answer.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self, path: str) -> Any:  # noqa: ANN401 - a JSON document
        """Send GET ``path``; return the answer's JSON document."""
        return self._document("GET", path, None)

    def post(self, path: str, body: object = None) -> Any:  # noqa: ANN401
        """Send POST ``path`` with ``body`` as JSON; return the answer's JSON document, or None."""
        return self._document("POST", path, body)

    def delete(self, path: str) -> Any:  # noqa: ANN401
        """Send DELETE ``path``; return the answer's JSON document, or None."""
        return self._document("DELETE", path, None)

    def lines(self, method: str, path: str, body: object = None) -> Iterator[Any]:
        """Send a request; yield the JSON documents that the answer contains, one per line."""
        answer = self.open(method, path, body)
        try:
            for line in answer.lines():
                if line:
                    yield _parse(line, method, path)
        finally:
            answer.close()

    def open(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send a request; return the answer.  The caller must read the body and close the answer.

        Raises DaemonError for an error answer.
        """
        import json

        data = b"" if body is None else json.dumps(body).encode()
        whole = {"Content-Type": "application/json"} if data else {}
        whole.update(headers or {"Connection": "close"})
        connection = self._connect()
        try:
            connection.sendall(request(method, path, whole, data))
        except OSError as error:
            # The daemon may refuse a request without reading all of it: read its answer then.
            if not isinstance(error, BrokenPipeError | ConnectionResetError):
                connection.close()
                raise HostError(f'send a request to ocid at "{self.path}"', error) from None
        try:
            answer = Answer(connection)
            if answer.status >= 400:
                raise refusal(answer.status, answer.whole())
        except RuntimeFailure:
            connection.close()
            raise
        return answer

    def upload(self, path: str, fill: Callable[[ChunkedBody], None]) -> None:
        """Send PUT ``path``; ``fill(body)`` writes the request's body.

        Raises the errors of ``Connection`` and of ``fill``; an OSError of ``fill`` becomes a
        HostError.
        """
        connection = self._connect()
        try:
            connection.sendall(chunked_request("PUT", path))
            body = ChunkedBody(connection)
            try:
                fill(body)
                body.close()
            except (BrokenPipeError, ConnectionResetError):
                pass  # the daemon has refused the request: read its answer
            answer = Answer(connection)
            if answer.status >= 400:
                raise refusal(answer.status, answer.whole())
        except OSError as error:
            raise HostError(f'send a request to ocid at "{self.path}"', error) from None
        finally:
            connection.close()

    def _document(self, method: str, path: str, body: object) -> Any:  # noqa: ANN401
        answer = self.open(method, path, body)
        try:
            data = answer.whole()
        finally:
            answer.close()
        return _parse(data, method, path) if data else None

    def _connect(self) -> socket:
        from ociruntime.base.stream_socket import open_connection

        try:
            return open_connection(self.path)
        except OSError as error:
            raise HostError(
                f'connect to ocid at "{self.path}"', error, _hint(self.path, error)
            ) from None


def container(ref: str, *segments: str, **query: object) -> str:
    """Return the API path of a container, such as ``/v1/containers/web/stop?strict=1``."""
    return resource("containers", ref, *segments, **query)


def resource(*segments: str, **query: object) -> str:
    """Return the API path ``/v1/SEGMENT/...?KEY=VALUE``; omit values that are None or False."""
    path = "/".join(["/v1", *map(quoted, segments)])
    pairs = [
        f"{key}={quoted('1' if value is True else str(value))}"
        for key, value in query.items()
        if value is not None and value is not False
    ]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def refusal(status: int, body: bytes) -> DaemonError:
    """Return a DaemonError for an error answer of ocid with this HTTP status and body."""
    import json

    try:
        error = json.loads(body)["error"]
        exit_code = int(error.get("exit_code") or 0)
        return DaemonError(
            with_ocictl_options(str(error["message"])), str(error["code"]), status, exit_code
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        text = body[:200].decode("utf-8", "replace").strip()
        return DaemonError(f"ocid answered with HTTP status {status}: {text}", "unknown", status)


# Option of ocipod, whose error messages ocid forwards -> the same option of ocictl.
_OPTIONS = {
    "--insecure-options=": "--insecure=",
    "--exec": "--entrypoint",
    "--working-dir": "--workdir",
}


def with_ocictl_options(message: str) -> str:
    """Replace names of ocipod options in an error message with the names of ocictl options.

    Changes only the remedy, in parentheses at the end of the message.
    """
    text, opening, hint = message.rpartition(" (")
    if not opening or not hint.endswith(")"):
        return message
    for option, ours in _OPTIONS.items():
        hint = hint.replace(option, ours)
    return f"{text}{opening}{hint}"


def _parse(data: bytes, method: str, path: str) -> Any:  # noqa: ANN401
    """Parse JSON in the answer to ``method path``.  Raises RuntimeFailure if it is invalid."""
    import json

    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise RuntimeFailure(
            f'read the answer from ocid to "{method} {path}": invalid JSON'
        ) from None


def _hint(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return _START_OCID
    if not isinstance(error, PermissionError):
        return ""
    import os

    try:
        status = os.stat(path)
    except OSError:
        return "only root and the group of `ocid --group` may connect"
    if status.st_gid == 0:
        return "only root may connect; `ocid --group=GROUP` admits a group"
    return f"only root and the group {_group_name(status.st_gid)} may connect"


def _group_name(gid: int) -> str:
    try:
        import grp

        return f'"{grp.getgrgid(gid).gr_name}"'
    except (ImportError, KeyError):
        return str(gid)
