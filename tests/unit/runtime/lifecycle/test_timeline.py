"""Timelines from fake times: the output is in order, complete and well-formed."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

from ociruntime.runtime.lifecycle.create_steps import WAITING
from ociruntime.runtime.lifecycle.timeline import (
    EXECUTOR,
    RUNTIME,
    Span,
    duration,
    label,
    spans,
    svg,
    ticks,
    trace_events,
)
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan.operation_table import STAGE_READY
from tests.support import project

OPERATIONS = [
    o.root(source="/a<b>&\"c'", where="root.path"),
    o.hostname(name="x\x1by" * 40, where="hostname"),
    o.sync(stage=STAGE_READY),
    o.exec(args=["sh"], env=[], where="process.args"),
]
PHASES = [("start the interpreter", 1000), (WAITING, 5000)]


def made(times: tuple[int, ...] = (4000, 6000, 7000, 8000, 0), now: int = 9000) -> list[Span]:
    return spans(PHASES, now, OPERATIONS, times)


def test_spans() -> None:
    found = made()
    assert [(each.lane, each.name, each.start, each.end) for each in found] == [
        (RUNTIME, "start the interpreter", 0, 4000),
        (RUNTIME, WAITING, 4000, 8000),
        (EXECUTOR, "start the executor", 3000, 5000),
        (EXECUTOR, "root", 5000, 6000),
        (EXECUTOR, "hostname", 6000, 7000),
        (EXECUTOR, "sync", 7000, 8000),
    ]
    assert [each.number for each in found] == [0, 0, 0, 1, 2, 3]
    assert [each.kind for each in found[2:]] == ["process", "mounts", "namespaces", "wait"]


def test_a_clock_that_was_set_back() -> None:
    found = made((4000, 6000, 2000, 8000, 1), now=500)
    assert all(0 <= each.start <= each.end for each in found)
    for lane in (RUNTIME, EXECUTOR):
        starts = [each.start for each in found if each.lane == lane]
        assert starts == sorted(starts)


def test_nothing_but_phases() -> None:
    """A create that failed before there was an executor."""
    found = made(())
    assert {each.lane for each in found} == {RUNTIME}
    ET.fromstring(svg("x", found))
    assert json.loads(trace_events("x", found))


def test_trace_events() -> None:
    document = json.loads(trace_events("ociruntime create x", made()))
    events = [each for each in document["traceEvents"] if each["ph"] == "X"]
    names = [each for each in document["traceEvents"] if each["ph"] == "M"]
    assert [each["args"]["name"] for each in names] == ["ociruntime create x", RUNTIME, EXECUTOR]
    assert events[0] == {
        "ph": "X", "name": "start the interpreter", "cat": "runtime",
        "pid": 1, "tid": 1, "ts": 0.0, "dur": 4.0, "args": {},
    }  # fmt: skip
    assert events[3]["args"] == {"number": 1, "arguments": "/a<b>&\"c'", "where": "root.path"}
    assert len(events) == len(made())


def test_svg_is_well_formed() -> None:
    """Also with arguments that contain markup or terminal control sequences."""
    text = svg("ociruntime <create>", made())
    root = ET.fromstring(text)
    words = "".join(root.itertext())
    for each in ("ociruntime <create>", "/a<b>&", "hostname", "(root.path)", "8.0 µs in all"):
        assert each in words
    height = float(root.attrib["height"])
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(element.attrib["y"]) <= height


def test_durations() -> None:
    assert duration(640) == "0.6 µs"
    assert duration(12_345) == "12 µs"
    assert duration(3_456_000) == "3.46 ms"
    assert duration(1_250_000_000) == "1.25 s"


def test_ticks_are_few_and_round() -> None:
    assert ticks(8000) == [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000]
    for length in (1, 999, 12_345, 7_000_000, 123_456_789, 10**12):
        found = ticks(length)
        assert 1 <= len(found) <= 11
        assert all(
            str(each).rstrip("0") in {"", "1", "2", "5", *map(str, range(100))} for each in found
        )


def test_label_has_an_end() -> None:
    assert len(label(made()[4])) <= 66


def test_it_loads_quickly() -> None:
    """A module that imports urllib takes longer than all of `create`."""
    heavy = "import sys, ociruntime.runtime.lifecycle.timeline; print('urllib' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-S", "-c", heavy], cwd=project.ROOT, capture_output=True, check=True
    )
    assert result.stdout == b"False\n"
