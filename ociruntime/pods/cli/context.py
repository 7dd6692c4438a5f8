"""The values of the global options of ``ocipod``, which every command gets."""

from __future__ import annotations

import os

from ociruntime.base import paths
from ociruntime.base.errors import UsageError
from ociruntime.base.log import Log
from ociruntime.base.process import working_directory
from ociruntime.base.trusted_directories import check_directory, check_entry
from ociruntime.commandline.parser import Arguments

PARTS = ("cas", "locks", "net", "net.d", "pods")  # subdirectories of the data directory

# Word of --insecure-options -> the checks that it disables.
INSECURE = {
    "none": (),
    "image": ("image",),
    "tls": ("tls",),
    "http": ("http",),
    "pubkey": ("pubkey",),
    "ondisk": (),
    "capabilities": ("capabilities",),
    "paths": ("paths",),
    "seccomp": ("seccomp",),
    "all-fetch": ("image", "tls", "http", "pubkey"),
    "all-run": ("capabilities", "paths", "seccomp"),
    "all": ("image", "tls", "http", "pubkey", "capabilities", "paths", "seccomp"),
}


class Context:
    """The values of the global options of ``ocipod``.

    ``insecure`` contains the names of the checks that --insecure-options disables.  Each property
    is the absolute path of a directory, and raises HostError if a user other than root and the
    caller can write to the directory.
    """

    __slots__ = ("arguments", "debug", "insecure", "log", "runtime")

    def __init__(self, arguments: Arguments) -> None:
        """Parse the global options; raise UsageError for an unknown word in --insecure-options."""
        self.arguments = arguments
        self.debug = arguments.flag("debug")
        self.log = Log(debug=self.debug)
        self.runtime = arguments.text("runtime", "ociruntime")
        self.insecure = _insecure(arguments.text("insecure-options", "none"))

    def tie_to_parent(self) -> None:
        """Apply ``--die-with-parent`` and ``--nofile``, which the daemon passes to ``ocipod``.

        ``--die-with-parent=PID`` makes the kernel kill this process when its parent PID exits.  If
        a command survived a killed daemon, it would race with the cleanup of the next daemon.
        ``--nofile=SOFT:HARD`` sets RLIMIT_NOFILE, because the daemon has raised its own limit.
        Raises UsageError if the limits are invalid.
        """
        if parent := self.arguments.number("die-with-parent"):
            from ociruntime.base.process import die_with

            die_with(parent)
        if limits := self.arguments.text("nofile"):
            import resource

            try:
                soft, hard = map(int, limits.split(":"))
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            except (ValueError, OSError) as error:
                raise UsageError(f'--nofile: "{limits}": {error}', "use SOFT:HARD") from None

    @property
    def directory(self) -> str:
        """The data directory (pods and images), without symbolic links."""
        path = _checked(self.arguments.text("dir", paths.DATA), "data directory")
        for part in PARTS:
            check_entry(f"{path}/{part}", "data directory")
        return path

    @property
    def system_config(self) -> str:
        """The directory of the settings that the distribution ships (--system-config)."""
        return _checked(self.arguments.text("system-config", paths.SYSTEM_CONFIG), "settings")

    @property
    def local_config(self) -> str:
        """The directory of the administrator's settings (--local-config)."""
        return _checked(self.arguments.text("local-config", paths.LOCAL_CONFIG), "settings")

    @property
    def user_config(self) -> str:
        """The directory of the user's settings (--user-config), "" if not given."""
        user = self.arguments.text("user-config")
        return _checked(user, "settings") if user else ""


def _checked(path: str, kind: str) -> str:
    if not path.startswith("/"):
        # Not normalised: after a symbolic link, ".." is not the textual parent.
        path = os.path.join(working_directory(), path)
    check_directory(path, kind)
    return os.path.realpath(path)


def _insecure(text: str) -> frozenset[str]:
    checks: set[str] = set()
    for word in text.split(","):
        if word not in INSECURE:
            hint = f"supported: {', '.join(INSECURE)}"
            raise UsageError(f'--insecure-options: unknown check "{word}"', hint)
        checks.update(INSECURE[word])
    return frozenset(checks)
