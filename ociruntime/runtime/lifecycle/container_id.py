"""Check the syntax of container ids, as ``csrc/fast_path/container_id.c`` does."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-.")
LONGEST = 240  # a file name has at most 255 bytes, and state directories prefix the id


def check_id(container_id: str) -> None:
    """Raise UsageError unless ``container_id`` is a valid container id.

    The syntax is runc's, with two exceptions: an id must not begin with a dot, which is reserved
    for the state root's own files, or with a dash, which begins an option.
    """
    if not container_id:
        raise UsageError("container id cannot be empty")
    if (
        not CHARACTERS.issuperset(container_id)
        or container_id[0] in ".-"
        or len(container_id) > LONGEST
    ):
        raise UsageError(
            f'invalid container ID format: "{container_id}"',
            f'use 1 to {LONGEST} letters, digits or "_+-."; the first must not be "." or "-"',
        )
