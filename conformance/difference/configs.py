"""Generate random valid configs as edits of the minimal config, and smaller variants of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from conformance.difference.edits import Edit, Edits
from conformance.difference.makers import MAKERS

# Parts of an edit's value that may be removed when it is minimised.
OPTIONAL = frozenset(
    {
        *("options", "fileMode", "uid", "gid", "additionalGids", "umask", "errnoRet", "args"),
        *("architectures", "flags", "env", "timeout"),
    }
)


def generate(chance: random.Random) -> Edits:
    """Return random edits that give a valid config; none of them sets the same as another."""
    edits: dict[tuple[str, ...], Edit] = {}
    for make in chance.choices(MAKERS, k=chance.randint(2, 8)):
        made = make(chance)
        for one in made if isinstance(made, tuple) else (made,):
            edits[_key(one)] = one
    return tuple(edits.values())


def _key(one: Edit) -> tuple[str, ...]:
    """Return a key of what an edit sets; two edits with the same key conflict."""
    if one.action == "set":
        return one.where
    if one.where[-1] in {"rlimits", "namespaces"}:
        return (*one.where, one.action, one.value["type"])
    if one.where[0] == "mounts" and one.value.get("type") not in {"bind", None}:
        return (*one.where, one.value["destination"], one.value["type"])
    return (*one.where, one.text)


def smaller(edits: Edits) -> Iterator[Edits]:
    """Yield every variant with one edit less, or with one edit's value reduced."""
    for index, one in enumerate(edits):
        before, behind = edits[:index], edits[index + 1 :]
        yield before + behind
        for value in _smaller_values(one.value):
            yield (*before, replace(one, text=json.dumps(value)), *behind)


def _smaller_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key in OPTIONAL:
                yield {name: one for name, one in value.items() if name != key}
            for less in _smaller_values(member):
                yield value | {key: less}
    elif isinstance(value, list):
        for index, member in enumerate(value):
            if len(value) > 1 or isinstance(member, str):
                yield value[:index] + value[index + 1 :]
            for less in _smaller_values(member):
                yield [*value[:index], less, *value[index + 1 :]]
