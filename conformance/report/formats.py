"""The formats of reports by name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from conformance.report import document, html, junit, tap, text
from conformance.report.run import Run

FORMATS: dict[str, Callable[[Run], str]] = {
    "html": html.dump,
    "json": document.dump,
    "junit": junit.dump,
    "tap": tap.dump,
    "text": text.dump,
}


def target(word: str) -> tuple[str, str]:
    """Parse FORMAT=FILE to (format, file); raises ArgumentTypeError."""
    form, _, file = word.partition("=")
    if form not in FORMATS or not file:
        known = ", ".join(sorted(FORMATS))
        raise argparse.ArgumentTypeError(f"{word!r} is not FORMAT=FILE (formats: {known})")
    return form, file


def write(run: Run, form: str, file: str) -> None:
    """Write a report to a file, or to standard output for "-"; raises SystemExit on errors."""
    made = FORMATS[form](run)
    if file == "-":
        sys.stdout.write(made)
        return
    try:
        Path(file).write_text(made, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise SystemExit(f"oci-conformance: write {file}: {error.strerror}") from None
