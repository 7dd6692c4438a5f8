"""Messages of CRIU's RPC as bytes: by hand from the wire format's description, and both ways."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import CriuError
from ociruntime.runtime.host.criu_messages import SHAPES, decode, encode


def test_numbers_texts_and_messages_on_the_wire() -> None:
    message = {"type": 1, "opts": {"images_dir_fd": 300, "root": "/r", "tcp_close": True}}
    # type: field 1; opts: field 2, 11 bytes: 1 = 300, 13 = "/r", 52 = 1
    assert encode("criu_req", message) == (b"\x08\x01\x12\x0a\x08\xac\x02\x6a\x02/r\xa0\x03\x01")


def test_a_list_is_a_field_that_comes_again() -> None:
    assert encode("criu_opts", {"external": ["a", "bc"]}) == b"\xaa\x02\x01a\xaa\x02\x02bc"
    roots = [{"path": "/x"}, {"ctrl": "cpu", "path": "/y"}]
    data = encode("criu_opts", {"cg_root": roots})
    assert data == b"\xca\x01\x04\x12\x02/x\xca\x01\x09\x0a\x03cpu\x12\x02/y"


def test_a_negative_number_has_ten_bytes() -> None:
    data = encode("criu_resp", {"cr_errno": -1})
    assert data == b"\x38" + b"\xff" * 9 + b"\x01"
    assert decode("criu_resp", data) == {"cr_errno": -1}


def test_an_answer() -> None:
    answer = {
        "type": 2,
        "success": 1,
        "restore": {"pid": 4711},
        "notify": {"script": "pre-resume", "pid": 5},
        "cr_errmsg": "no such thing",
    }
    assert decode("criu_resp", encode("criu_resp", answer)) == answer


def test_unknown_fields_are_passed_over() -> None:
    unknown = b"\xf8\x07\x01" + b"\xfd\x07abcd" + b"\xf9\x07abcdefgh" + b"\xfa\x07\x02xy"
    assert decode("criu_resp", b"\x08\x06" + unknown + b"\x10\x01") == {"type": 6, "success": 1}


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x2a\x05ab", b"\x0b", b"\x08" + b"\xff" * 11, b"\x2a\x03\x0a\x09x"]
)
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(CriuError, match="protobuf"):
        decode("criu_resp", data)


def test_no_number_is_used_twice() -> None:
    for fields in SHAPES.values():
        numbers = [number for number, _ in fields.values()]
        assert len(set(numbers)) == len(numbers)
