"""Values of ``--filter`` on the command line."""

from __future__ import annotations

from ociruntime.manager.client.filter_option import as_query


def test_filters() -> None:
    assert as_query([], ("id",)) is None
    assert as_query(["ancestor=x", "ancestor=y=1"], ("ancestor",)) == '{"image": ["x", "y=1"]}'
