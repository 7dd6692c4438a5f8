"""Parse the command line in the syntax of both runc and crun.

runc takes one dash or two for a long name and a value for a boolean; crun takes bundled shorts
(``-it``), a path glued to its short (``-b/dir``) and unique abbreviations. Callers use some of each
(go-runc sends ``-no-subreaper``), so all of it is accepted. Options may come before or after the
arguments; ``--`` ends them. If an option is repeated the last value wins, unless it makes a list.
"""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Option

_TRUE = ("1", "t", "T", "true", "True", "TRUE")
_FALSE = ("0", "f", "F", "false", "False", "FALSE")


class Arguments:
    """The parsed options, one table of name -> value per kind, and the arguments in order.

    Errors for an unknown option are worded like runc's, or, if no caller depends on that (not
    ``as_runc``), for users.
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


def parse(
    argv: list[str],
    tables: tuple[tuple[Option, ...], ...],
    arguments: Arguments,
    *,
    mixed: bool = True,
) -> int:
    """Parse ``argv`` into ``arguments``; the first of ``tables`` that has a name decides.

    With ``mixed`` everything is parsed. Otherwise parsing stops at the first argument that is not
    an option, and its index is returned. Options parsed before an error stay in ``arguments``: the
    error must be written to the requested log. Raises UsageError.
    """
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == "--":
            if not mixed:
                return at
            arguments.positional += argv[at:]
            break
        if not _is_option(word):
            if not mixed:
                return at - 1
            arguments.positional.append(word)
            continue
        at += _read(word, argv[at:], tables, arguments)
    return len(argv)


def _is_option(word: str) -> bool:
    # "-" is standard input; "-1" is a number.
    return len(word) > 1 and word[0] == "-" and not (word[1:].isascii() and word[1:].isdigit())


def _read(
    word: str,
    following: list[str],
    tables: tuple[tuple[Option, ...], ...],
    arguments: Arguments,
) -> int:
    """Parse one option; return the number of items of ``following`` that it has used."""
    dashes = 2 if word.startswith("--") else 1
    name, equals, value = word[dashes:].partition("=")
    option = _find(name, tables, abbreviated=dashes == 2)
    if option is None and dashes == 1:
        return _read_shorts(word, following, tables, arguments)
    if option is None:
        raise _unknown(name, dashes, tables, arguments)
    if equals:
        _store(option, value, arguments)
        return 0
    if option[2] == "flag":
        arguments.flags[option[0]] = True
        return 0
    if option[2] == "optional":
        arguments.texts[option[0]] = _TRUE[3]
        return 0
    if not following:
        raise _needs_value(name)
    _store(option, following[0], arguments)
    return 1


def _read_shorts(
    word: str,
    following: list[str],
    tables: tuple[tuple[Option, ...], ...],
    arguments: Arguments,
) -> int:
    """Parse ``-it``, ``-itb DIR`` or ``-itbDIR``."""
    for index in range(1, len(word)):
        option = _find_short(word[index], tables)
        if option is None:
            raise _unknown(word[1:].partition("=")[0], 1, tables, arguments)
        if option[2] == "flag":
            arguments.flags[option[0]] = True
            continue
        rest = word[index + 1 :]
        if rest:
            # A glued value must not look like a misspelled long name: "-b/dir", "-itb=dir".
            if rest[0] not in "=/.":
                raise _unknown(word[1:].partition("=")[0], 1, tables, arguments)
            _store(option, rest.removeprefix("="), arguments)
            return 0
        if not following:
            raise _needs_value(word[index])
        _store(option, following[0], arguments)
        return 1
    return 0


def _find(name: str, tables: tuple[tuple[Option, ...], ...], *, abbreviated: bool) -> Option | None:
    for table in tables:
        for option in table:
            if name and name in (option[0], option[1]):
                return option
    if abbreviated and name:
        for table in tables:
            matches = [option for option in table if option[0].startswith(name)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                return None
    return None


def _find_short(letter: str, tables: tuple[tuple[Option, ...], ...]) -> Option | None:
    for table in tables:
        for option in table:
            if option[1] == letter:
                return option
    return None


def _store(option: Option, value: str, arguments: Arguments) -> None:
    name, _, kind, accepted, _ = option
    if kind == "flag":
        if value not in _TRUE and value not in _FALSE:
            raise UsageError(f'invalid boolean value "{value}" for -{name}', "true or false")
        arguments.flags[name] = value in _TRUE
    elif kind == "number":
        digits = value[1:] if value[:1] in ("-", "+") else value
        # 18 digits hold every value that the kernel takes, and int() stays quick.
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            raise UsageError(f'invalid value "{value}" for flag -{name}', "a decimal number")
        arguments.numbers[name] = int(value)
    elif kind == "choice" and value not in accepted.split("|"):
        raise UsageError(f'invalid {name}: "{value}"', accepted.replace("|", " or "))
    elif kind == "list":
        arguments.lists.setdefault(name, []).append(value)
    else:
        arguments.texts[name] = value


def _needs_value(name: str) -> UsageError:
    # podman searches for this exact text to find out if an option exists.
    return UsageError(f"flag needs an argument: -{name}")


def _unknown(
    name: str, dashes: int, tables: tuple[tuple[Option, ...], ...], arguments: Arguments
) -> UsageError:
    from ociruntime.commandline.suggestions import closest

    names = [option[0] for table in tables for option in table if option[4]]
    close = closest(name, names)
    hint = f"did you mean --{close}?" if close else ""
    if not arguments.as_runc:
        shown = "-" * dashes + name
        return UsageError(f"unknown option {shown}", hint or "--help lists the options")
    return UsageError(f"flag provided but not defined: -{name}", hint)
