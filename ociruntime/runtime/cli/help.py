"""The output of ``ociruntime --help`` and ``--version``."""

from __future__ import annotations

from ociruntime import __version__
from ociruntime.commandline import help as screens
from ociruntime.commandline.options import Command
from ociruntime.commandline.program import Program
from ociruntime.runtime.cli.command_table import GROUPS
from ociruntime.runtime.cli.options import GLOBAL_OPTIONS

PROGRAM = Program(
    "ociruntime",
    "ociruntime.runtime.cli",
    "Run containers from OCI bundles: a root filesystem and a config.json.",
    GLOBAL_OPTIONS,
    GROUPS,
)
ID_FORMAT = "ID names the container; it may contain letters, digits and _ + - ."
_EXAMPLE = """\
Run a first container from the root filesystem in ./rootfs:
  ociruntime spec; ociruntime plan; ociruntime run first
"""


def help_of(command: Command | None) -> str:
    """Return the help text of ``command``; for None, return the general help of ``ociruntime``."""
    if command is None:
        return screens.general_help(PROGRAM, _EXAMPLE)
    argument = ID_FORMAT if command.synopsis.startswith("ID") else ""
    return screens.command_help("ociruntime", command, argument)


def version_text() -> str:
    """Return the versions of the program, the specification and libseccomp, one per line.

    Docker parses the line that begins with ``commit:``.  That line contains the version, not a git
    commit: a version identifies a release.
    """
    from ociruntime.runtime.lifecycle.features import libseccomp_version
    from ociruntime.runtime.spec.state_document import SPEC_VERSION

    lines = [
        f"ociruntime version {__version__}",
        f"commit: v{__version__}",
        f"spec: {SPEC_VERSION}",
    ]
    libseccomp = libseccomp_version()
    if libseccomp:
        lines.append(f"libseccomp: {libseccomp}")
    return "\n".join(lines) + "\n"
