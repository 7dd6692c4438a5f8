"""ocid's errors name the option that was typed, not the member of the request."""

from __future__ import annotations

import pytest

from ociruntime.manager.client.connection import DaemonError
from ociruntime.manager.client.option_names_in_errors import with_option


@pytest.mark.parametrize(
    ("message", "used", "expected"),
    [
        ('volumes[0].source: "/x" not found', ["volume"], '--volume: "/x" not found'),
        ('volumes[0].source: "/x" not found', ["mount"], '--mount: "/x" not found'),
        ("hosts[1].address: invalid", ["add-host"], "--add-host: invalid"),
        ("auto_remove: cannot be combined", ["rm", "restart"], "--rm: cannot be combined"),
        ("restart_policy: not with auto_remove", ["restart"], "--restart: not with --rm"),
        ("memory_swap: too small", ["memory-swap"], "--memory-swap: too small"),
        ("name: taken: by c2", ["name"], "--name: taken: by c2"),
        # Not from an option: the message stays as it is.
        ("memory: too small", [], "memory: too small"),
        ('look up user "x": not found', ["user"], 'look up user "x": not found'),
    ],
)
def test_the_option(message: str, used: list[str], expected: str) -> None:
    error = with_option(DaemonError(message, "bad_request", 400, 126), used)
    assert (str(error), error.status, error.exit_code) == (expected, 400, 126)


def test_other_errors_are_unchanged() -> None:
    error = DaemonError("name: in use", "conflict", 409)
    assert with_option(error, ["name"]) is error
