"""The output of ``--version``: the lines that engines parse in runc's output."""

from __future__ import annotations

from ociruntime import __version__


def version_text() -> str:
    """The versions of the program, the specification and libseccomp, a line each.

    docker wants a line that begins with ``commit:`` as well; releases are named by their
    version alone, so that line repeats it.
    """
    from ociruntime.runtime.lifecycle.features import libseccomp_version
    from ociruntime.runtime.spec.state import SPEC_VERSION

    lines = [
        f"ociruntime version {__version__}",
        f"commit: v{__version__}",
        f"spec: {SPEC_VERSION}",
    ]
    libseccomp = libseccomp_version()
    if libseccomp:
        lines.append(f"libseccomp: {libseccomp}")
    return "\n".join(lines) + "\n"
