"""The chart is well-formed SVG with a bar for each value."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from bench import chart
from bench.document import COMMANDS, WHOLE
from bench.report import picture
from tests.unit.bench.examples import document

NAMESPACE = "{http://www.w3.org/2000/svg}"
VALUES = {"ours": {"create": 10.0, "start": 1.0}, "theirs <1>": {"create": 20.0}}


def drawn(text: str) -> list[tuple[float, str]]:
    """Width and colour of each bar, without the legend's squares."""
    found = [
        (float(one.get("width", "")), one.get("fill", ""))
        for one in ET.fromstring(text).iter(f"{NAMESPACE}rect")
        if one.get("x") == str(chart.LABEL)
    ]
    assert found
    return found


def test_lengths_are_in_proportion() -> None:
    first, second, third = drawn(chart.bars("title", VALUES, ["create", "start"]))
    assert second[0] == 2 * first[0]
    assert abs(third[0] - first[0] / 10) < 0.1
    assert first[1] == third[1] != second[1]


def test_texts() -> None:
    text = chart.bars("a & b", VALUES, ["create", "start"])
    words = [one.text for one in ET.fromstring(text).iter(f"{NAMESPACE}text")]
    assert words[0] == "a & b"
    assert {"ours", "theirs <1>", "create", "start", "10.0 ms", "20.0 ms", "1.0 ms"} <= set(words)


def test_readable_in_dark() -> None:
    assert "prefers-color-scheme: dark" in chart.bars("title", VALUES, ["create"])


def test_everything_is_within_the_picture() -> None:
    root = ET.fromstring(chart.bars("title", VALUES, ["create", "start"]))
    height = int(root.get("height", ""))
    for one in root.iter(f"{NAMESPACE}rect"):
        assert float(one.get("y", "")) + float(one.get("height", "")) <= height
        assert float(one.get("x", "")) + float(one.get("width", "")) <= chart.WIDTH


def test_nothing_to_draw() -> None:
    ET.fromstring(chart.bars("title", {}, []))
    ET.fromstring(chart.bars("title", {"ours": {"create": 0.0}}, ["create"]))


def test_picture_of_a_document() -> None:
    runtimes = 2
    assert len(drawn(picture(document()))) == runtimes * len([*COMMANDS, WHOLE])
