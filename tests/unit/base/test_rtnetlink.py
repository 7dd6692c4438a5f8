"""The wire format, without the kernel."""

from __future__ import annotations

from struct import pack

import pytest

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
