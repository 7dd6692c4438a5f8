"""Generate, check and look up the names and ids of containers."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Container

from ociruntime.base.errors import BadRequest, Conflict, NotFound

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_LONGEST = 128
_HEX = frozenset("0123456789abcdef")
_ID_LENGTH = 64

_QUALITIES = (
    "brisk bright calm clear cosy crisp eager early fair fine fresh gentle glad golden happy keen "
    "kind late light lively lucky mellow merry mild neat nimble plain proud quick quiet ready "
    "round silent silver sleek small smart snug soft solid spare steady still sunny swift tidy "
    "warm wild wise young"
).split()
_THINGS = (
    "barge basin beacon berth boat bollard bridge brig buoy canal canoe capstan cargo channel cove "
    "crane crate current deck delta dinghy dock ferry fjord gale galley harbour haven hull island "
    "jetty kayak keel lagoon lantern lock mast mole paddle pier pilot plank port quay raft reef "
    "river rope rudder sail schooner sloop stern tide tug vessel wave wharf yacht"
).split()


class Names:
    """The table of container names and ids, including those of containers being created."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def reserve(self, name: str, container_id: str) -> None:
        """Reserve a name for a container.  Raises Conflict if the name is in use."""
        if name in self._ids:
            used_by = self._ids[name][:12]
            raise Conflict(
                f'the container name "{name}" is already in use by container "{used_by}"',
                "choose another name, or remove that container",
            )
        self.add(name, container_id)

    def add(self, name: str, container_id: str) -> None:
        """Add the name of an existing container."""
        self._ids[name] = container_id

    def name_of(self, container_id: str) -> str:
        """Return the name of the container with this id; "" if the id is unknown."""
        return next((name for name, one in self._ids.items() if one == container_id), "")

    def release(self, name: str, container_id: str) -> None:
        if self._ids.get(name) == container_id:
            del self._ids[name]

    def resolve(self, ref: str, ids: Collection[str]) -> str:
        """Return the container id for ``ref``: a name, a full id or an unambiguous id prefix.

        ``ids`` are the ids of all containers.  Raises NotFound if no container matches, or if
        several do.
        """
        if self._ids.get(ref) in ids:
            return self._ids[ref]
        if ref in ids:
            return ref
        matches = (
            [container_id for container_id in ids if container_id.startswith(ref)] if ref else []
        )
        if len(matches) == 1:
            return matches[0]
        if matches:
            number = len(matches)
            message = f'ambiguous container ID "{ref}": {number} containers match'
            raise NotFound(message, "use more digits of the ID")
        raise NotFound(f'no container with name or ID "{ref}" found')


def new_id() -> str:
    """Return a random id of 64 hexadecimal digits."""
    return secrets.token_hex(_ID_LENGTH // 2)


def new_name(taken: Container[str]) -> str:
    """Return a random name that is not among ``taken``."""
    while True:
        name = f"{secrets.choice(_QUALITIES)}-{secrets.choice(_THINGS)}"
        for candidate in (name, f"{name}-{secrets.token_hex(2)}"):
            if candidate not in taken:
                return candidate


def check_name(where: str, name: object) -> str:
    """Return ``name`` if it is a valid container name.

    Otherwise raises BadRequest; its message begins with ``where``, the JSON path of the name.
    """
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= _LONGEST
        or name[0] not in _LETTERS
        or set(name) - _LETTERS - set("_.-")
    ):
        hint = "use at most 128 letters, digits, _ . and -; begin with a letter or digit"
        raise BadRequest(where, f'invalid container name "{name}"', hint)
    if is_id(name):
        raise BadRequest(
            where, "must not consist of 64 hexadecimal digits: it would be mistaken for an ID"
        )
    return name


def is_id(text: str) -> bool:
    """Return whether ``text`` has the form of a full container id: 64 hexadecimal digits."""
    return len(text) == _ID_LENGTH and not set(text) - _HEX
