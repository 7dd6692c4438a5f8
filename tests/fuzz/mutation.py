"""Changes of an input in terms of its format: JSON, lines, tar archives."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

_NUMBERS = (
    -1,
    0,
    1,
    2,
    1 << 15,
    1 << 16,
    1 << 31,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    1 << 64,
    0.5,
    1e300,
)
_TEXTS = ("", "a", "/", "/a", "..", "../..", "a/b", "\0", "\n", "\ud800", "²", "٣", "é", "-1", "0",
          "18446744073709551616", "a=b", "=", ":", ",", " ", "\u2028", "x" * 300, "%s",
          "null")  # fmt: skip
_VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, *_NUMBERS, *_TEXTS)
BLOCK = 512

Place = tuple[Any, Any]  # a container, and a key or an index in it


def _places(document: Any) -> list[Place]:  # noqa: ANN401 - JSON
    """Return the place of every value below the top of a document."""
    found: list[Place] = []
    waiting = [document]
    while waiting:
        value = waiting.pop()
        keys = (
            value
            if isinstance(value, dict)
            else range(len(value))
            if isinstance(value, list)
            else ()
        )
        for key in keys:
            found.append((value, key))
            waiting.append(value[key])
    return found


def _any(rng: random.Random) -> Any:  # noqa: ANN401
    """Return one of the values; lists and objects are copied, because they will be changed."""
    return copy.deepcopy(rng.choice(_VALUES))


def _text(text: str, rng: random.Random) -> str:
    """Return a text with a part of it replaced."""
    at = rng.randrange(len(text) + 1)
    to = min(len(text), at + rng.choice((0, 0, 1, 1, 2, 8)))
    return text[:at] + rng.choice(_TEXTS) + text[to:]


def _value(value: Any, places: list[Place], rng: random.Random) -> Any:  # noqa: ANN401
    kind = rng.randrange(6)
    if kind == 0 and isinstance(value, str):
        return _text(value, rng)
    if kind == 1 and isinstance(value, int | float) and not isinstance(value, bool):
        return rng.choice((value + 1, value - 1, -value, value * 2, rng.choice(_NUMBERS)))
    if kind == 2:
        container, key = rng.choice(places)
        return copy.deepcopy(container[key])
    return _any(rng)


def change_json(document: Any, rng: random.Random, names: tuple[str, ...] = ()) -> Any:  # noqa: ANN401
    """Change one to four places of a document and return it; ``names`` are likely members."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = _places(document)
        if not places or rng.random() < 0.02:
            return _any(rng)
        container, key = rng.choice(places)
        action = rng.randrange(8)
        if action == 0:
            del container[key]
        elif action == 1 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        elif action in (1, 2) and isinstance(container, dict) and names:
            container[rng.choice(names)] = _value(container[key], places, rng)
        elif action == 3 and isinstance(container, dict):
            container[_text(str(key), rng)] = container.pop(key)
        else:
            container[key] = _value(container[key], places, rng)
    return document


