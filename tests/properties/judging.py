"""Requirements on every result for a config: a plan, or an error that names an existing path."""

from __future__ import annotations

import re
import struct

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan.operation_table import OPERATIONS, WIRE_MAGIC
from ociruntime.runtime.plan.plan import Plan
from ociruntime.runtime.spec.config_errors import shown as escaped
from tests.properties.fields import EACH, FIELDS, Json

_STEP = re.compile(r'\.?([A-Za-z_]\w*)|\[(\d+)\]|\["(.*?)"\](?=[.\[]|$)', re.DOTALL)


def check_refusal(error: ConfigError, config: Json) -> None:
    """Check that ``error.where`` exists in the document, or is where a field is missing."""
    text = str(error)
    assert text.isprintable(), f"more than a line: {text!r}"
    assert len(text) < 5000, f"{len(text)} characters"
    if not error.where or error.where == "config.json":
        return
    steps = _steps(error.where)
    place = config
    for step in steps:
        if isinstance(place, dict) and isinstance(step, str):
            keys = [key for key in place if _same(key, step)]
            if keys:
                place = place[keys[0]]
                continue
        elif isinstance(place, list) and isinstance(step, int) and step < len(place):
            place = place[step]
            continue
        assert not isinstance(step, int), f"{error.where} leads nowhere: {text}"
        known = [EACH if isinstance(one, int) else one for one in steps]
        assert any(_matches(one.steps, known) for one in FIELDS), f"no field {error.where}"
        return


def plain(key: str) -> str:
    """Return the text as ConfigError shows it."""
    return str(ConfigError("", key))


def _steps(where: str) -> list[str | int]:
    steps: list[str | int] = []
    end = 0
    for found in _STEP.finditer(where):
        assert found.start() == end, f"not a path: {where!r}"
        end = found.end()
        name, index, key = found.groups()
        steps.append(int(index) if index else key if key is not None else name)
    assert end == len(where), f"not a path: {where!r}"
    return steps


def _same(key: str, shown: str) -> bool:
    """Compare keys as they are shown: escaped, and truncated if long."""
    return shown in (key, plain(key), escaped(key)[1:-1], escaped(key)[1:])


def _matches(field: tuple[str, ...], steps: list[str]) -> bool:
    return len(field) == len(steps) and all(
        one in (EACH, other) for one, other in zip(field, steps, strict=True)
    )


def decoded(data: bytes) -> tuple[list[tuple[int, tuple[Json, ...]]], int]:
    """Return the operations (code, values) and the number of kept descriptors of a plan."""
    magic, size, count, preserved = struct.unpack_from("=IIII", data)
    assert (magic, size) == (WIRE_MAGIC, len(data))
    at = 16
    operations = []
    for _ in range(count):
        code, length = struct.unpack_from("=II", data, at)
        reader = _Fields(data[at + 8 : at + 8 + length])
        operations.append(
            (code, tuple(reader.read(kind) for _, kind, _ in OPERATIONS[code - 1][2]))
        )
        assert reader.at == length
        at += 8 + length
    assert at == len(data)
    return operations, preserved


class _Fields:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def _number(self, form: str, size: int) -> int:
        (number,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return int(number)

    def _piece(self, length: int, stored: int) -> bytes:
        piece = self.data[self.at : self.at + length]
        assert len(piece) == length
        self.at += stored + -stored % 4
        return piece

    def read(self, kind: str) -> Json:
        if kind == "u64":
            return self._number("=Q", 8)
        count = self._number("=I", 4)
        if kind == "u32":
            return count
        if kind == "bytes":
            return self._piece(count, count)
        if kind == "str":
            return self._piece(count, count + 1).decode("utf-8", "surrogateescape")
        return [self.read(kind[:-1]) for _ in range(count)]


def check_plan(plan: Plan, data: bytes) -> None:
    """Check that the encoding for the executor loses nothing."""
    operations, preserved = decoded(data)
    assert preserved == plan.preserve_fds
    assert operations == [(one.code, one.values) for one in plan.operations]
