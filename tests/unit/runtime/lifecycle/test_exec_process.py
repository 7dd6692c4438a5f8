"""The process object of an `exec`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, UsageError
from ociruntime.runtime.lifecycle.context import ExecOptions
from ociruntime.runtime.lifecycle.exec_process import process_of

OWN: dict[str, Any] = {
    "args": ["init"],
    "cwd": "/srv",
    "env": ["A=1"],
    "terminal": True,
    "user": {"uid": 1, "gid": 2, "additionalGids": [3], "umask": 7},
    "capabilities": {"bounding": ["CAP_KILL"], "inheritable": ["CAP_CHOWN"]},
    "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 1}],
    "noNewPrivileges": True,
}


def process(**asked: Any) -> Any:  # noqa: ANN401
    config: Any = {"process": OWN}
    return process_of(config, ExecOptions("c1", **asked), [])


def test_what_is_not_asked_for_stays() -> None:
    assert process(args=["x"]) == {**OWN, "args": ["x"], "terminal": False}


def test_options() -> None:
    made = process(
        args=["x"], tty=True, cwd="/", env=["B=2"], user="9", additional_gids=["4"], apparmor="p"
    )
    assert made["user"] == {"uid": 9, "gid": 2, "additionalGids": [3, 4], "umask": 7}
    assert (made["terminal"], made["cwd"], made["env"]) == (True, "/", ["A=1", "B=2"])
    assert made["apparmorProfile"] == "p"
    assert OWN["env"] == ["A=1"]


def test_capabilities_are_ambient_only_if_inheritable() -> None:
    made = process(args=["x"], capabilities=["CAP_CHOWN", "CAP_FOWNER"])["capabilities"]
    assert made == {
        "bounding": ["CAP_KILL", "CAP_CHOWN", "CAP_FOWNER"],
        "effective": ["CAP_CHOWN", "CAP_FOWNER"],
        "permitted": ["CAP_CHOWN", "CAP_FOWNER"],
        "inheritable": ["CAP_CHOWN"],
        "ambient": ["CAP_CHOWN"],
    }


def test_file(tmp_path: Path) -> None:
    file = tmp_path / "process.json"
    file.write_text(json.dumps({"args": ["x"], "cwd": "/", "user": {"uid": 0, "gid": 0}}))
    made = process(process_file=str(file))
    assert made["rlimits"] == OWN["rlimits"]
    assert made["capabilities"] == OWN["capabilities"]
    assert not made.keys() & {"env", "noNewPrivileges", "terminal"}
    file.write_text("[]")
    with pytest.raises(ConfigError, match="process: "):
        process(process_file=str(file))


@pytest.mark.parametrize("user", [None, {}, {"uid": 5}, {"gid": 6}, {"additionalGids": [7]}])
def test_user_that_a_file_leaves_out(tmp_path: Path, user: dict[str, int] | None) -> None:
    """Like runc and crun: root, whatever the container's own user is."""
    file = tmp_path / "process.json"
    given = {} if user is None else {"user": user}
    file.write_text(json.dumps({"args": ["x"], "cwd": "/", **given}))
    made = process(process_file=str(file))
    assert made["user"] == {"uid": 0, "gid": 0, **(user or {})}


@pytest.mark.parametrize("user", ["", "0", "4294967294", "5:6"])
def test_users(user: str) -> None:
    uid, _, gid = user.partition(":")
    made = process(args=["x"], user=user)["user"]
    assert (made["uid"], made["gid"]) == (int(uid or 1), int(gid or 2))


@pytest.mark.parametrize(
    "user", ["root", "-1", "4294967295", "1:", ":1", "\u0663", "1_0", "00000000001"]
)
def test_what_is_no_user(user: str) -> None:
    with pytest.raises(UsageError, match="--user"):
        process(args=["x"], user=user)


def test_container_without_a_process() -> None:
    nothing: Any = {}
    made = process_of(nothing, ExecOptions("c1", ["x"]), [])
    assert (made["cwd"], made["user"], made["args"]) == ("/", {"uid": 0, "gid": 0}, ["x"])


def test_no_new_privileges() -> None:
    """The option sets it; nothing takes it away from the container's own process."""
    config: Any = {"process": {**OWN, "noNewPrivileges": False}}
    for asked, found in ((True, True), (False, False)):
        options = ExecOptions("c1", args=["x"], no_new_privs=asked)
        assert process_of(config, options, [])["noNewPrivileges"] is found
    assert process(args=["x"])["noNewPrivileges"] is True
