"""resolv.conf from options and from results of networks."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.pods.net.resolv_conf import (
    check_servers,
    host_dns,
    parse_dns,
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
