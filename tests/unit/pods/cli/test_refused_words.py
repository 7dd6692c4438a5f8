"""Words of single commands that are refused before anything is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.pods.cli.main import main


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("image list --fields=id,colour", 'unknown field "colour"'),
        ("image list --sort=colour", 'unknown field "colour"'),
        ("image cat-manifest --config --index box", "--config cannot be combined with --index"),
        ("trust key.asc", "either --prefix or --root is required"),
    ],
)
def test_refused(words: str, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([f"--dir={tmp_path / 'data'}", *words.split()]) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert text in err
    assert err.count("\n") == 1
    assert not (tmp_path / "data" / "pods").exists()
