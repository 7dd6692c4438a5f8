"""Decisions about running pods that need no running pod."""

from __future__ import annotations

import pytest

from ociruntime.pods.bundle.runtime_calls import failure_code
from ociruntime.pods.cli.apps import status_of
from ociruntime.pods.store.pod_status import state_of


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('exec: "/nope": no such file or directory (process.args[0])', 127),
        ('exec: "nope": executable file not found in $PATH', 127),
        ('executable file "nope" not found in $PATH', 127),
        ('exec: "/etc/passwd": permission denied', 126),
        ("exec /bin/x: exec format error", 126),
        ("mount /proc: operation not permitted", 254),
        ("the image is gone", 254),
    ],
)
def test_codes_of_apps_that_were_not_started(message: str, code: int) -> None:
    assert failure_code(message) == code


@pytest.mark.parametrize(
    ("recorded", "pod", "phase", "state"),
    [
        ("running", "running", "run", "running"),
        ("running", "exited", "run", "exited"),
        (None, "running", "run", "unknown"),
        ("strange", "running", "run", "unknown"),
        (None, "exited garbage", "exited-garbage", "exited"),
        (None, "prepared", "prepared", "prepared"),
        (None, "preparing", "prepare", "preparing"),
    ],
)
def test_states(recorded: object, pod: str, phase: str, state: str) -> None:
    assert state_of(recorded, pod, phase) == state


def test_status_leaves_out_what_is_not_known() -> None:
    entry = {"name": "a", "image": {"id": "sha256:1"}, "mounts": [{"path": "/d", "volume": "v"}]}
    record = {"state": "exited", "exit_code": 0, "pid": 7, "restarts": 0, "reason": ""}
    assert status_of(entry, record) == {
        "name": "a",
        "state": "exited",
        "image_id": "sha256:1",
        "exit_code": 0,
        "mounts": {"/d": "v"},
    }
