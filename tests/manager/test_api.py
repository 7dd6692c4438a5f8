"""Every route of the API, with a manager stub that records the requests."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.manager.api.routes import LARGEST_BODY, ROUTES
from ociruntime.manager.containers.pod_calls import _MEANING
from tests.support.manager_stub import ERRORS, ID, POD, Api, served

# (method, path, body) -> (status, what is called)
GOOD: tuple[tuple[str, str, object, int, tuple[Any, ...]], ...] = (
    ("GET", "/v1/containers", None, 200, ("list", {"all": False, "filters": {}})),
    ("GET", "/v1/containers?all=1", None, 200, ("list", {"all": True, "filters": {}})),
    (
        "GET",
        "/v1/containers?filters=%7B%22label%22%3A%5B%22a%3D1%22%5D%7D",
        None,
        200,
        ("list", {"all": False, "filters": {"label": ["a=1"]}}),
    ),
    ("POST", "/v1/containers", {"image": "x"}, 201, ("created",)),
    ("DELETE", "/v1/containers/web", None, 204, ("remove", ID, False, False)),
    ("DELETE", "/v1/containers/web?force=1", None, 204, ("remove", ID, True, False)),
    ("DELETE", "/v1/containers/web?volumes=1", None, 204, ("remove", ID, False, True)),
    ("POST", "/v1/containers/web/start", None, 200, ("start", ID, False)),
    ("POST", "/v1/containers/web/start?strict=1", {}, 200, ("start", ID, True)),
    ("POST", "/v1/containers/web/stop", None, 200, ("stop", ID, None, False)),
    ("POST", "/v1/containers/ab/stop", {"timeout": 0.5}, 200, ("stop", ID, 0.5, False)),
    ("POST", "/v1/containers/web/restart", {"timeout": 3}, 200, ("restart", ID, 3)),
    ("POST", "/v1/containers/web/kill", None, 200, ("kill", ID, "SIGKILL")),
    ("POST", "/v1/containers/web/kill", {"signal": 15}, 200, ("kill", ID, "15")),
    ("POST", "/v1/containers/web/pause", None, 200, ("pause", ID)),
    ("POST", "/v1/containers/web/unpause", None, 200, ("unpause", ID)),
    ("POST", "/v1/containers/web/rename", {"name": "db"}, 200, ("rename", ID, "db")),
    (
        "POST",
        "/v1/containers/web/update",
        {"memory": 1 << 26},
        200,
        ("update", ID, {"memory": 1 << 26}),
    ),
    ("POST", "/v1/containers/prune", None, 200, ("prune",)),
    ("GET", "/v1/info", None, 200, ("list", {})),
)

# What is wrong -> words of the answer, status 400.
BAD: tuple[tuple[str, str, object, str], ...] = (
    ("GET", "/v1/containers?all=perhaps", None, 'all: must be 0 or 1, not "perhaps"'),
    ("GET", "/v1/containers?filters=x", None, "filters: must be"),
    ("GET", "/v1/containers?filters=%5B%5D", None, "filters: must be"),
    (
        "GET",
        "/v1/containers?filters=%7B%22id%22%3A%5B1%5D%7D",
        None,
        "filters.id[0]: ",
    ),
    ("GET", "/v1/containers?filters=%7B%22id%22%3A1%7D", None, "filters.id: "),
    ("POST", "/v1/containers", None, "a JSON object"),
    ("POST", "/v1/containers", [1], "a JSON object"),
    ("DELETE", "/v1/containers/web?force=2", None, "force:"),
    ("POST", "/v1/containers/web/start", {"fast": True}, "fast: unknown member"),
    ("POST", "/v1/containers/web/stop", {"timeout": "1"}, "timeout: "),
    ("POST", "/v1/containers/web/stop", {"timeout": True}, "timeout: "),
    ("POST", "/v1/containers/web/stop", {"timeout": -1}, "timeout: -1 is not between 0 and"),
    ("POST", "/v1/containers/web/stop", [], "a JSON object"),
    ("POST", "/v1/containers/web/restart", {"timeout": 1e9}, "timeout:"),
    ("POST", "/v1/containers/web/kill", {"signal": []}, "signal: "),
    ("POST", "/v1/containers/web/kill", {"signal": "a\0"}, "signal: "),
    ("POST", "/v1/containers/web/rename", None, "name: is required"),
    ("POST", "/v1/containers/web/rename", {"name": ""}, "name: must not"),
    ("POST", "/v1/containers/web/wait", {"condition": 1}, "condition: "),
    ("GET", "/v1/events?since=soon", None, "since: must be an RFC 3339 time"),
    ("GET", "/v1/containers/web/logs?until=soon", None, "until: must be an RFC 3339 time"),
    ("POST", "/v1/images/pull", {}, "image: is required"),
    ("POST", "/v1/images/pull", {"image": 1}, "image: "),
    (
        "POST",
        "/v1/images/pull",
        {"image": "x", "pull_policy": "now"},
        'pull_policy: unknown value "now"',
    ),
    (
        "POST",
        "/v1/images/pull",
        {"image": "x", "insecure": ["tls", "x"]},
        'insecure[1]: unknown value "x"',
    ),
)

RAW = (
    (b"{", "body line 1 column 2: "),
    (b'{"a": NaN}', "body line 1 column 7: "),
    (b'{"image": 1, "image": 2}', 'duplicate name "image"'),
    (b'"\xff"', "the body line 1 column 2: byte 0xff is not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(tmp_path) as api:
        yield api


def error(answer: tuple[int, Any]) -> tuple[int, str, str]:
    """Return status, code and message of an error answer."""
    status, document = answer
    assert set(document) == {"error"}, document
    return status, document["error"]["code"], document["error"]["message"]


@pytest.mark.parametrize(("method", "path", "body", "status", "call"), GOOD)
def test_what_is_asked_reaches_the_manager(
    api: Api, method: str, path: str, body: object, status: int, call: tuple[Any, ...]
) -> None:
    assert api(method, path, body)[0] == status
    assert api.manager.calls[-1] == call


@pytest.mark.parametrize(("method", "path", "body", "words"), BAD)
def test_a_wrong_request_is_refused_with_the_place(
    api: Api, method: str, path: str, body: object, words: str
) -> None:
    status, code, message = error(api(method, path, body))
    assert (status, code) == (400, "bad_request")
    assert words in message
    assert api.manager.calls == []


@pytest.mark.parametrize(("body", "words"), RAW)
def test_a_body_that_is_no_json(api: Api, body: bytes, words: str) -> None:
    status, code, message = error(api("POST", "/v1/containers", raw=body))
    assert (status, code) == (400, "bad_request")
    assert words in message


def test_a_body_that_is_too_large(api: Api) -> None:
    body = b'{"image": "' + b"x" * LARGEST_BODY + b'"}'
    status, code, message = error(api("POST", "/v1/containers", raw=body))
    assert (status, code) == (413, "too_large")
    assert "too large" in message
    assert api("GET", "/v1/ping") == (200, {"ok": True})


@pytest.mark.parametrize(
    "path", ["", "/start", "/stop", "/wait", "/rename", "/update", "/top", "/stats"]
)
def test_no_such_container(api: Api, path: str) -> None:
    method = "GET" if path in ("", "/top", "/stats") else "POST"
    status, code, message = error(api(method, f"/v1/containers/nope{path}", None))
    assert (status, code) == (404, "not_found")
    assert '"nope"' in message


@pytest.mark.parametrize("code", ERRORS)
def test_errors_of_the_manager(api: Api, code: str) -> None:
    api.manager.error, status = ERRORS[code]
    answer = api("POST", "/v1/containers/web/start")
    assert error(answer)[:2] == (status, code)
    assert answer[1]["error"].get("exit_code") == (127 if code == "start_failed" else None)


def test_unknown_routes(api: Api) -> None:
    for path in ("/", "/v1", "/v2/containers", "/v1/containers/web/explode", "/v1/containers/"):
        status, code, message = error(api("GET", path))
        assert (status, code) == (404, "no_such_route")
        assert message.endswith(f"{path}: route not found")


@pytest.mark.parametrize("path", sorted({route[1] for route in ROUTES}))
def test_wrong_methods(api: Api, path: str) -> None:
    where = path.replace("{ref:.+}", "x").replace("{ref}", "web").replace("{uuid}", POD)
    ways = sorted(
        {
            method
            for method, route, _ in ROUTES
            if re.fullmatch(route.replace("{ref:.+}", ".+").replace("{ref}", "[^/]+"), where)
            or route == path
        }
    )
    status, headers, data = api.exchange("PATCH", where)
    assert (status, json.loads(data)["error"]["code"]) == (405, "wrong_method")
    assert headers["allow"] == ", ".join(ways)


def test_a_container_that_somebody_else_removes_is_removed(api: Api) -> None:
    """It exists when the request arrives, but not when it is processed."""
    from ociruntime.base.errors import NotFound

    api.manager.error = NotFound("it has gone")
    assert api("DELETE", "/v1/containers/web") == (204, None)
    assert error(api("DELETE", "/v1/containers/other"))[0] == 404


def test_wait_answers_at_the_end(api: Api) -> None:
    with api.connect() as sock:
        sock.sendall(b"POST /v1/containers/web/wait HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: ("wait", ID, "not-running") in api.manager.calls)
        api.set(api.manager.ended)
        answer = sock.recv(65536)
        while b"}" not in answer:
            answer += sock.recv(65536)
    assert json.loads(answer.rpartition(b"\r\n\r\n")[2])["exit_code"] == 3


def test_nobody_waits_for_a_client_that_has_gone(api: Api) -> None:
    with api.connect() as sock:
        sock.sendall(b"POST /v1/containers/web/wait HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: ("wait", ID, "not-running") in api.manager.calls)
    until(lambda: ("waited no longer",) in api.manager.calls)


def test_what_was_begun_for_a_client_that_has_gone_is_finished(api: Api) -> None:
    api.manager.slow.clear()
    body = b'{"image": "x"}'
    with api.connect() as sock:
        head = f"POST /v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        until(lambda: bool(api.manager.calls))
    api.set(api.manager.slow)
    until(lambda: api.manager.calls[-1] == ("created",))
    assert api("GET", "/v1/ping") == (200, {"ok": True})


def test_a_client_that_goes_in_the_middle_of_its_request(api: Api) -> None:
    for text in (
        b"POST /v1/cont",
        b"POST /v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ):
        with api.connect() as sock:
            sock.sendall(text)
    assert api("GET", "/v1/ping") == (200, {"ok": True})
    assert api.manager.calls == []


def test_a_client_that_is_slow_keeps_nobody_waiting(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ociruntime.manager.api.parse_requests.BODY_TIMEOUT", 0.2)
    with api.connect() as sock:
        sock.sendall(b"POST /v1/containers HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        assert api("GET", "/v1/ping") == (200, {"ok": True})
        assert b"408" in sock.recv(65536).partition(b"\r\n")[0]


def test_no_http_at_all(api: Api) -> None:
    with api.connect() as sock:
        sock.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.")
    assert api("GET", "/v1/ping") == (200, {"ok": True})


def test_who_has_asked_is_in_the_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ocid"):
        api("POST", "/v1/containers/nope/start")
    line = caplog.messages[-1]
    assert line.startswith(
        f"pid {os.getpid()} uid {os.getuid()}: POST /v1/containers/nope/start 404 "
    )


def test_inspect(api: Api) -> None:
    status, document = api("GET", "/v1/containers/web")
    assert (status, document["id"]) == (200, ID)


def test_usage_of_what_does_not_run_is_unknown(api: Api) -> None:
    assert api("GET", "/v1/containers/web/top") == (200, {"processes": []})
    status, document = api("GET", "/v1/containers/web/stats")
    assert status == 200
    assert document["name"] == "web"
    assert document["memory"] is None


def test_version(api: Api) -> None:
    assert api("GET", "/v1/version")[1]["api"] == "v1"


# --- by the program ocipod ---


def test_images(api: Api) -> None:
    api.manager.programs.program = 'print(\'[{"name": "x"}]\')'
    assert api("GET", "/v1/images") == (200, [{"name": "x"}])
    assert api.manager.calls == [("ocipod", "image", "list", "--format=json")]


def test_an_image_is_removed_by_its_name(api: Api) -> None:
    assert api("DELETE", "/v1/images/docker.io%2Flibrary%2Fbusybox:1?force=1")[0] == 204
    assert api("DELETE", "/v1/images/docker.io/library/busybox:1")[0] == 204
    name = "docker.io/library/busybox:1"
    assert api.manager.calls == [
        ("ocipod", "image", "rm", "--untag", "--force", "--", name),
        ("ocipod", "image", "rm", "--untag", "--", name),
    ]


FAILING = "import sys; print('ocipod: {}', file=sys.stderr); sys.exit(254)"


@pytest.mark.parametrize(
    ("told", "status", "code"),
    [
        (f"image x {_MEANING[0][0]}", 404, "not_found"),
        (f"image x {_MEANING[1][0]} (--force removes it)", 409, "conflict"),
        ("the disk is full", 500, "failed"),
    ],
)
def test_failures_of_ocipod(api: Api, told: str, status: int, code: str) -> None:
    api.manager.programs.program = FAILING.format(told)
    assert error(api("DELETE", "/v1/images/x")) == (status, code, told)
    api.manager.programs.program = "import sys; sys.exit(1)"
    status, code, message = error(api("GET", "/v1/images"))
    assert (status, code) == (500, "failed")
    assert sys.executable in message
    assert "status 1" in message


PULLING = """
import sys
print('{"progress": "copying", "done": 1, "total": 2}', file=sys.stderr)
print('sha256:1234')
"""


def test_a_pull_tells_how_far_it_is(api: Api) -> None:
    api.manager.programs.program = PULLING
    status, _, data = api.exchange("POST", "/v1/images/pull", {"image": "x", "insecure": ["tls"]})
    assert status == 200
    lines = [json.loads(line) for line in lines_of(data)]
    assert lines == [{"progress": "copying", "done": 1, "total": 2}, {"id": "sha256:1234"}]
    words = ("--insecure-options=tls", "fetch", "--full", "--progress=json")
    assert api.manager.calls == [("ocipod", *words, "--pull-policy=update", "--", "x")]


def test_a_pull_that_fails_says_why(api: Api) -> None:
    api.manager.programs.program = FAILING.format("no route to host")
    _, _, data = api.exchange("POST", "/v1/images/pull", {"image": "x"})
    assert [json.loads(line) for line in lines_of(data)] == [
        {"error": {"code": "failed", "message": "no route to host"}}
    ]


def lines_of(chunked: bytes) -> list[bytes]:
    return [line for line in chunked.splitlines() if line.startswith(b"{")]


def test_pods(api: Api) -> None:
    assert api("GET", "/v1/pods") == (200, [])
    status, code, message = error(api("DELETE", f"/v1/pods/{POD}"))
    assert (status, code) == (404, "not_found")
    assert POD in message


def test_the_pod_of_a_container_is_the_containers(api: Api) -> None:
    (Path(api.manager.settings.directory) / "pods" / "run" / POD).mkdir(parents=True)
    for method, path in (("POST", f"/v1/pods/{POD}/stop"), ("DELETE", f"/v1/pods/{POD[:8]}")):
        status, code, message = error(api(method, path))
        assert (status, code) == (409, "conflict")
        assert 'belongs to container "web" (use ocictl stop web' in message
    api.manager.records = []
    assert api("POST", f"/v1/pods/{POD}/stop", {"timeout": 3}) == (200, {"id": POD})
    assert api.manager.calls[-1] == ("ocipod", "stop", "--wait", "--time=3", POD)
    assert api("DELETE", f"/v1/pods/{POD}") == (204, None)
    removed: tuple[Any, ...] = ("ocipod", "rm", POD)
    assert api.manager.calls[-1] == removed


def until(condition: Any, seconds: float = 20) -> None:  # noqa: ANN401
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)
