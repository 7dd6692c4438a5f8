"""The marked blocks of pages, and the reports as a whole."""

from __future__ import annotations

from bench import report
from bench.__main__ import PAGES
from tests.support import project
from tests.unit.bench.examples import OWN, PEER, document

PAGE = """before
<!-- bench: life -->
old
<!-- bench: end -->
between
<!-- bench: unknown -->
kept
<!-- bench: end -->
"""


def test_fill_replaces_blocks_it_knows() -> None:
    found = report.fill(PAGE, {"life": "new\nlines"})
    assert "<!-- bench: life -->\nnew\nlines\n<!-- bench: end -->\nbetween" in found
    assert "kept" in found
    assert "old" not in found


def test_fill_twice_is_once() -> None:
    once = report.fill(PAGE, {"life": "new"})
    assert report.fill(once, {"life": "new"}) == once


def test_blocks_of_v2() -> None:
    both = document()
    both["v2"] = document()
    found = report.blocks(both)
    assert found["v2-life"] == found["life"]
    assert found["v2-conditions"].startswith("Linux 6.18")


def test_each_mark_of_the_pages_is_filled() -> None:
    """A block with a wrong name would never be updated."""
    both = document()
    both["v2"] = document()
    known = set(report.blocks(both))
    for name in PAGES:
        marks = report.marks((project.ROOT / name).read_text(encoding="utf-8"))
        assert marks, name
        assert marks <= known, name


def test_a_note_stands_with_the_conditions() -> None:
    found = document()
    found["note"] = "Other work ran meanwhile."
    assert report.conditions(found).endswith("alternating. Other work ran meanwhile.")


def test_text_and_markdown_name_every_runtime() -> None:
    for text in (report.as_text(document()), report.as_markdown(document())):
        assert OWN in text
        assert PEER in text
        assert text.count("2 rounds, alternating") == 1


def test_what_was_not_measured_has_no_table() -> None:
    part = document()
    del part["pods"], part["life"]
    assert not {"life", "spread", "pods", "idle"} & set(report.sections(part))
