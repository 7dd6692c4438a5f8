"""Exceptions that no handler has expected: a clear answer, and a traceback only for a bug."""

from __future__ import annotations

import asyncio
import errno
import json
import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from ociruntime.manager.api import routes


def answer_to(error: Exception) -> tuple[int, str, str]:
    """Return status, code and message of the answer if a handler raises ``error``."""

    async def fail(request: web.Request) -> web.StreamResponse:
        raise error

    request = make_mocked_request("GET", "/v1/ping")
    answer = asyncio.run(routes._with_errors_and_log(request, fail))
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    document = json.loads(answer.body)["error"]
    return answer.status, document["code"], document["message"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EMFILE, "Too many open files", "/a"), '"/a": too many open files'),
        (RuntimeError("can't start new thread"), "can't start new thread"),
    ],
)
def test_what_the_kernel_refuses(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert answer_to(error) == (500, "failed", f"GET /v1/ping: {text}")
    assert "Traceback" not in caplog.text


def test_bug(caplog: pytest.LogCaptureFixture) -> None:
    status, code, message = answer_to(ValueError("x"))
    assert (status, code) == (500, "internal")
    assert "ValueError" in message
    assert "Traceback" in caplog.text
