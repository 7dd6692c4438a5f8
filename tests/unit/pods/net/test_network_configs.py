"""Network configuration files: selection, order and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net.network_configs import load, net_directories

PTP = {"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}


def write(directory: Path, file: str, value: object) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (directory / file).write_text(text)


def names(*directories: Path) -> list[str]:
    return [one.name for one in load([str(one) for one in directories])]


def test_places() -> None:
    assert net_directories("", "/etc/x", "/usr/lib/x", "") == ["/etc/x/net.d", "/usr/lib/x/net.d"]
    found = ["/u/net.d", "/l/net.d", "/s/net.d", "/d/net.d"]
    assert net_directories("/u", "/l", "/s", "/d") == found


def test_order_of_files(tmp_path: Path) -> None:
    write(tmp_path, "20-a.conf", {"name": "a", **PTP})
    write(tmp_path, "10-b.conflist", {"name": "b", "cniVersion": "1.1.0", "plugins": [PTP]})
    write(tmp_path, "99-z.conf", {"name": "z", **PTP})
    write(tmp_path, "notes.txt", "no configuration")
    assert names(tmp_path) == ["b", "a", "z", "default", "default-restricted"]
    assert names(tmp_path / "nowhere") == ["default", "default-restricted"]


def test_one_of_the_same_name_hides_the_built_in(tmp_path: Path) -> None:
    write(tmp_path, "10-mine.conf", {"name": "default", **PTP})
    found = {one.name: one for one in load([str(tmp_path)])}
    assert found["default"].file.endswith("10-mine.conf")
    assert found["default"].version == "0.4.0"
    assert found["default"].plugins == (PTP,)


def test_stronger_directories(tmp_path: Path) -> None:
    strong, weak = tmp_path / "strong", tmp_path / "weak"
    write(strong, "10-a.conf", {"name": "a", **PTP, "mtu": 1})
    write(weak, "20-a.conf", {"name": "a", **PTP, "mtu": 2})  # the same network
    write(strong, "30-b.conf", {"name": "b", **PTP})
    write(weak, "30-b.conf", "hidden and never read")  # the same file
    found = {one.name: one for one in load([str(strong), str(weak)])}
    assert found["a"].plugins[0]["mtu"] == 1
    assert names(strong, weak) == ["a", "b", "default", "default-restricted"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{", 'x.conf": invalid JSON: Expecting'),
        ("[]", "JSON object"),
        ({"type": "ptp"}, '"name"'),
        ({"name": "../up", "type": "ptp"}, '"name"'),
        ({"name": ".pods", "type": "ptp"}, '"name"'),
        ({"name": "none", "type": "ptp"}, "reserved for --net"),
        ({"name": "a"}, '"type"'),
        ({"name": "a", "type": "../../bin/sh"}, '"type"'),
        ({"name": "a", "type": "ptp\0"}, r'x\.conf": "type"'),
        ({"name": "a", "type": "\ud800"}, '"type"'),
        ({"name": "a", "type": "ptp", "dns": 5}, '"dns"'),
        ({"name": "a", "type": "ptp", "dns": {"search": "x"}}, '"search"'),
        ({"name": "a", "type": "ptp", "dns": {"domain": "x\ny"}}, '"domain"'),
        (
            {"name": "a", "type": "ptp", "dns": {"nameservers": ["1.1.1.1\noptions x"]}},
            'x.conf": "dns": "nameservers"',
        ),
        ({"name": "a", "type": "ptp", "runtimeConfig": 5}, '"runtimeConfig"'),
        ({"name": "a", "type": "ptp", "ipam": 5}, '"ipam"'),
        ({"name": "a", "type": "ptp", "cniVersion": "0.1.0"}, "0.3.1, 0.4.0"),
        ({"name": "a", "plugins": []}, '"plugins"'),
        ({"name": "a", "plugins": [PTP, {}]}, r"plugins\[1\]: \"type\""),
        ({"name": "a", "type": "ptp", "ociruntime": 5}, '"ociruntime"'),
        ({"name": "a", "type": "ptp", "ociruntime": {"names": 1}}, '"ociruntime.names" must be'),
        ({"name": "a", "type": "ptp", "ociruntime": {"labels": 1}}, '"ociruntime.labels" must be'),
        (
            {"name": "a", "type": "macvlan", "ociruntime": {"builtin": True}},
            '"macvlan"',
        ),
        ('{"name": "a", "type": "ptp", "x": ' + "[" * 5000, 'x.conf": '),
    ],
)
def test_refused(tmp_path: Path, value: object, text: str) -> None:
    write(tmp_path, "x.conf", value)
    with pytest.raises(NetworkError, match=text):
        load([str(tmp_path)])


def test_a_network_twice_in_a_directory(tmp_path: Path) -> None:
    for file in ("1.conf", "2.conf"):
        write(tmp_path, file, {"name": "a", **PTP})
    with pytest.raises(NetworkError, match=r'2\.conf": network "a" .*1\.conf'):
        load([str(tmp_path)])
