"""Parse and check numeric user and group ids."""

from __future__ import annotations

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest

LAST_ID = (1 << 32) - 2  # the next one, -1, means "leave unchanged" to chown(2)
ID = checks.number(0, LAST_ID)


def id_number(where: str, value: str) -> int:
    """Convert ``value``, a numeric user or group id, to a number.

    Raises BadRequest, whose message begins with ``where``, for any other text.
    """
    if not (value.isascii() and value.isdigit()) or int(value[:11]) > LAST_ID:
        raise BadRequest(where, f'invalid user or group id "{value}"', f"must be 0 to {LAST_ID}")
    return int(value)
