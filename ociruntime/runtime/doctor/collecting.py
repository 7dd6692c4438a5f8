"""All refusals of a check that stops at the first one: what is refused is taken out, and asked
again.

The checks stay the only ones that know the rules.  What lies behind a removed item of a list
moves up; paths are told as they were in the file.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.doctor.finding import Fault
from ociruntime.runtime.spec.refusal import join

if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.runtime.doctor.finding import Json

_STEP = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|\.?([^.\[\]]+)')
_MOST = 1000  # refusals of one bundle
_ALL_IDS = [{"containerID": 0, "hostID": 0, "size": 4294967294}]
_USER = {"uid": 0, "gid": 0}

# What is put in the place of something without which no check would go on.  Nothing that is
# then said about it is told.
FILLED: dict[str, Json] = {
    "ociVersion": "1.0.2",
    "root": {"path": "rootfs"},
    "root.path": "rootfs",
    "process": {"user": _USER, "args": ["sh"], "cwd": "/"},
    "process.args": ["sh"],
    "process.args[0]": "sh",
    "process.cwd": "/",
    "process.user": _USER,
    "process.user.uid": 0,
    "process.user.gid": 0,
    "linux.uidMappings": _ALL_IDS,
    "linux.gidMappings": _ALL_IDS,
}
_KEPT = ("", "linux", "process")  # never taken out for something that is missing in them


def steps_of(where: str) -> list[str | int]:
    """``a.b[3]["c.d"]`` as its parts."""
    return [_step(match) for match in _STEP.finditer(where)]


def _step(match: re.Match[str]) -> str | int:
    quoted, index, name = match.groups()
    if quoted:
        return str(json.loads(quoted))
    return int(index) if index else str(name)


def path_of(steps: list[str | int]) -> str:
    """The inverse."""
    path = ""
    for step in steps:
        path = join(path, step)
    return path


class Document:
    """A config that gets smaller; ``original`` gives a path as it was at the beginning."""

    def __init__(self, config: Json) -> None:
        self.config = copy.deepcopy(config)
        self._places: dict[int, list[int]] = {}  # id of a list -> where its items were
        self._touched: list[str] = []  # original paths of what was removed or filled in
        self._held: list[object] = []  # so that no id is used twice

    def __deepcopy__(self, memo: dict[int, Json]) -> Document:
        """Ids of lists change: the copy knows the places under the new ones."""
        made = Document(None)
        made._touched = list(self._touched)
        made.config = self._copied(self.config, made)
        return made

    def original(self, where: str) -> str:
        """The path of the same thing in the file, spelt as it was."""
        value, path = self.config, ""
        for match in _STEP.finditer(where):
            step, text = _step(match), match[0]
            if isinstance(step, int) and isinstance(value, list) and step < len(value):
                text = f"[{self._places_of(value)[step]}]"
            path += text
            value = _child(value, step)
        return path

    def knows(self, where: str) -> bool:
        """Whether this was removed or filled in, or lies in what was; an original path."""
        return any(
            where == each or where.startswith((f"{each}.", f"{each}[")) for each in self._touched
        )

    def emptied(self, where: str) -> bool:
        """Whether nothing is left there because of what was removed from it; a present path."""
        value = self.config
        for step in steps_of(where):
            value = _child(value, step)
        inside = tuple(f"{self.original(where)}{mark}" for mark in ".[")
        return not value and any(each.startswith(inside) for each in self._touched)

    def remove(self, where: str) -> bool:
        """Take out what a refusal names, or what it is missing in; False if that is too much."""
        steps = steps_of(where)
        parents = [self.config]
        for step in steps:
            parents.append(_child(parents[-1], step))
        if not steps or parents[0] is None:
            return False
        if parents[-1] is not None or _has(parents[-2], steps[-1]):
            self._touched.append(self.original(where))
            self._delete(parents[-2], steps[-1])
            return True
        return self._fill(where, steps, parents) or self._remove_around(steps, parents)

    def _fill(self, where: str, steps: list[str | int], parents: list[Json]) -> bool:
        if where not in FILLED or where in self._filled() or not _holds(parents[-2], steps[-1]):
            return False
        self._touched += [where, f"filled {where}"]
        if isinstance(steps[-1], int):
            parents[-2].append(FILLED[where])
        else:
            parents[-2][steps[-1]] = copy.deepcopy(FILLED[where])
        return True

    def _remove_around(self, steps: list[str | int], parents: list[Json]) -> bool:
        depth = next(i for i, each in enumerate(parents) if each is None) - 1
        around = path_of(steps[:depth])
        return around not in _KEPT and self.remove(around)

    def _copied(self, value: Json, made: Document) -> Json:
        if isinstance(value, dict):
            return {key: self._copied(each, made) for key, each in value.items()}
        if not isinstance(value, list):
            return value
        items = [self._copied(each, made) for each in value]
        made._places_of(items)[:] = self._places_of(value)
        return items

    def _filled(self) -> set[str]:
        return {each[7:] for each in self._touched if each.startswith("filled ")}

    def _delete(self, parent: Json, step: str | int) -> None:
        self._held.append(parent[step])
        if isinstance(parent, list):
            del self._places_of(parent)[int(step)]
        del parent[step]

    def _places_of(self, items: list[Json]) -> list[int]:
        self._held.append(items)
        return self._places.setdefault(id(items), list(range(len(items))))


def collect(document: Document, rule: Callable[[Json], object], faults: list[Fault]) -> bool:
    """Have ``rule`` judge the document until it is content; appends what it refuses.

    False if it could not come to its end.
    """
    for _ in range(_MOST):
        try:
            rule(document.config)
        except ConfigError as error:
            where = document.original(error.where)
            if not (document.knows(where) or document.emptied(error.where)):
                message = error.message.removeprefix(f"{error.where}: ")
                faults.append(Fault(where, message, error.hint))
            if not document.remove(error.where):
                return False
        else:
            return True
    return False


def _child(value: Json, step: str | int) -> Json:
    return value[step] if _has(value, step) else None


def _has(value: Json, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(value, list) and step < len(value)
    return isinstance(value, dict) and step in value


def _holds(value: Json, step: str | int) -> bool:
    return isinstance(value, list if isinstance(step, int) else dict)
