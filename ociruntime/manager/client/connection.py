"""The daemon at its socket: requests with JSON, and errors as they come back.

connection = Connection("/run/ocid/ocid.sock")
record = connection.get("/v1/containers/web")
connection.post("/v1/containers/web/stop", {"timeout": 5})
"""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.manager.client.http import Answer, quoted, request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterator
    from typing import Any

_NOT_THERE = "is ocid running? systemctl start ocid, or: ocid &"


class DaemonError(RuntimeFailure):
    """The daemon's answer is an error: its HTTP ``status`` and the word ``code`` that names it.

    ``exit_code``: what a container ends with whose program could not be started, else 0.
    """

    def __init__(self, message: str, code: str, status: int, exit_code: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.exit_code = exit_code


class Connection:
    """To the daemon that listens at ``path``; each request is a connection of its own.

    All methods raise HostError if it cannot be reached, DaemonError if it says no, and
    RuntimeFailure if what it says cannot be understood.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self, path: str) -> Any:  # noqa: ANN401 - a JSON document
        return self._document("GET", path, None)

    def post(self, path: str, body: object = None) -> Any:  # noqa: ANN401
        return self._document("POST", path, body)

    def delete(self, path: str) -> Any:  # noqa: ANN401
        return self._document("DELETE", path, None)

    def lines(self, method: str, path: str, body: object = None) -> Iterator[Any]:
        """The documents of an answer that has one a line, as they come."""
        import json

        answer = self.open(method, path, body)
        try:
            for line in answer.lines():
                if line:
                    yield json.loads(line)
        except OSError as error:
            raise _lost(error) from None
        finally:
            answer.close()

    def open(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """An answer that is no error, whose body has not been read; the caller closes it."""
        import json

        data = b"" if body is None else json.dumps(body).encode()
        whole = {"Content-Type": "application/json"} if data else {}
        whole.update(headers or {"Connection": "close"})
        connection = self._connect()
        try:
            connection.sendall(request(method, path, whole, data))
        except OSError as error:
            # Refused while it was still being sent: the reason is there to be read.
            if not isinstance(error, BrokenPipeError | ConnectionResetError):
                connection.close()
                raise HostError(f"write to {self.path}", error) from None
        try:
            answer = Answer(connection)
            if answer.status >= 400:
                raise refusal(answer.status, answer.whole())
        except OSError as error:
            connection.close()
            raise _lost(error) from None
        except RuntimeFailure:
            connection.close()
            raise
        return answer

    def _document(self, method: str, path: str, body: object) -> Any:  # noqa: ANN401
        import json

        answer = self.open(method, path, body)
        try:
            data = answer.whole()
        except OSError as error:
            raise _lost(error) from None
        finally:
            answer.close()
        try:
            return json.loads(data) if data else None
        except ValueError:
            raise RuntimeFailure(f"the answer to {method} {path} is no JSON") from None

    def _connect(self) -> socket:
        from ociruntime.base.stream_socket import open_connection

        try:
            return open_connection(self.path)
        except OSError as error:
            raise HostError(f"connect to {self.path}", error, _hint(self.path, error)) from None


def container(ref: str, *words: str, **query: object) -> str:
    """The path of a container's resource: ``/v1/containers/web/stop?strict=1``."""
    return resource("containers", ref, *words, **query)


def resource(*words: str, **query: object) -> str:
    """``/v1/WORD/WORD?KEY=VALUE``; what is None or False is left out, True is 1."""
    path = "/".join(["/v1", *map(quoted, words)])
    pairs = [
        f"{key}={quoted('1' if value is True else str(value))}"
        for key, value in query.items()
        if value is not None and value is not False
    ]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def refusal(status: int, body: bytes) -> DaemonError:
    """Of ``{"error": {"code": "conflict", "message": "..."}}``."""
    import json

    try:
        error = json.loads(body)["error"]
        exit_code = int(error.get("exit_code") or 0)
        return DaemonError(str(error["message"]), str(error["code"]), status, exit_code)
    except (ValueError, KeyError, TypeError, AttributeError):
        text = body[:200].decode("utf-8", "replace").strip()
        return DaemonError(f"ocid answered {status}: {text}", "unknown", status)


def _lost(error: OSError) -> RuntimeFailure:
    return HostError("read what ocid answers", error, "has it been stopped? its log says more")


def _hint(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return _NOT_THERE
    if not isinstance(error, PermissionError):
        return ""
    import posix

    try:
        status = posix.stat(path)
    except OSError:
        return "only root, or those whom `ocid --group` lets, may use it"
    if status.st_gid == 0:
        return "only root may use it; `ocid --group=GROUP` lets a group"
    return f"only root and the group {_group_name(status.st_gid)} may use it"


def _group_name(gid: int) -> str:
    try:
        import grp

        return f'"{grp.getgrgid(gid).gr_name}"'
    except (ImportError, KeyError):
        return str(gid)
