"""What ``--version`` prints: the lines that engines look for in runc's answer."""

from __future__ import annotations

from ociruntime import __version__


def version_text() -> str:
    """The version of the program, its commit and that of the specification."""
    from ociruntime.spec.state import SPEC_VERSION

    lines = [f"ociruntime version {__version__}", f"commit: {_commit()}", f"spec: {SPEC_VERSION}"]
    return "\n".join(lines) + "\n"


def _commit() -> str:
    return "unknown"
