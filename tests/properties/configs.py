"""Unusual configs: valid ones with a few changes, and broken texts.

Each starts from a valid config (those of tests/golden and the default).  Some of its fields are set
to a usual value, to the limits of their type or one beyond, or to another type; others are removed
or duplicated.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from functools import cache

from hypothesis import strategies as st

from ociruntime.runtime.spec.default_config import default_config
from tests.properties.fields import EACH, FIELDS, KEYS, UNITS, VALUES, Field, Json
from tests.support import golden

TEXTS = st.text(max_size=6)
ACTIONS = ("SCMP_ACT_NOTIFY", "SCMP_ACT_NOTIFY", "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO")
FLAGS = (
    *("SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", "SECCOMP_FILTER_FLAG_TSYNC"),
    *("SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW"),
)
JUNK: st.SearchStrategy[Json] = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 1.5, 1e300, -0.0, 1 << 31, 1 << 32, 1 << 63, 1 << 64),
        *(-(1 << 63) - 1, 10**100, "", "x", "0", "\0", "a\0b", "\ud800", "\x1b[31m", "a\nb"),
        *("\u202e", "x" * 5000, "/", "..", [], {}, [None], [[]], {"": ""}, {"a": {"b": []}}),
        [[[[[[[[]]]]]]]],
    ]
)


def good(field: Field) -> st.SearchStrategy[Json]:
    """Return plausible values of such a field."""
    known = VALUES.get(field.path)
    kind, need = field.kind, field.need
    if known:
        return st.sampled_from(known)
    if kind == "enum":
        return st.sampled_from(need) if need else st.just("no word is accepted")
    if kind == "integer":
        return st.integers(*need) | st.integers(max(need[0], 0), min(need[1], 9))
    if kind == "boolean":
        return st.booleans()
    if kind == "absolute":
        return st.sampled_from(["/", "/data", "/nothing"])
    if kind == "object":
        return st.deferred(lambda: _object(field))
    if kind in {"array", "strings"}:
        item = _item(field)
        fewest = need if kind == "strings" else need[0]
        return st.lists(st.deferred(lambda: good(item)), min_size=fewest, max_size=2)
    if kind == "map":
        return st.dictionaries(_keys(field), st.deferred(lambda: good(_item(field))), max_size=2)
    return TEXTS


def _item(field: Field) -> Field:
    kind, need = field.kind, field.need
    inner = ("string", None) if kind == "strings" else (need[1], need[2])
    return Field((*field.steps, EACH), *inner)


def _keys(field: Field) -> st.SearchStrategy[str]:
    names = field.need[0] or KEYS[field.path]
    return st.sampled_from(names)


@st.composite
def _object(draw: st.DrawFn, field: Field) -> dict[str, Json]:
    made = {}
    for name, required, kind, need in field.need:
        if required or draw(st.integers(0, 3)) == 0:
            made[name] = draw(good(Field((*field.steps, name), kind, need)))
    return made


def _limits(field: Field) -> st.SearchStrategy[Json]:
    if field.kind == "integer":
        least, greatest = field.need
        return st.sampled_from([least - 1, least, greatest, greatest + 1])
    if field.kind in {"array", "strings"}:
        return st.just([])
    if field.kind in {"object", "map"}:
        return st.just({})
    return st.just("")


@cache
def _starts() -> tuple[str, ...]:
    made: list[Json] = [default_config()]
    made += [json.loads((case / "config.json").read_text()) for case in golden.CASES]
    for one in made:
        one.get("process", {}).pop("terminal", None)  # a socket would have to be there
    return tuple(json.dumps(one) for one in made)


@st.composite
def configs(draw: st.DrawFn, most: int = 6) -> Json:
    """Generate documents: some of them valid, most of them nearly valid."""
    config = json.loads(draw(st.sampled_from(_starts())))
    _spoil(draw, config, FIELDS, most)
    return config


def _spoil(draw: st.DrawFn, config: Json, fields: Sequence[Field], most: int) -> None:
    """Change up to ``most`` of the fields."""
    for _ in range(draw(st.integers(0, most))):
        field = draw(st.sampled_from(fields))
        how = draw(st.sampled_from(("good", "good", "good", "limit", "junk", "remove")))
        values = JUNK if how == "junk" else _limits(field) if how == "limit" else good(field)
        _change(draw, config, field, how == "remove", values)


@st.composite
def units(draw: st.DrawFn) -> Json:
    """Generate a plain config whose cgroup path and annotations are for systemd."""
    config = default_config()
    words = st.sampled_from(
        (
            *("", "-", "a", "a-b", "a.slice", "a-b.slice", "-.slice", ".slice", "_x", "cpu", "."),
            *("tasks", "a b", "\u00e4", "x" * 130, "..", "a/b", "n.scope", "\\x2d", "@", "\n"),
        )
    )
    path = st.sampled_from(UNITS) | st.lists(words, min_size=3, max_size=3).map(":".join)
    config["linux"]["cgroupsPath"] = draw(path | words if draw(st.integers(0, 9)) else JUNK)
    keys, values = KEYS["annotations"], VALUES["annotations.*"]
    config["annotations"] = draw(
        st.dictionaries(st.sampled_from(keys), st.sampled_from(values), max_size=2)
    )
    return config


@st.composite
def notified(draw: st.DrawFn) -> Json:
    """Generate a plain config in which an agent usually decides about some system calls."""
    config = default_config()
    rule = {"names": ["mkdir"], "action": draw(st.sampled_from(ACTIONS))}
    seccomp: Json = {"defaultAction": draw(st.sampled_from(ACTIONS)), "syscalls": [rule]}
    for name in ("listenerPath", "listenerMetadata"):
        known = st.sampled_from(VALUES[f"linux.seccomp.{name}"])
        if draw(st.integers(0, 3)):
            seccomp[name] = draw(known if draw(st.integers(0, 5)) else JUNK)
    if draw(st.booleans()):
        seccomp["flags"] = draw(st.lists(st.sampled_from(FLAGS), max_size=2))
    config["linux"]["seccomp"] = seccomp
    return config


@st.composite
def processes(draw: st.DrawFn) -> tuple[Json, Json]:
    """Generate a process object, as `exec --process` gets it, and the resulting config."""
    config = json.loads(draw(st.sampled_from(_starts())))
    joining: Json = {"process": copy.deepcopy(draw(st.sampled_from(_processes())))}
    _spoil(draw, joining, [one for one in FIELDS if one.steps[0] == "process"], 6)
    return joining.get("process"), config


@cache
def _processes() -> tuple[Json, ...]:
    made = (json.loads(one).get("process") for one in _starts())
    return tuple(one for one in made if one)


def _change(
    draw: st.DrawFn, config: Json, field: Field, remove: bool, values: st.SearchStrategy[Json]
) -> None:
    """Set or remove the field; create its missing parents."""
    place = config
    for depth, step in enumerate(field.steps):
        last = depth == len(field.steps) - 1
        key: Json = step
        if step == EACH:
            key = _entry(draw, place, field.steps[:depth], new=last and not remove)
        if not isinstance(place, list if isinstance(key, int) else dict):
            return  # something else has been put there
        if last:
            _set(place, key, remove, lambda: copy.deepcopy(draw(values)))
            return
        if isinstance(place, dict) and key not in place:
            if remove:
                return
            # Mostly with what has to be in it.
            owner = _field(field.steps[: depth + 1])
            empty: Json = [] if owner.kind in {"array", "strings"} else {}
            place[key] = draw(good(owner)) if draw(st.integers(0, 3)) else empty
        place = place[key]


def _set(place: Json, key: Json, remove: bool, value: Callable[[], Json]) -> None:
    if remove:
        if isinstance(place, list) or key in place:
            del place[key]
    elif isinstance(place, list) and key == len(place):
        place.append(value())
    else:
        place[key] = value()


def _field(steps: tuple[str, ...]) -> Field:
    return next(one for one in FIELDS if one.steps == steps)


def _entry(draw: st.DrawFn, place: Json, above: tuple[str, ...], new: bool) -> Json:
    """Choose an index or a key; create an entry if there is none."""
    owner = _field(above)
    if isinstance(place, list) != (owner.kind in {"array", "strings"}):
        return None
    if isinstance(place, list):
        if new:
            return draw(st.integers(0, len(place)))
        if not place:
            place.append(draw(good(_item(owner))))
        return draw(st.integers(0, len(place) - 1))
    if not isinstance(place, dict):
        return None
    if new or not place:
        key = draw(_keys(owner))
        if not new:
            place[key] = draw(good(_item(owner)))
        return key
    return draw(st.sampled_from(sorted(place)))


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Generate damaged bytes of a config.json."""
    config = json.dumps(draw(configs(2)), ensure_ascii=draw(st.booleans()))
    data = bytearray(config.encode("utf-8", "surrogatepass"))
    pieces = (
        *(b'{"a":1,"a":2}', b"NaN", b"-Infinity", b"//", b"\xff", b"\xed\xa0\x80", b"\0", b"\x07"),
        *(b"\xef\xbb\xbf", b'"', b"{", b"}", b"[" * 5000, b",", b":", b"1" * 5000, b"1e999", b" "),
        *(b'"root":{},', b"\\u0000", b"\\ud800", b"'", b"\n"),
    )
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        cut = draw(st.sampled_from((0, 0, 1, 20)))
        data[at : at + cut] = draw(st.sampled_from(pieces))
    return bytes(data)
