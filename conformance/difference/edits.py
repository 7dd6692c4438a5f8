"""A config as a list of edits of the minimal one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from conformance.bundle import Json


@dataclass(frozen=True)
class Edit:
    """``action``: set the member at ``where``, append to the list there, or remove from a list
    the entries that have all members of the value.  ``text``: the value as JSON."""

    where: tuple[str, ...]
    action: str
    text: str

    @property
    def value(self) -> Any:
        """A new copy each time."""
        return json.loads(self.text)

    def apply(self, config: Json) -> None:
        """Change the config."""
        *parents, last = self.where
        place = config
        for key in parents:
            place = place.setdefault(key, {})
        value = self.value
        if self.action == "set":
            place[last] = value
        elif self.action == "append":
            place.setdefault(last, []).append(value)
        else:
            place[last] = [one for one in place[last] if not value.items() <= one.items()]

    def __str__(self) -> str:
        sign = {"set": "=", "append": "+=", "remove": "-="}[self.action]
        return f"{'.'.join(self.where)} {sign} {self.text}"


def edit(where: str, action: str, value: Any) -> Edit:
    """``where``: members with dots between."""
    return Edit(tuple(where.split(".")), action, json.dumps(value))


Edits = tuple[Edit, ...]
