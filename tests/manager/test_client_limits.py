"""What a client of the daemon may not switch off, whatever it sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon

pytestmark = pytest.mark.root


@pytest.fixture
def strict(work: Path) -> Iterator[Daemon]:
    """A daemon that leaves nothing out, except what clients may: plain HTTP."""
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
