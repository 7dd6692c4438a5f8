"""The wire format, without the kernel."""

from __future__ import annotations

import errno
import os
from struct import calcsize, pack, unpack_from
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.base import rtnetlink
from ociruntime.base.errors import HostError
from ociruntime.base.rtnetlink import NLM_F_ACK_TLVS, _raise_error, attribute, attributes


def test_attributes_come_back() -> None:
    data = attribute(3, b"eth0\0") + attribute(8, pack("=I", 7)) + attribute(9, b"")
    assert len(data) % 4 == 0
    assert attributes(data) == {3: b"eth0\0", 8: pack("=I", 7), 9: b""}


def test_bits_beside_the_number_are_left_out() -> None:
    assert attributes(attribute(0x8000 | 22, b"nest")) == {22: b"nest"}


def test_cut_off_attributes() -> None:
    """A wrong length stops the parser instead of looping for ever."""
    assert attributes(pack("=HH", 0, 5) + b"\0") == {5: b""}


def test_no_error() -> None:
    _raise_error(pack("=i", 0) + bytes(16), 0)


def test_error_in_the_words_of_the_kernel() -> None:
    body = pack("=i", -22) + bytes(16) + attribute(1, b"The interface is bad\0")
    with pytest.raises(OSError, match=r"Invalid argument: The interface is bad$") as caught:
        _raise_error(body, NLM_F_ACK_TLVS)
    assert caught.value.errno == 22


def test_error_without_words() -> None:
    with pytest.raises(OSError, match=r"Invalid argument$"):
        _raise_error(pack("=i", -22) + bytes(16), 0)


def test_options_of_a_newer_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older kernel refuses them: its errors are less detailed."""
    refused = []

    class Socket:
        def __init__(self, *_: int) -> None:
            pass

        def setsockopt(self, *option: int) -> None:
            refused.append(option)
            raise OSError(92, "Protocol not available")

    monkeypatch.setattr("_socket.socket", Socket)
    rtnetlink.Rtnetlink()
    assert len(refused) == 3


class Asking(rtnetlink.Rtnetlink):
    """A netlink socket that records the requests; each fails with ``number``."""

    __slots__ = ("number", "requests")

    def __init__(self, number: int) -> None:
        self.number = number
        self.requests: list[tuple[int, bytes]] = []

    def request(self, kind: int, body: bytes, flags: int = 0) -> list[bytes]:
        self.requests.append((kind, body))
        if self.number:
            raise OSError(self.number, os.strerror(self.number))
        return []


def test_missing_device() -> None:
    assert Asking(errno.ENODEV).link("eth9") is None
    with pytest.raises(OSError, match="not permitted"):
        Asking(errno.EPERM).link("eth9")


def test_changes_of_a_device() -> None:
    links = Asking(0)
    links.set_hardware(7, b"\2\0\0\0\0\1")
    links.remove_alternative_name(8, b"lan")
    (first, changes), (second, names) = links.requests
    header = rtnetlink.LINK
    assert (first, unpack_from(header, changes)[2]) == (rtnetlink.RTM_NEWLINK, 7)
    assert attributes(changes[calcsize(header) :]) == {1: b"\2\0\0\0\0\1"}
    assert (second, unpack_from(header, names)[2]) == (rtnetlink.RTM_DELLINKPROP, 8)
    (nested,) = attributes(names[calcsize(header) :]).values()
    assert attributes(nested) == {rtnetlink.IFLA_ALT_IFNAME: b"lan\0"}


def test_reply_to_an_earlier_request() -> None:
    """It is skipped, as a damaged length cannot stop the parser."""

    def reply(sequence: int, body: bytes) -> bytes:
        header = calcsize(rtnetlink.HEADER)
        return pack(rtnetlink.HEADER, header + len(body), 16, 0, sequence, 0) + body

    links = rtnetlink.Rtnetlink.__new__(rtnetlink.Rtnetlink)
    links._sequence = 2
    data = reply(1, b"old!") + reply(2, b"new!") + pack(rtnetlink.HEADER, 0, 16, 0, 1, 0)
    links._socket = cast("Any", SimpleNamespace(recv=lambda size: data))
    assert list(links._receive()) == [(16, 0, b"new!")]


def test_no_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")

    def fail(fd: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(rtnetlink, "_enter", fail)
    with pytest.raises(HostError, match="network namespace: operation not permitted"):
        rtnetlink._elsewhere(lambda: None, lambda: 1)
    assert os.listdir("/proc/self/fd") == before


def test_result_of_a_call() -> None:
    rtnetlink._check(0)
    with pytest.raises(PermissionError):
        rtnetlink._check(-errno.EPERM)


def test_error_with_other_details() -> None:
    """The kernel may send the position of the error without words."""
    body = pack("=i", -22) + bytes(16) + attribute(2, pack("=I", 8))
    with pytest.raises(OSError, match=r"Invalid argument$"):
        _raise_error(body, NLM_F_ACK_TLVS)
