from __future__ import annotations

import pytest

from ociruntime.base import linux
from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan.mount_options import option_names, parse_mount_options

# config.md, Linux mount options, without those that are refused so far.
OF_THE_SPECIFICATION = [
    "async",
    "atime",
    "bind",
    "defaults",
    "dev",
    "diratime",
    "dirsync",
    "exec",
    "iversion",
    "lazytime",
    "loud",
    "mand",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "noiversion",
    "nolazytime",
    "nomand",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nosymfollow",
    "private",
    "ratime",
    "rbind",
    "rdev",
    "rdiratime",
    "relatime",
    "remount",
    "rexec",
    "rnoatime",
    "rnodev",
    "rnodiratime",
    "rnoexec",
    "rnorelatime",
    "rnostrictatime",
    "rnosuid",
    "rnosymfollow",
    "ro",
    "rprivate",
    "rrelatime",
    "rro",
    "rrw",
    "rshared",
    "rslave",
    "rstrictatime",
    "rsuid",
    "rsymfollow",
    "runbindable",
    "rw",
    "shared",
    "silent",
    "slave",
    "strictatime",
    "suid",
    "symfollow",
    "sync",
    "unbindable",
]


@pytest.mark.parametrize("word", OF_THE_SPECIFICATION)
def test_every_word_of_the_specification_is_known(word: str) -> None:
    assert parse_mount_options([word], "mounts[0]").data == []
    assert word in option_names()


def test_names_are_sorted_and_unique() -> None:
    assert option_names() == sorted(set(option_names()))


@pytest.mark.parametrize(
    ("options", "on", "off"),
    [
        (["ro"], linux.MOUNT_ATTR_RDONLY, 0),
        (["rw"], 0, linux.MOUNT_ATTR_RDONLY),
        (["ro", "rw"], 0, linux.MOUNT_ATTR_RDONLY),
        (["rw", "ro"], linux.MOUNT_ATTR_RDONLY, 0),
        (["nosuid", "nodev"], linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV, 0),
        (["noatime"], linux.MOUNT_ATTR_NOATIME, linux.MOUNT_ATTR__ATIME),
        (["strictatime"], linux.MOUNT_ATTR_STRICTATIME, linux.MOUNT_ATTR__ATIME),
        (["relatime"], 0, linux.MOUNT_ATTR__ATIME),
        (["noatime", "atime"], 0, linux.MOUNT_ATTR__ATIME),
        (["noatime", "strictatime"], linux.MOUNT_ATTR_STRICTATIME, linux.MOUNT_ATTR__ATIME),
        (["noatime", "nostrictatime"], linux.MOUNT_ATTR_NOATIME, linux.MOUNT_ATTR__ATIME),
        (["strictatime", "nostrictatime"], 0, linux.MOUNT_ATTR__ATIME),
        (["norelatime"], 0, 0),
        (["defaults"], 0, 0),
    ],
)
def test_attributes(options: list[str], on: int, off: int) -> None:
    found = parse_mount_options(options, "mounts[0]")
    assert (found.set, found.clear) == (on, off)
    assert (found.set_recursive, found.clear_recursive) == (0, 0)


def test_recursive_attributes_are_kept_apart() -> None:
    found = parse_mount_options(["rw", "rro", "rnoatime"], "mounts[0]")
    assert (found.set, found.clear) == (0, linux.MOUNT_ATTR_RDONLY)
    assert found.set_recursive == linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOATIME
    assert found.clear_recursive == linux.MOUNT_ATTR__ATIME


def test_bind() -> None:
    assert not parse_mount_options(["ro"], "").bind
    assert parse_mount_options(["bind"], "").bind
    assert not parse_mount_options(["bind"], "").recursive
    assert parse_mount_options(["bind", "rbind"], "").recursive
    assert not parse_mount_options(["rbind", "bind"], "").recursive


def test_propagation_keeps_its_order() -> None:
    found = parse_mount_options(["slave", "rshared"], "")
    assert found.propagation == [linux.MS_SLAVE, linux.MS_SHARED | linux.MS_REC]


def test_superblock_words() -> None:
    assert parse_mount_options(["sync", "silent", "lazytime"], "").superblock == [
        "sync",
        "lazytime",
    ]


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("size=1m", ["size=1m"]),
        ("size=1m,mode=700", ["size=1m", "mode=700"]),
        ('context="a:b:c0,c1"', ['context="a:b:c0,c1"']),
        (r"lowerdir=/a\,b", [r"lowerdir=/a\,b"]),
        ("", []),
        ("x-anything=1", []),
        ("nofail", []),
    ],
)
def test_data(word: str, parts: list[str]) -> None:
    found = parse_mount_options(["ro", word], "mounts[0]")
    assert found.data == [(1, part) for part in parts]


@pytest.mark.parametrize("word", ["idmap=uids=0-1-10", "ridmap="])
def test_id_maps_come_from_the_mount(word: str) -> None:
    with pytest.raises(ConfigError, match="takes no value") as refused:
        parse_mount_options(["bind", word], "mounts[3]")
    assert refused.value.where == "mounts[3].options[1]"
