"""Check that process.terminal agrees with ``--console-socket`` and ``--detach``."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError, UsageError
from ociruntime.runtime.spec.config_types import Process


def check_terminal(process: Process | None, console_socket: str, detach: bool) -> None:
    """Check that process.terminal, --console-socket and --detach agree with each other.

    Raises ConfigError if a detached container needs a terminal and ``console_socket`` is "", or if
    a container in the foreground needs one and this process has none.  Raises UsageError if
    ``console_socket`` is set for a container that is not detached or needs no terminal.
    """
    terminal = bool(process and process.get("terminal"))
    if terminal and detach and not console_socket:
        raise ConfigError(
            "process.terminal",
            "cannot allocate tty if ociruntime will detach without setting console socket",
            "set process.terminal to false or pass --console-socket",
        )
    if terminal and not detach:
        from ociruntime.base.terminal import find_terminal

        find_terminal()  # raises ConfigError without a terminal
    if console_socket and not (terminal and detach):
        raise UsageError(
            "cannot use console socket if ociruntime will not detach or allocate tty",
            "set process.terminal to true and detach, or omit --console-socket",
        )
