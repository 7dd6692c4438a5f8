"""The process of a command in an app, where the runtime is given the whole of it."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.pods.operations.app_exec import Command, process_with

OWN = {
    "args": ["server"],
    "terminal": True,
    "env": ["PATH=/bin", "X=0"],
    "cwd": "/srv",
    "user": {"uid": 1, "gid": 2, "additionalGids": [3]},
    "noNewPrivileges": True,
}


def test_what_is_not_said_stays() -> None:
    assert process_with(OWN, Command(["sh"], env=["X=1"])) == {
        **OWN,
        "args": ["sh"],
        "terminal": False,
        "env": ["PATH=/bin", "X=0", "X=1"],
    }


def test_term_is_for_terminals_and_may_be_set() -> None:
    own = {**OWN, "env": []}
    assert process_with(own, Command(["sh"], tty=True))["env"] == ["TERM=xterm"]
    chosen = Command(["sh"], tty=True, env=["TERM=screen"])
    assert process_with(own, chosen)["env"] == ["TERM=screen"]
    assert process_with(own, Command(["sh"]))["env"] == []


@pytest.mark.parametrize(("user", "gid"), [("33", 2), ("33:34", 34)])
def test_user_and_directory(user: str, gid: int) -> None:
    found = process_with(OWN, Command(["sh"], tty=True, user=user, cwd="/data"))
    assert (found["cwd"], found["terminal"]) == ("/data", True)
    assert found["user"] == {"uid": 33, "gid": gid, "additionalGids": [3]}


@pytest.mark.parametrize("user", ["web", "33:", "1:2:3", "-1", "٣"])
def test_users_that_are_no_numbers(user: str) -> None:
    with pytest.raises(UsageError, match=f"--user {user}: must be UID"):
        process_with(OWN, Command(["sh"], user=user))
