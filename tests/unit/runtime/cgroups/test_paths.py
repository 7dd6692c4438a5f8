"""LNX-CGPATH: the directories that linux.cgroupsPath refers to."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.hierarchies import components, resolve_path


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, "/c1"),
        ("", "/c1"),
        ("/a/b", "/a/b"),
        ("a/b", "/a/b"),
        ("//a/./b/", "/a/b"),
        ("/libpod_parent/libpod-1", "/libpod_parent/libpod-1"),
        ("machine.slice:libpod:1", "/machine.slice:libpod:1"),  # literal without the systemd driver
        ("/a..b/...", "/a..b/..."),
    ],
)
def test_resolve(given: str | None, path: str) -> None:
    assert resolve_path(given, "c1") == path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("/../x", '".."'),
        ("a/../../b", '".."'),
        ("..", '".."'),
        ("/", "root cgroup"),
        ("./.", "root cgroup"),
        ("/a\0b", "NUL"),
        ("/a\nb", "newline"),
        ("/" + "x" * 256, "255 bytes"),
        ("/" + "ä" * 128, "255 bytes"),
    ],
)
def test_refused(given: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        resolve_path(given, "c1")
    assert caught.value.where == "linux.cgroupsPath"


def test_components() -> None:
    assert components("/a") == ["/a"]
    assert components("/a/b/c") == ["/a", "/a/b", "/a/b/c"]
