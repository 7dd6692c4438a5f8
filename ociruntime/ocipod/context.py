"""What the global options say, for every command."""

from __future__ import annotations

from ociruntime.errors import UsageError
from ociruntime.log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments

DIRECTORY = "/var/lib/ociruntime"
SYSTEM_CONFIG = "/usr/lib/ociruntime"
LOCAL_CONFIG = "/etc/ociruntime"

# Word of --insecure-options -> the checks that it turns off.
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
    """Directories as absolute paths; ``insecure`` holds names of checks that are turned off."""

    __slots__ = (
        "arguments",
        "debug",
        "directory",
        "insecure",
        "local_config",
        "log",
        "runtime",
        "system_config",
        "user_config",
    )

    def changed(self, texts: dict[str, str], flags: dict[str, bool]) -> Context:
        """With global options that stand behind the command as well.  Raises UsageError."""
        from ociruntime.cli.args import Arguments as Both

        both = Both()
        both.texts = {**self.arguments.texts, **texts}
        both.flags = {**self.arguments.flags, **flags}
        return Context(both)

    def __init__(self, arguments: Arguments) -> None:
        """Raises UsageError."""
        import os.path

        self.arguments = arguments
        self.debug = arguments.flag("debug")
        self.log = Log(debug=self.debug)
        self.directory = os.path.realpath(arguments.text("dir", DIRECTORY))
        self.system_config = os.path.abspath(arguments.text("system-config", SYSTEM_CONFIG))
        self.local_config = os.path.abspath(arguments.text("local-config", LOCAL_CONFIG))
        user = arguments.text("user-config")
        self.user_config = os.path.abspath(user) if user else ""
        self.runtime = arguments.text("runtime", "ociruntime")
        self.insecure = _insecure(arguments.text("insecure-options", "none"))


def _insecure(text: str) -> frozenset[str]:
    found: set[str] = set()
    for word in text.split(","):
        if word not in INSECURE:
            raise UsageError(f'--insecure-options: unknown word "{word}"', ", ".join(INSECURE))
        found.update(INSECURE[word])
    return frozenset(found)
