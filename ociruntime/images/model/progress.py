"""How long work tells how far it has come."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # (what is being done, as a person reads it: "unpacking layer 2 of 3"; units done; units in
    # all, 0 if that is not known).  Called often: it decides itself what is worth showing.
    Progress = Callable[[str, int, int], None]


def silent(kind: str, done: int, total: int) -> None:
    """The Progress that shows nothing."""
    del kind, done, total
