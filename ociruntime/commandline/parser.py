"""Parse command lines in the syntax of both runc and crun.

runc accepts one or two dashes before a long option, and a value for a flag (``--debug=false``).
crun accepts bundled short options (``-it``), a value attached to a short option (``-b/dir``) and
unique abbreviations.  Callers mix these forms (go-runc sends ``-no-subreaper``), so all of them are
accepted.  Options may come before or after the arguments; ``--`` ends them.  If an option is
repeated, the last value wins, except for lists.

Only ``ociruntime`` accepts abbreviated options: docker, podman and rkt do not, and docker's
``--pid`` must not be mistaken for ``--pids-limit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Command, Option

Scope: TypeAlias = tuple[Sequence[Option], "Arguments"]

_WITHOUT_VALUE = ("flag", "optional", "joined")
_TRUE = ("1", "t", "T", "true", "True", "TRUE")
_FALSE = ("0", "f", "F", "false", "False", "FALSE")


class Arguments:
    """A parsed command line: options by the type of their value, and positional arguments.

    With ``as_runc``, errors have runc's wording, because engines parse them, and option names may
    be abbreviated.  Otherwise errors are written for people, and abbreviations are refused.
    """

    __slots__ = ("as_runc", "flags", "lists", "numbers", "positional", "texts")

    def __init__(self, *, as_runc: bool = True) -> None:
        self.as_runc = as_runc
        self.flags: dict[str, bool] = {}
        self.numbers: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.positional: list[str] = []

    def flag(self, name: str) -> bool:
        return self.flags.get(name, False)

    def number(self, name: str, default: int = 0) -> int:
        return self.numbers.get(name, default)

    def text(self, name: str, default: str = "") -> str:
        return self.texts.get(name, default)

    def list(self, name: str) -> list[str]:
        return self.lists.get(name, [])

    def has(self, name: str) -> bool:
        return self.value(name) is not None

    def value(self, name: str) -> object:
        """Return the value of an option of any kind; None if the option was not given."""
        tables: tuple[dict[str, Any], ...] = (self.texts, self.lists, self.flags, self.numbers)
        return next((table[name] for table in tables if name in table), None)

    def names(self) -> tuple[str, ...]:
        """Return the names of the options that were given."""
        return (*self.texts, *self.lists, *self.flags, *self.numbers)

    def first_name(self) -> str:
        """Return the name of one of the options that were given; "" if there are none."""
        return next(iter(self.names()), "")


def parse(
    argv: list[str],
    tables: tuple[tuple[Option, ...], ...],
    arguments: Arguments,
    *,
    mixed: bool = True,
) -> int:
    """Parse ``argv`` into ``arguments``; return the index in ``argv`` at which parsing ended.

    Searches the ``tables`` in order for each option.  With ``mixed``, parses all of ``argv``;
    otherwise stops at the first argument that is not an option.  Raises UsageError; ``arguments``
    then contains the options before the error, so that the caller can log the error to ``--log``.
    """
    scopes = [(table, arguments) for table in tables]
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == "--":
            if not mixed:
                return at
            arguments.positional += argv[at:]
            break
        if not is_option(word):
            if not mixed:
                return at - 1
            arguments.positional.append(word)
            continue
        at += parse_option(word, argv[at:], scopes)
    return len(argv)


def parse_command(
    argv: list[str], command: Command, options: tuple[Option, ...], arguments: Arguments
) -> None:
    """Parse the options and arguments of ``command`` into ``arguments``.

    ``argv`` contains the words after the command's name; ``options`` are the global options.  If
    ``command.options_end`` is not 0, everything after that many arguments is the command line of
    another program and is not parsed.  Raises UsageError.
    """
    tables = (command.options, options)
    for _ in range(command.options_end - 1):
        end = parse(argv, tables, arguments, mixed=False)
        arguments.positional += argv[end : end + 1]
        argv = argv[end + 1 :]
    end = parse(argv, tables, arguments, mixed=not command.options_end)
    arguments.positional += argv[end:]


def is_option(word: str) -> bool:
    """Return whether an item of argv is an option; "-" (standard input) and "-1" are not."""
    return len(word) > 1 and word[0] == "-" and not (word[1:].isascii() and word[1:].isdigit())


def parse_option(word: str, following: list[str], scopes: Sequence[Scope]) -> int:
    """Parse the option ``word``; return how many items of ``following`` are its value (0 or 1).

    A scope is a table of options, paired with the Arguments object that stores their values.  The
    first scope that contains an option of this name is used.  Raises UsageError.
    """
    dashes = 2 if word.startswith("--") else 1
    name, equals, value = word[dashes:].partition("=")
    option, arguments = _find(name, dashes, scopes)
    if option is None and dashes == 1:
        return _parse_shorts(word, following, scopes)
    if option is None:
        raise _unknown(name, dashes, scopes)
    if equals:
        _store(option, value, arguments)
        return 0
    if option.kind in (*_WITHOUT_VALUE, "refused"):
        _store(option, _TRUE[3], arguments)
        return 0
    if not following:
        raise _needs_value(name, option, arguments)
    _store(option, following[0], arguments)
    return 1


def _parse_shorts(word: str, following: list[str], scopes: Sequence[Scope]) -> int:
    """Parse bundled short options (``-it``, ``-itb DIR``, ``-itbDIR``); see ``parse_option``."""
    for index in range(1, len(word)):
        option, arguments = _find_short(word[index], scopes)
        if option is None:
            raise _unknown_short(word, index, scopes)
        if option.kind == "flag":
            arguments.flags[option.name] = True
            continue
        glued = word[index + 1 :]
        if glued:
            # An attached value ("-b/dir", "-itb=dir") must not look like a misspelled long option.
            if glued[0] not in "=/." and arguments.as_runc:
                raise _unknown(word[1:].partition("=")[0], 1, scopes)
            _store(option, glued.removeprefix("="), arguments)
            return 0
        if not following:
            raise _needs_value(word[index], option, arguments)
        _store(option, following[0], arguments)
        return 1
    return 0


def _find(name: str, dashes: int, scopes: Sequence[Scope]) -> tuple[Option | None, Arguments]:
    as_runc = scopes[0][1].as_runc
    for options, arguments in scopes:
        for option in options:
            if not name:
                continue
            if name == option.name or (name == option.short and (dashes == 1 or as_runc)):
                return option, arguments
    if as_runc and dashes == 2 and name:
        for options, arguments in scopes:
            matches = [option for option in options if option.name.startswith(name)]
            if matches:
                return matches[0] if len(matches) == 1 else None, arguments
    return None, scopes[0][1]


def _find_short(letter: str, scopes: Sequence[Scope]) -> tuple[Option | None, Arguments]:
    for options, arguments in scopes:
        for option in options:
            if option.short == letter:
                return option, arguments
    return None, scopes[0][1]


def _store(option: Option, value: str, arguments: Arguments) -> None:
    name, kind = option.name, option.kind
    if kind == "refused":
        raise UsageError(f"--{name} is not supported", option.value)
    if kind == "flag":
        if value not in _TRUE and value not in _FALSE:
            message = f'invalid boolean value "{value}" for -{name}'
            raise _invalid(message, name, value, "use true or false", arguments)
        arguments.flags[name] = value in _TRUE
    elif kind in ("number", "count"):
        digits = value[1:] if value[:1] in ("-", "+") else value
        # The limit of 18 digits keeps int() fast and suffices for every value in the kernel.
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            message = f'invalid value "{value}" for flag -{name}'
            raise _invalid(message, name, value, "use a decimal number", arguments)
        if kind == "count" and int(value) < 0:
            raise UsageError(f"--{name}: must be 0 or more, not {value}")
        arguments.numbers[name] = int(value)
    elif kind == "choice" and value not in option.value.split("|"):
        message = f'invalid {name}: "{value}"'
        hint = f"use {option.value.replace('|', ' or ')}"
        raise _invalid(message, name, value, hint, arguments)
    elif kind == "list":
        arguments.lists.setdefault(name, []).append(value)
    elif kind == "joined" and arguments.text(name):
        arguments.texts[name] += f",{value}"
    else:
        arguments.texts[name] = value


def _invalid(message: str, name: str, value: str, hint: str, arguments: Arguments) -> UsageError:
    """Return the UsageError for an invalid ``value`` of the option ``name``.

    ``message`` has runc's wording; it is used only if engines parse the errors.
    """
    return UsageError(message if arguments.as_runc else f'--{name}: invalid value "{value}"', hint)


def _needs_value(name: str, option: Option, arguments: Arguments) -> UsageError:
    if not arguments.as_runc:
        shown = f"-{name} (--{option.name})" if name == option.short else f"--{option.name}"
        return UsageError(f"{shown} requires a value", f"--{option.name} {option.value}")
    # podman searches for this text to detect whether an option exists.
    return UsageError(f"flag needs an argument: -{name}")


def _unknown_short(word: str, index: int, scopes: Sequence[Scope]) -> UsageError:
    """Return the UsageError for the unknown short option ``word[index]``."""
    if index == 1 or scopes[0][1].as_runc:  # it may be a long name with one dash
        return _unknown(word[1:].partition("=")[0], 1, scopes)
    return UsageError(f"unknown option -{word[index]} in {word}", "--help lists the options")


def _unknown(name: str, dashes: int, scopes: Sequence[Scope]) -> UsageError:
    from ociruntime.base.similar_names import closest

    close = closest(
        name, [option.name for options, _ in scopes for option in options if option.help]
    )
    hint = f"did you mean --{close}?" if close else ""
    if not scopes[0][1].as_runc:
        shown = "-" * dashes + name
        return UsageError(f"unknown option {shown}", hint or "--help lists the options")
    return UsageError(f"flag provided but not defined: -{name}", hint)
