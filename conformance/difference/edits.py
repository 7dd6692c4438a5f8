"""Edits of the minimal config, which describe a config."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from conformance.bundle import Json


@dataclass(frozen=True)
class Edit:
    """An edit of the config's member at the path ``where``, with the JSON value ``text``.

    ``action``: "set" the member, "append" the value to a list, or "remove" from a list the entries
    that have all members of the value.
    """

    where: tuple[str, ...]
    action: str
    text: str

    @property
    def value(self) -> Any:
        """The value, a new copy each time."""
        return json.loads(self.text)

    def apply(self, config: Json) -> None:
        """Apply the edit to a config."""
        *parents, last = self.where
        parent = config
        for key in parents:
            parent = parent.setdefault(key, {})
        value = self.value
        if self.action == "set":
            parent[last] = value
        elif self.action == "append":
            parent.setdefault(last, []).append(value)
        else:
            parent[last] = [one for one in parent[last] if not value.items() <= one.items()]

    def __str__(self) -> str:
        sign = {"set": "=", "append": "+=", "remove": "-="}[self.action]
        return f"{'.'.join(self.where)} {sign} {self.text}"


def edit(where: str, action: str, value: Any) -> Edit:
    """Return an edit; ``where`` is a path such as ``process.env``."""
    return Edit(tuple(where.split(".")), action, json.dumps(value))


Edits = tuple[Edit, ...]
