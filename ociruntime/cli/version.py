"""What ``--version`` prints: the lines that engines look for in runc's answer."""

from __future__ import annotations

from ociruntime import __version__


def version_text() -> str:
    """The versions of the program, the specification and libseccomp, a line each.

    docker wants a line that begins with ``commit:`` as well; releases are named by their
    version alone, so that line repeats it.
    """
    from ociruntime.spec.state import SPEC_VERSION

    lines = [
        f"ociruntime version {__version__}",
        f"commit: v{__version__}",
        f"spec: {SPEC_VERSION}",
        *_libseccomp(),
    ]
    return "\n".join(lines) + "\n"


def _libseccomp() -> list[str]:
    try:
        from ociruntime.host.seccomp import library_version

        return [f"libseccomp: {library_version()}"]
    except ImportError:
        return []
