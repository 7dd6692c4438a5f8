"""User and group ids: check numeric ones, and choose the host ids for --private-users."""

from __future__ import annotations

import os

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest

LAST_ID = (1 << 32) - 2  # the next one, -1, means "leave unchanged" to chown(2)
ID = checks.number(0, LAST_ID)
PRIVATE_IDS = 65536  # number of ids in the user namespace of a pod with --private-users
_RANGES = 1 << 15  # number of ranges of that size below 2^31


def id_number(where: str, value: str) -> int:
    """Convert ``value``, a numeric user or group id, to a number.

    Raises BadRequest, whose message begins with ``where``, for any other text.
    """
    if not (value.isascii() and value.isdigit()) or int(value[:11]) > LAST_ID:
        raise BadRequest(where, f'invalid user or group id "{value}"', f"must be 0 to {LAST_ID}")
    return int(value)


def choose_private_ids() -> dict[str, int]:
    """Return a random range of host ids for a pod's user namespace.

    The result is ``{"shift": first id, "count": number of ids}``.  The first id is a multiple of
    ``count``, and at least 131072, because the host's users have lower ids.
    """
    number = int.from_bytes(os.urandom(4), "little") % (_RANGES - 2)
    return {"shift": (number + 2) * PRIVATE_IDS, "count": PRIVATE_IDS}
