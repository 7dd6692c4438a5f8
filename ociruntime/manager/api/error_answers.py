"""Convert exceptions to HTTP answers: a status and ``{"error": {"code", "message"}}``."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from ociruntime.base import errors
from ociruntime.base.errors import RuntimeFailure

# (class, HTTP status, code); the first match counts.  The exception's attribute ``code`` overrides
# the code.
STATUS: tuple[tuple[type[BaseException], int, str], ...] = (
    (errors.BadRequest, 400, "bad_request"),
    (errors.StartFailed, 400, "start_failed"),
    (errors.UsageError, 400, "bad_request"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.NotFound, 404, "not_found"),
    (errors.NoSuchPod, 404, "not_found"),
    (errors.Conflict, 409, "conflict"),
    (RuntimeFailure, 500, "failed"),
    (Exception, 500, "internal"),
)
# HTTP status of a request that aiohttp itself refuses -> (code, message).
_REFUSED = {
    404: ("no_such_route", "request {method} {path}: route not found"),
    405: ("wrong_method", "request {method} {path}: this method is not allowed"),
    408: ("too_slow", "request {method} {path}: timeout while reading the body"),
    413: ("too_large", "request {method} {path}: the body is too large (at most 1 MiB)"),
}


class Refused(RuntimeFailure):
    """The error for a request that aiohttp itself refuses, for example for an unknown path."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def failure_of(error: web.HTTPException, request: web.Request) -> Refused:
    """Convert an HTTP exception of aiohttp to a ``Refused`` with a message and a code."""
    code, text = _REFUSED.get(error.status, ("refused", error.reason))
    return Refused(text.format(path=request.path, method=request.method), code)


def error_answer(error: BaseException, refused: web.HTTPException | None = None) -> web.Response:
    """Return the HTTP answer for ``error``.

    ``refused`` is the aiohttp exception that ``error`` was made from, or None.  It determines the
    answer's status, and adds an Allow header if the request's method is not allowed.
    """
    status = refused.status if refused is not None else _row(error)[0]
    answer = web.json_response(error_document(error), status=status)
    if isinstance(refused, web.HTTPMethodNotAllowed):
        answer.headers["Allow"] = ", ".join(sorted(refused.allowed_methods))
    return answer


def error_document(error: BaseException) -> dict[str, Any]:
    """Return ``{"error": {"code", "message"}}``, the body of the HTTP answer for ``error``."""
    if isinstance(error, RuntimeFailure):
        message = str(error)
    else:
        message = f"internal error: {type(error).__name__}: {error} (see ocid's log)"
    details: dict[str, Any] = {"code": getattr(error, "code", _row(error)[1]), "message": message}
    if isinstance(error, errors.StartFailed):
        details["exit_code"] = error.exit_code
    return {"error": details}


def _row(error: BaseException) -> tuple[int, str]:
    return next((status, code) for kind, status, code in STATUS if isinstance(error, kind))
