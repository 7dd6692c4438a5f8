"""The process object of `app exec`, which the runtime gets as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, PodError, UsageError
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


PASSWD = "one:x:1:2:one:/home/one:/bin/sh\nweb:x:33:34:web:/srv:/bin/ash\n"
GROUP = "www:x:34:\nextra:x:90:web\n"


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("user", "ids"),
    [
        ("web", {"uid": 33, "gid": 34, "additionalGids": [34, 90]}),
        ("33", {"uid": 33, "gid": 34, "additionalGids": [34, 90]}),
        ("web:www", {"uid": 33, "gid": 34, "additionalGids": [34]}),
        ("33:7", {"uid": 33, "gid": 7, "additionalGids": [7]}),
        ("77", {"uid": 77, "gid": 0, "additionalGids": [0]}),
        ("77:extra", {"uid": 77, "gid": 90, "additionalGids": [90]}),
    ],
)
def test_user_and_directory(root: str, user: str, ids: dict[str, object]) -> None:
    found = process_with(OWN, Command(["sh"], tty=True, user=user, cwd="/data"), root)
    assert (found["cwd"], found["terminal"]) == ("/data", True)
    assert found["user"] == ids


def test_variables_of_the_account(root: str) -> None:
    own = {**OWN, "env": ["HOME=/home/one", "USER=one", "LOGNAME=mine", "SHELL=/bin/sh"]}
    env = process_with(own, Command(["sh"], user="web", env=["X=1"]), root)["env"]
    assert env == ["HOME=/srv", "USER=web", "LOGNAME=mine", "SHELL=/bin/ash", "X=1"]


@pytest.mark.parametrize("user", ["33:", "1:2:3", ":1", "/etc/passwd", "1:/etc"])
def test_what_is_no_user(root: str, user: str) -> None:
    with pytest.raises(UsageError, match="--user: invalid user"):
        process_with(OWN, Command(["sh"], user=user), root)


@pytest.mark.parametrize("user", ["nobody", "-1", "٣", "web:nogroup"])
def test_users_that_do_not_exist(root: str, user: str) -> None:
    with pytest.raises(PodError, match=r"look up (user|group) .*not found"):
        process_with(OWN, Command(["sh"], user=user), root)


def test_an_app_that_has_just_exited(tmp_path: Path) -> None:
    with pytest.raises(HostError, match='look up user "web"'):
        process_with(OWN, Command(["sh"], user="web"), str(tmp_path / "gone"))
