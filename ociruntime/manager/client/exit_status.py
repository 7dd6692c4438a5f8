"""The exit status of a container as that of ``ocictl``."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def exit_status(ref: str, facts: dict[str, Any]) -> int:
    """Return the exit code in an answer to ``wait``.  Raises RuntimeFailure if it is unknown."""
    code = facts["exit_code"]
    if code is None:
        error = facts.get("error") or "its monitor was killed"
        raise RuntimeFailure(f'wait for container "{ref}": its exit code is unknown: {error}')
    return int(code)
