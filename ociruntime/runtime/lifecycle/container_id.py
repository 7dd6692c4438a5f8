"""Check a container's id."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-.")
LONGEST = 240  # a file name has 255 bytes, and ours prefix it


def check_id(container_id: str) -> None:
    """Check a container's id; raises UsageError.

    The grammar is runc's, except that a leading dot (reserved for the state root's own files) and
    a leading dash (an option) are refused.
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
            f"letters, digits and _+-. up to {LONGEST}, not beginning with . or -",
        )
