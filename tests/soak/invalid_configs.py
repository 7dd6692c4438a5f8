"""Configurations with a value of a wrong type: each must be refused, by name, without effect."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from tests.soak.subjects import Subject, clear, left, look
from tests.support import golden
from tests.support.runtime import execute

WRONG: tuple[Any, ...] = (True, "wrong", 7, ["wrong"], {"wrong": 1})
Path = tuple[str | int, ...]


def paths(value: Any, at: Path = ()) -> Iterator[Path]:  # noqa: ANN401
    """Yield the path of every value in a document, but for the document itself."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths(each, (*at, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from paths(each, (*at, index))


def kind(value: Any) -> str:  # noqa: ANN401
    """Return the JSON type of a value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    for known, name in ((str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, known):
            return name
    return "null"


def changed(document: Any, path: Path, value: Any) -> Any:  # noqa: ANN401
    """Return a copy with another value at the path."""
    found = copy.deepcopy(document)
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return found


def invalid(document: Any, count: int) -> list[tuple[Path, Any]]:  # noqa: ANN401
    """Return up to ``count`` changes, evenly spread, that make a document invalid."""
    found = []
    for path in paths(document):
        value = document
        for step in path:
            value = value[step]
        found += [(path, wrong) for wrong in WRONG if kind(wrong) != kind(value)]
    stride = max(len(found) / count, 1)
    return [found[int(number * stride)] for number in range(min(count, len(found)))]


def name_of(path: Path) -> str:
    """Return the name of the innermost member on a path, which a message must contain."""
    return next(str(step) for step in reversed(path) if isinstance(step, str))


def try_all(subject: Subject, count: int) -> dict[str, Any]:
    """Try to create a container with each; return how many were refused, and how.

    Deviations are configurations that were accepted, had no clear message, or left something
    behind.
    """
    name = f"{subject.prefix}-invalid"
    config = subject.bundle / "config.json"
    document = json.loads((golden.GOLDEN / "docker" / "config.json").read_text())
    document["root"]["path"] = "rootfs"
    document["mounts"] = [one for one in document["mounts"] if one["type"] != "bind"]
    document.pop("hooks", None)
    kept = config.read_text()
    before = look(subject)
    totals = {"count": 0, "accepted": 0, "unnamed": 0, "left": 0}
    problems = []
    try:
        for path, wrong in invalid(document, count):
            config.write_text(json.dumps(changed(document, path, wrong)))
            done = execute(subject.create_words(name))
            said = [] if done.status else ["accepted"]
            if done.status and name_of(path) not in done.err:
                said.append("unnamed")
            if not done.status:
                subject.spawn.all([subject.words("delete", "--force", name)])
            elif left(subject, before, 0.2):
                said.append("left")
                clear(subject, before)
            totals["count"] += 1
            for word in said:
                totals[word] += 1
            if said:
                where = ".".join(map(str, path))
                problems.append(f"{where} = {json.dumps(wrong)}: {', '.join(said)}: {done.err}")
    finally:
        config.write_text(kept)
    return {**totals, "problems": problems}
