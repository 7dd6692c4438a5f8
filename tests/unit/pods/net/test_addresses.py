"""Addresses as numbers, compared with the standard library."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ociruntime.pods.net.addresses import parse_address, parse_network


@given(st.ip_addresses(), st.integers(0, 128))
def test_as_the_standard_library(address: ipaddress.IPv4Address, prefix: int) -> None:
    length = min(prefix, address.max_prefixlen)
    theirs = ipaddress.ip_interface(f"{address}/{length}")
    ours = parse_network(f"{address}/{length}")
    assert parse_address(str(address)).number == int(address)
    assert parse_address(str(ours.address)) == parse_address(str(theirs.ip))
    assert parse_address(str(ours.first)).number == int(theirs.network.network_address)
    assert ours.last.number == int(theirs.network.broadcast_address)
    assert ours.address in ours
    assert ours.last.number + 1 >= 1 << ours.address.bits or ours.last.offset(1) not in ours


@pytest.mark.parametrize("text", ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "::g", "1.2.3.4%lo", "a"])
def test_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="invalid IP address"):
        parse_address(text)


@pytest.mark.parametrize("text", ["1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "::/129", "1.2.3.4/-1"])
def test_no_network(text: str) -> None:
    with pytest.raises(ValueError, match="invalid network"):
        parse_network(text)
