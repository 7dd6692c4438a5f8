"""Environment variables: files of them, and defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.pods.manifest.environment import (
    completed,
    completed_as_docker,
    parse_file,
    pod_variables,
)


def test_a_file() -> None:
    text = "# a\n; b\n\nA=1\n B = x=y \nC=\n"
    assert parse_file(text, "f") == {"A": "1", "B": "x=y", "C": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\n\nA=2\n", '--set-env-file: "f", line 3: "A" is already set'),
        ("A", '--set-env-file: "f", line 1: '),
        ("=x", '--set-env-file: "f", line 1: '),
    ],
)
def test_refused_files(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_file(text, "f")
    assert str(refused.value).startswith(message)


def test_settings_are_stronger_than_files(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("A=file\nB=file\n")
    assert pod_variables([str(file)], {"B": "set"}) == {"A": "file", "B": "set"}
    with pytest.raises(UsageError, match=f'--set-env-file: read "{tmp_path}/none": no such file'):
        pod_variables([str(tmp_path / "none")], {})
    file.write_bytes(b"A=\xff\n")
    with pytest.raises(UsageError, match=f'--set-env-file: .*"{file}"'):
        pod_variables([str(file)], {})


def test_what_is_always_there() -> None:
    made = completed({"HOME": "/own"}, "web", "joe", "/home/joe", "")
    assert made["HOME"] == "/own"
    assert (made["USER"], made["LOGNAME"], made["SHELL"]) == ("joe", "joe", "/bin/sh")
    assert (made["AC_APP_NAME"], made["container"]) == ("web", "ocipod")
    assert "/usr/bin" in made["PATH"]


def test_what_docker_sets() -> None:
    assert set(completed_as_docker({}, "")) == {"PATH", "HOME"}
    assert completed_as_docker({"PATH": "/bin", "A": "1"}, "/srv") == {
        "PATH": "/bin",
        "HOME": "/srv",
        "A": "1",
    }
