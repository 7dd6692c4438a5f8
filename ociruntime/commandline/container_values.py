"""Parse container options in docker's syntax: --ulimit, --tmpfs, --device, NAME=VALUE.

``ocictl`` and ``ocipod`` share these parsers.  They check only the syntax; the values are validated
later, as a part of the whole request.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import UsageError

UNLIMITED = -1
_ULIMIT = "NAME=SOFT[:HARD], where -1 is unlimited"
_DEVICE = "HOST[:PATH[:rwm]]"


def ulimit(text: str, where: str) -> dict[str, Any]:
    """Parse ``nofile=1024:2048`` into ``{"name", "soft", "hard"}``.

    Raises UsageError if the syntax is wrong; the message begins with the option ``where``.
    """
    name, equals, limits = text.partition("=")
    soft, colon, hard = limits.partition(":")
    numbers = [_limit(word) for word in ((soft, hard) if colon else (soft, soft))]
    if not name or not equals or None in numbers:
        raise UsageError(f'{where}: invalid limit "{text}"', f"use {_ULIMIT}")
    return {"name": name.lower(), "soft": numbers[0], "hard": numbers[1]}


def _limit(word: str) -> int | None:
    if word in ("-1", "unlimited"):
        return UNLIMITED
    return int(word) if word.isascii() and word.isdigit() and len(word) < 20 else None


def pair(text: str, where: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``, the value of the option ``where``, into (name, value).

    Raises UsageError if the name or the "=" is missing.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f'{where}: invalid value "{text}"', "use NAME=VALUE")
    return name, value


def tmpfs(text: str, where: str) -> dict[str, Any]:
    """Parse ``/run:size=64m,mode=1777`` into ``{"target", "options"}``.

    Raises UsageError if the syntax is wrong; the message begins with the option ``where``.
    """
    target, _, options = text.partition(":")
    if not target.startswith("/"):
        hint = "use DIR[:OPTION,...] with an absolute path"
        raise UsageError(f'{where}: invalid tmpfs mount "{text}"', hint)
    return {"target": target, "options": [word for word in options.split(",") if word]}


def device(text: str, where: str) -> dict[str, Any]:
    """Parse ``/dev/fuse[:/dev/fuse[:rwm]]`` into ``{"source", "target", "access"}``.

    As in docker, the path in the container may be omitted: ``/dev/fuse:rw``.  Raises UsageError if
    the syntax is wrong; the message begins with the option ``where``.
    """
    source, *rest = text.split(":")
    target = rest.pop(0) if rest and rest[0].startswith("/") else source
    access = rest.pop(0) if rest else "rwm"
    if rest or not source.startswith("/") or not access or set(access) - set("rwm"):
        raise UsageError(f'{where}: invalid device "{text}"', f"use {_DEVICE}")
    return {"source": source, "target": target, "access": access}
