"""Errors as answers: ``{"error": {"code", "message"}}``, the status by one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from ociruntime.base import errors
from ociruntime.base.errors import RuntimeFailure

if TYPE_CHECKING:
    from typing import Any

# The first class that fits -> status, and the word for it if the error has none of its own.
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
# Status of what aiohttp refuses by itself -> the word, and the reason.
_REFUSED = {
    404: ("no_such_route", "there is nothing at {path}"),
    405: ("wrong_method", "{path} does not take {method}"),
    408: ("too_slow", "the body of the request to {path} has not come in time"),
    413: ("too_large", "the body of the request to {path} is too large"),
}


class Refused(RuntimeFailure):
    """The request was refused before a handler saw what is in it."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def failure_of(error: web.HTTPException, request: web.Request) -> Refused:
    """In our words."""
    code, text = _REFUSED.get(error.status, ("refused", error.reason))
    return Refused(text.format(path=request.path, method=request.method), code)


def error_answer(error: BaseException, refused: web.HTTPException | None = None) -> web.Response:
    """``refused``: what aiohttp would answer, whose status and headers are kept."""
    status = refused.status if refused is not None else _row(error)[0]
    answer = web.json_response(error_document(error), status=status)
    if isinstance(refused, web.HTTPMethodNotAllowed):
        answer.headers["Allow"] = ", ".join(sorted(refused.allowed_methods))
    return answer


def error_document(error: BaseException) -> dict[str, Any]:
    """The body."""
    if isinstance(error, RuntimeFailure):
        message = str(error)
    else:
        message = f"internal error: {type(error).__name__}: {error} (ocid's log says more)"
    told: dict[str, Any] = {"code": getattr(error, "code", _row(error)[1]), "message": message}
    if isinstance(error, errors.StartFailed):
        told["exit_code"] = error.exit_code
    return {"error": told}


def _row(error: BaseException) -> tuple[int, str]:
    return next((status, code) for kind, status, code in STATUS if isinstance(error, kind))
