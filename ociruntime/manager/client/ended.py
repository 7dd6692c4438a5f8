"""How a container ended, as an exit status."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def exit_status(ref: str, facts: dict[str, Any]) -> int:
    """Of the answer to ``wait``.  Raises RuntimeFailure: its end has not been seen."""
    code = facts["exit_code"]
    if code is None:
        error = facts.get("error") or "its end was not seen"
        raise RuntimeFailure(f'container "{ref}": how it ended is not known: {error}')
    return int(code)
