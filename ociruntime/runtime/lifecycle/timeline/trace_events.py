"""A timeline in the Trace Event Format, for Perfetto and about:tracing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ociruntime.runtime.lifecycle.timeline.trace import EXECUTOR, RUNTIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.lifecycle.timeline.trace import Span

LANES = {RUNTIME: 1, EXECUTOR: 2}


def trace_events(command: str, spans: Sequence[Span]) -> str:
    """One complete event a span, times in microseconds; a thread is a lane."""
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": command}}
    ]
    for lane, number in LANES.items():
        names = {"name": lane}
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": names})
    for span in spans:
        details = {"number": span.number, "arguments": span.arguments, "where": span.where}
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": span.kind,
                "pid": 1,
                "tid": LANES[span.lane],
                "ts": span.start / 1000,
                "dur": (span.end - span.start) / 1000,
                "args": {key: value for key, value in details.items() if value},
            }
        )
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, indent=1) + "\n"
