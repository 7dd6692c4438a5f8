"""The user name and password of ``ocipod login`` and ``ocictl login``: options and prompts."""

from __future__ import annotations

import getpass
import sys

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments

LOGIN_OPTIONS = (
    Option("username", "user name (default: ask)", "USER", short="u"),
    Option("password", "password; visible to other users", "PASSWORD", short="p"),
    Option("password-stdin", "read the password from standard input"),
)
_LONGEST = 1 << 16  # bytes of a password


def credentials(arguments: Arguments) -> tuple[str, str]:
    """Return (user name, password) from a login's options; prompt for missing values.

    Raises UsageError if the options are invalid, or if a value is missing and standard input is not
    a terminal.
    """
    user, password = arguments.text("username"), arguments.text("password")
    if arguments.flag("password-stdin"):
        if password:
            raise UsageError("--password-stdin cannot be combined with --password")
        if not user:
            raise UsageError("--password-stdin requires --username")
        data = sys.stdin.buffer.read(_LONGEST + 1)
        if len(data) > _LONGEST:
            raise UsageError(f"--password-stdin: the password is longer than {_LONGEST} bytes")
        try:
            password = data.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise UsageError("--password-stdin: the password is not valid UTF-8") from None
    elif not (user and password) and not sys.stdin.isatty():
        hint = "use --username and --password-stdin"
        raise UsageError("login: cannot prompt: standard input is not a terminal", hint)
    try:
        user = user or input("Username: ")
        password = password or getpass.getpass("Password: ")
    except EOFError:
        raise UsageError("login: unexpected end of standard input at the prompt") from None
    if not user or ":" in user or not password:
        raise UsageError(
            "login: user name and password must not be empty, and the name must not contain a colon"
        )
    return user, password
