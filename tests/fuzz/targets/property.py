"""Annotations that set systemd properties, in the text form of GVariant."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

from jeepney import new_method_call

from ociruntime.runtime.cgroups.gvariant import Malformed, parse
from ociruntime.runtime.cgroups.systemd_bus import _MANAGER
from ociruntime.runtime.cgroups.systemd_properties import amount, subgroup, unit_properties
from tests.fuzz.target import Target, refusals

_PIECES = ("[", "]", "(", ")", "{", "}", "<", ">", ",", ":", "'", '"', "b'", "@", "@as ",
           "uint64 ", "byte ", "true", "nan", "inf", "0x", "-", "1e9", "9" * 25, "\\u0041", "\\x",
           "\\0", "\ud800", "²", "{}", "objectpath ", "signature ", "@a{sv} ",
           "9" * 5000)  # fmt: skip


def run(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    with suppress(Malformed):
        _send(*parse(text))
    amount(text)
    with refusals():
        for name in ("TimeoutStopSec", "CPUWeight"):
            key = f"org.systemd.property.{name}"
            ((_, signature, value),) = unit_properties({key: text}).values()
            _send(signature, value)
    with refusals():
        subgroup({"run.oci.systemd.subgroup": text})


def _send(signature: str, value: object) -> None:
    """Check that D-Bus can carry a value: systemd gets it in a message."""
    message = new_method_call(_MANAGER, "SetUnitProperties", f"({signature})", ((value,),))
    assert message.serialise(serial=1)


def seeds() -> Iterator[bytes]:
    for text in (
        *("true", "5", "-5", "1.5", "uint64 5", "byte 0x41", "'text'", '"a\\u00e9\\n"', "b'bytes'"),
        *("['a', 'b']", "@as []", "(1, 'a')", "{'a': <1>}", "<'v'>", "@a{sv} {}", "[(1, true)]"),
        *("objectpath '/a'", "signature 'as'", "int16 -3", "512M", "max", "a.slice"),
    ):
        yield text.encode()


def mutate(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    at = rng.randrange(len(text) + 1)
    changed = text[:at] + rng.choice(_PIECES) + text[at + rng.choice((0, 0, 1, 2)) :]
    return changed.encode("utf-8", "surrogatepass")


TARGET = Target(
    run,
    ("runtime/cgroups/gvariant.py",),
    seeds,
    mutate,
    tuple(piece for piece in _PIECES if piece.isascii() and len(piece) < 20),
)
