"""A timeline as spans: convert marks and times for drawing (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ociruntime.runtime.plan.explain import arguments
from ociruntime.runtime.plan.plan import operation_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.plan.plan import Operation

T = TypeVar("T")
RUNTIME = "runtime"
EXECUTOR = "executor"
WAITS = ("sync", "wait_start", "wait for the executor")

# Operation -> its subject, which determines the colour; all others concern the process.
KINDS: dict[str, str] = {
    **dict.fromkeys(
        (
            "open_namespace join_namespace unshare become_root clone_init join_process"
            " clone_process id_map hostname domainname loopback keyring"
        ).split(),
        "namespaces",
    ),
    **dict.fromkeys(
        (
            "propagation open_tree root shared_root mount bind set_attributes reconfigure"
            " pivot_root move_root chroot"
        ).split(),
        "mounts",
    ),
    **dict.fromkeys("mkdir device symlink console mask readonly write_proc".split(), "files"),
}


class Span(NamedTuple):
    """``start`` and ``end`` in nanoseconds from the timeline's begin; ``number`` is an
    operation's place in the plan from 1, else 0; ``where`` its JSON path."""

    lane: str
    kind: str
    name: str
    start: int
    end: int
    number: int = 0
    arguments: str = ""
    where: str = ""


def spans(
    phases: Sequence[tuple[str, int]],
    now: int,
    operations: Sequence[Operation],
    times: Sequence[int],
) -> list[Span]:
    """The runtime's phases, then the executor's operations; each ends where the next begins.

    What the executor had not begun by ``now`` is left out.  A clock that was set meanwhile
    must not let anything end before it begins.
    """
    first = phases[0][1]
    found = [
        Span(RUNTIME, "wait" if name in WAITS else "runtime", name, start, end)
        for (name, start), end in _ends(phases, now)
    ]
    noted = [(index, each) for index, each in enumerate(times) if each]
    for (index, start), end in _ends(noted, now):
        if index == 0:
            found.append(Span(EXECUTOR, "process", "start the executor", start, end))
            continue
        operation = operations[index - 1]
        name = operation_name(operation)
        kind = "wait" if name in WAITS else KINDS.get(name, "process")
        words = " ".join(arguments(operation).split())
        found.append(Span(EXECUTOR, kind, name, start, end, index, words, operation.where))
    return [each._replace(start=each.start - first, end=each.end - first) for each in found]


def _ends(begun: Sequence[tuple[T, int]], now: int) -> list[tuple[tuple[T, int], int]]:
    """Add the end of each span; in order, even if the clock was set back."""
    ordered: list[tuple[T, int]] = []
    for name, start in begun:
        ordered.append((name, max(start, ordered[-1][1]) if ordered else start))
    if not ordered:
        return []
    last = max(now, ordered[-1][1])
    return list(zip(ordered, [start for _, start in ordered[1:]] + [last], strict=True))
