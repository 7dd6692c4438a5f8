"""resolv.conf and hosts from options and results of networks."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.pods.net.resolv_conf import (
    check_servers,
    host_dns,
    hosts,
    parse_dns,
    parse_hosts_entries,
    parse_resolv_conf,
    resolv_conf,
)

NOTHING = parse_dns([], [], [], "")
SAID = {"nameservers": ["10.0.0.53"], "search": ["lan"]}
HOST = {"nameservers": ["192.0.2.53"], "options": ["edns0"]}


def test_options_are_stronger_than_networks() -> None:
    options = parse_dns(["9.9.9.9", "2620:fe::fe"], ["a.test", "b.test"], ["ndots:2"], "c.test")
    assert resolv_conf(options, SAID, HOST) == (
        "nameserver 9.9.9.9\nnameserver 2620:fe::fe\ndomain c.test\n"
        "search a.test b.test\noptions ndots:2\n"
    )


def test_networks_are_stronger_than_the_host() -> None:
    assert resolv_conf(NOTHING, SAID, HOST) == "nameserver 10.0.0.53\nsearch lan\n"
    assert resolv_conf(NOTHING, {}, HOST) == "nameserver 192.0.2.53\noptions edns0\n"
    assert resolv_conf({}, {}, {}) is None


def test_options_without_a_server_keep_the_servers() -> None:
    options = parse_dns([], ["a.test"], [], "")
    assert resolv_conf(options, SAID, HOST) == "nameserver 10.0.0.53\nsearch a.test\n"
    assert resolv_conf(options, {}, HOST) == "nameserver 192.0.2.53\nsearch a.test\n"
    assert resolv_conf(options, {}, {}) == "search a.test\n"


@pytest.mark.parametrize("mode", ["none", "host"])
def test_modes_write_nothing(mode: str) -> None:
    options = parse_dns([mode], [], [], "")
    assert options["mode"] == mode
    assert resolv_conf(options, SAID, HOST) is None


def test_loopback_of_the_host_is_out_of_reach() -> None:
    text = "nameserver 127.0.0.53\nnameserver ::1\nnameserver 192.0.2.1\nsearch lan\n"
    assert host_dns(text, is_host_network=False) == {
        "nameservers": ["192.0.2.1"],
        "search": ["lan"],
    }
    assert len(host_dns(text, is_host_network=True)["nameservers"]) == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((["host"], ["lan"], [], ""), "--dns=host"),
        ((["none"], ["lan"], [], ""), "--dns=none"),
        (([], ["a b"], [], ""), "--dns-search"),
        (([], [], ["a\nnameserver 1.1.1.1"], ""), "--dns-opt"),
        (([], [], [], "a\tb"), "--dns-domain"),
    ],
)
def test_refused(arguments: tuple[list[str], list[str], list[str], str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_dns(*arguments)


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        (["none", "host"], "dns: none"),
        (["9.9.9.9", "host"], "dns: host"),
        (["nine"], 'dns: invalid name server "nine"'),
        ([""], "dns: invalid name server"),
    ],
)
def test_refused_servers(servers: list[str], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        check_servers("dns", servers)


def test_reading() -> None:
    text = (
        "# made\nnameserver 1.1.1.1 # one\nnameserver 8.8.8.8\nsearch a b\noptions x y\ndomain d\n"
    )
    assert parse_resolv_conf(text) == {
        "nameservers": ["1.1.1.1", "8.8.8.8"],
        "search": ["a", "b"],
        "options": ["x", "y"],
        "domain": "d",
    }


def test_hosts_entries() -> None:
    options = parse_hosts_entries(["10.0.0.9=db,10.0.0.8=web", "10.0.0.9=db.test"])
    assert options == parse_hosts_entries(["10.0.0.9=db,db.test,10.0.0.8=web"])
    assert options["entries"] == [["10.0.0.9", ["db", "db.test"]], ["10.0.0.8", ["web"]]]
    text = hosts(options, "pod-1", image_has_one=True)
    assert text is not None
    lines = text.splitlines()
    assert lines[0].split() == ["127.0.0.1", "localhost", "localhost.localdomain"]
    assert lines[-3:] == ["127.0.0.1\tpod-1", "10.0.0.9\tdb db.test", "10.0.0.8\tweb"]


def test_hosts_of_image_and_host() -> None:
    nothing = parse_hosts_entries([])
    assert hosts(nothing, "p", image_has_one=True) is None
    assert "127.0.0.1\tp\n" in (hosts(nothing, "p", image_has_one=False) or "")
    assert hosts(parse_hosts_entries(["host"]), "p", image_has_one=False) is None


@pytest.mark.parametrize(
    "word",
    ["host,10.0.0.1=a", "10.0.0.1", "10.0.0=a", "10.0.0.1=", "10.0.0.1=a b", "", "1.1.1.1=é"],
)
def test_refused_entries(word: str) -> None:
    with pytest.raises(UsageError, match="--hosts-entry"):
        parse_hosts_entries([word])