def json_mutator(names: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - Mutate
    """Return a function that changes JSON; input that is not JSON is replaced by an object."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = {}
        if document == {} and names:
            document = {rng.choice(names): _any(rng)}
        return json.dumps(change_json(document, rng, names)).encode()

    return mutate


def change_lines(data: bytes, rng: random.Random, separator: bytes = b"\n") -> bytes:
    """Drop, repeat, swap or change a part of an input whose parts ``separator`` divides."""
    parts = data.split(separator)
    at = rng.randrange(len(parts))
    action = rng.randrange(4)
    if action == 0:
        del parts[at]
    elif action == 1:
        parts.insert(rng.randrange(len(parts) + 1), parts[at])
    elif action == 2:
        other = rng.randrange(len(parts))
        parts[at], parts[other] = parts[other], parts[at]
    else:
        text = parts[at].decode("utf-8", "surrogateescape")
        parts[at] = _text(text, rng).encode(
            "utf-8", "surrogatepass" if "\ud800" in text else "replace"
        )
    return separator.join(parts)


def repaired(data: bytes) -> bytes:
    """Return a tar archive with the right checksum in each block that may be a header."""
    fixed = bytearray(data)
    for at in range(0, len(fixed) - BLOCK + 1, BLOCK):
        if fixed[at + 257 : at + 262] == b"ustar":
            fixed[at + 148 : at + 156] = b" " * 8
            fixed[at + 148 : at + 156] = b"%06o\0 " % sum(fixed[at : at + BLOCK])
    return bytes(fixed)


# Fields of a header: offset, length.
_FIELDS = ((0, 100), (100, 8), (108, 8), (116, 8), (124, 12), (136, 12), (156, 1), (157, 100),
           (257, 8), (265, 32), (297, 32), (329, 8), (337, 8), (345, 155), (386, 24), (482, 1),
           (483, 12))  # fmt: skip
_NAMES = (b"a", b"b", b"a/b", b"..", b"../x", b"/", b".", b"", b"a/../../out", b".wh.a",
          b".wh..wh..opq", b"a/.wh.b", b"out", b"./a/b/c", b"\xff", b"/tmp",
          b"c/" * 40)  # fmt: skip
_TYPES = b"01234567gxLKSVDM\0"
_RECORDS = (b"path=../x", b"size=3", b"size=-1", b"mtime=1.5", b"linkpath=/out/a",
            b"uid=99999999999", b"SCHILY.xattr.user.a=b", b"SCHILY.xattr.trusted.overlay.opaque=y",
            b"GNU.sparse.major=1", b"GNU.sparse.minor=0", b"GNU.sparse.realsize=9",
            b"GNU.sparse.size=600", b"GNU.sparse.numblocks=1", b"GNU.sparse.map=0,1",
            b"GNU.sparse.offset=1", b"GNU.sparse.numbytes=2", b"GNU.sparse.name=b", b"path=",
            b"hdrcharset=BINARY")  # fmt: skip


def _field(data: bytearray, at: int, rng: random.Random) -> None:
    offset, length = rng.choice(_FIELDS)
    if offset in (0, 157, 345):
        value = rng.choice(_NAMES)
    elif offset == 156:
        value = bytes([rng.choice(_TYPES)])
    else:
        value = rng.choice((b"", b"%o" % rng.choice((0, 1, 7, 512, 8**7 - 1)), b"-1",
                            b"\x80" + bytes(11), b"\xff" * 12, b"9" * 12, b" 7 ",
                            b"\x80\x7f" + b"\xff" * 10))  # fmt: skip
    data[at + offset : at + offset + length] = value[:length].ljust(length, b"\0")


def change_tar(data: bytes, rng: random.Random) -> bytes:
    """Change fields of headers, drop, repeat or swap blocks, insert pax records."""
    changed = bytearray(data)
    blocks = max(len(changed) // BLOCK, 1)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(blocks) * BLOCK
        action = rng.randrange(6)
        if action == 0:
            del changed[at : at + BLOCK]
        elif action == 1:
            end = at + BLOCK * rng.choice((1, 2, 3))
            changed[at:at] = changed[at:end]
        elif action == 2:
            changed[at:at] = _pax(rng)
        elif len(changed) >= at + BLOCK:
            _field(changed, at, rng)
    return bytes(changed)


def _pax(rng: random.Random) -> bytes:
    """Return a pax header with some records."""
    body = b""
    for record in rng.choices(_RECORDS, k=rng.choice((1, 1, 2, 4))):
        length = len(record) + 3
        length += len(str(length + 2)) - 1
        body += b"%d %s\n" % (length, record)
    head = bytearray(BLOCK)
    head[0:1], head[156:157] = b"p", rng.choice((b"x", b"x", b"x", b"g"))
    head[124:136] = b"%011o\0" % len(body)
    head[257:265] = b"ustar\x0000"
    return bytes(head) + body + bytes(-len(body) % BLOCK)
