"""Names of the columns."""

from __future__ import annotations

from pathlib import Path

from bench.runtimes import column_names, distinction


def test_versions_are_names() -> None:
    paths = [Path("/a/ociruntime"), Path("/b/runc")]
    assert column_names(["ociruntime 1", "runc 2"], paths) == ["ociruntime 1", "runc 2"]


def test_two_checkouts_are_told_apart_by_what_differs() -> None:
    paths = [Path("/src/new/.venv/bin/ociruntime"), Path("/src/old/.venv/bin/ociruntime")]
    versions = ["ociruntime 1", "ociruntime 1"]
    assert column_names(versions, paths) == ["ociruntime 1 (new)", "ociruntime 1 (old)"]


def test_paths_within_one_another() -> None:
    paths = [Path("/src/bin/x"), Path("/src/before/bin/x")]
    assert distinction(paths[1], paths) == "before"
    assert distinction(paths[0], paths) == "/src/bin/x"
