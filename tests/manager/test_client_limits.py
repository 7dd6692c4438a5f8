"""Checks that a client of the daemon cannot disable, whatever it sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon

pytestmark = pytest.mark.root


@pytest.fixture
def strict(work: Path) -> Iterator[Daemon]:
    """A daemon that allows clients to disable no check except TLS for plain HTTP."""
    one = Daemon(work, "--insecure-options=", "--allow-insecure=http")
    try:
        yield one.start()
    finally:
        one.finish()


@pytest.mark.parametrize("check", ["image", "tls", "pubkey", "capabilities", "paths", "seccomp"])
def test_a_client_leaves_out_no_check(strict: Daemon, check: str) -> None:
    new = {"image": "example.invalid/none", "pull_policy": "never", "insecure": ["http", check]}
    refused = strict("POST", "/v1/containers", new).failed(403, check, "--allow-insecure")
    assert refused["code"] == "forbidden"
    pull = {"image": "example.invalid/none", "pull_policy": "never", "insecure": [check]}
    strict("POST", "/v1/images/pull", pull).failed(403, check, "--allow-insecure")
    assert strict.list() == []


def test_a_client_leaves_out_what_the_daemon_allows(strict: Daemon) -> None:
    new = {"image": "example.invalid/none", "pull_policy": "never", "insecure": ["http"]}
    assert strict("POST", "/v1/containers", new).status != 403
    pull = {"image": "example.invalid/none", "pull_policy": "never", "insecure": ["http"]}
    assert strict("POST", "/v1/images/pull", pull).status == 200


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fetc", "%2e%2e", "c%00d", "c%0aforged", "%ff", "--force", "%2Fetc%2Fpasswd"]
)
def test_names_in_paths(strict: Daemon, name: str) -> None:
    """None of them reaches a file, a command line or a line of the log."""
    paths = [f"/v1/containers/{name}", f"/v1/containers/{name}/logs", f"/v1/images/{name}"]
    for path in paths:
        for method in ("GET", "DELETE"):
            assert strict(method, path).status in (400, 404, 405), (method, path)
    nul = strict("DELETE", "/v1/images/c%00d").failed(400, "NUL")
    assert nul["code"] == "bad_request"
    assert "\nforged" not in strict.log.read_text()
    assert strict.list() == []
