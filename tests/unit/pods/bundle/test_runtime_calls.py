"""The runtime's log about an app that could not be started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.pods.bundle.runtime_calls import failure, failure_code


@pytest.mark.parametrize(
    ("message", "text", "code"),
    [
        ("open executable: Operation not permitted", 'exec "/bin/x": {}', 126),
        ("the path `/bin/x` is not a regular file: Operation not permitted", "{}", 126),
        ("open executable: Permission denied", 'exec "/bin/x": {}', 126),
        ("executable file `/bin/x` not found in $PATH: No such file or directory", "{}", 127),
        ('exec: "/bin/x": permission denied', "{}", 126),
        ("cannot join the cgroup: Operation not permitted", "{}", 254),
    ],
)
def test_the_program_is_named(tmp_path: Path, message: str, text: str, code: int) -> None:
    log = tmp_path / "log"
    log.write_text(json.dumps({"level": "error", "msg": message}) + "\n")
    found = failure(str(log), "none", "/bin/x")
    assert found == text.format(message)
    assert failure_code(found) == code
