"""The small languages inside strings: versions, lists of cpus, kernel parameters."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.config_errors import join, nearest
from ociruntime.runtime.spec.cpu_list import check_list
from ociruntime.runtime.spec.sysctl import sysctl_path
from ociruntime.runtime.spec.validate import check_version, parse


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.0.0", (1, 0, 0)),
        ("1.0.0-rc1", (1, 0, 0)),
        ("1.0.2-dev", (1, 0, 2)),
        ("1.3.0+dev", (1, 3, 0)),
        ("1.3.0-rc.1+build.007", (1, 3, 0)),
        ("10.20.30", (10, 20, 30)),
        ("1.0.0--", (1, 0, 0)),
        ("1.0.0-0a", (1, 0, 0)),
    ],
)
def test_versions(text: str, numbers: tuple[int, int, int]) -> None:
    assert parse(text) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "banana",
        "1.0",
        "1.0.0.0",
        "v1.0.0",
        "01.0.0",
        "1.0.0-",
        "1.0.0-01",
        "1.0.0+",
        "1.0.0-a..b",
        " 1.0.0",
        "1.0.0\n",
        "1.0.-1",
        "1.0.0-ä",
        "\u0661.0.0",
    ],
)
def test_no_versions(text: str) -> None:
    """CFG-VER-02."""
    assert parse(text) is None


@pytest.mark.parametrize("text", ["1.0.0-rc5", "1.0.0", "1.1.0+dev", "1.2.1", "1.3.0", "1.3.9"])
def test_supported_versions(text: str) -> None:
    assert check_version(text) == []


@pytest.mark.parametrize("text", ["0.9.0", "2.0.0", "9.0.0"])
def test_unsupported_versions(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"unsupported ociVersion {text} \(supported: 1\.0 to"):
        check_version(text)


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,7", " 1,2\n", "0-30:2/4", "3-3"])
def test_lists(text: str) -> None:
    check_list("here", text)


@pytest.mark.parametrize(
    "text", [",", "1,", "-1", "1-", "a", "1;2", "3-1", "0-3:2", "0-3:/2", "1.0", "²", "9" * 12]
)
def test_no_lists(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^here: "):
        check_list("here", text)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net/ipv4/ip_forward", "net/ipv4/ip_forward"),
        ("net.ipv4.conf.eth0/100.mtu", "net/ipv4/conf/eth0.100/mtu"),
        ("net/ipv4/conf/eth0.100/mtu", "net/ipv4/conf/eth0.100/mtu"),
        ("plain", "plain"),
    ],
)
def test_kernel_parameters(key: str, path: str) -> None:
    assert sysctl_path(key) == path


@pytest.mark.parametrize(
    ("word", "words", "guess"),
    [
        ("netwrk", ("pid", "network", "mount"), "network"),
        ("net", ("pid", "network", "mount"), "network"),
        ("bogus", ("pid", "network", "mount"), ""),
        ("NETWORK", ("pid", "network"), "network"),
        ("nofile", ("RLIMIT_CPU", "RLIMIT_NOFILE"), "RLIMIT_NOFILE"),
        ("RLIMIT_X", ("RLIMIT_CPU", "RLIMIT_NOFILE"), ""),
        ("anything", (), ""),
    ],
)
def test_nearest_word(word: str, words: tuple[str, ...], guess: str) -> None:
    assert nearest(word, words) == guess


def test_paths() -> None:
    assert join("", "root") == "root"
    assert join("mounts", 7) == "mounts[7]"
    assert join("mounts[7]", "options") == "mounts[7].options"
    assert join("linux.sysctl", "net.x") == 'linux.sysctl["net.x"]'
