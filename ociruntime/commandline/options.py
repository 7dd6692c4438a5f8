"""The types Option and Command, which define a program's command line.

The parser, the help, the manual pages and the shell completions are all derived from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Terms: TypeAlias = tuple[tuple[str, str], ...]
OptionGroups: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

ANY = 1 << 30


class Option:
    """An option of a command.

    Kinds:

        flag     no value, or ``=true`` / ``=false``
        text     any value; ``value`` is its placeholder in the help
        number   a decimal integer
        count    a decimal integer, 0 or more
        choice   one of the words in ``value``, which are separated by ``|``
        list     any value; the option can be repeated, and collects all values
        optional any value after ``=``; without one, the value is ``true``
        joined   like ``optional``; repeated values are joined with commas
        refused  known from another program but not supported; ``value`` is the error's hint

    The default kind is ``text`` if there is a ``value``, else ``flag``.  An option without ``help``
    is accepted but not listed.  The manual page adds ``details`` to the help.  If ``completed`` is
    False, shell completion offers nothing for the value, for example because it is a new name or a
    path inside a container.
    """

    __slots__ = ("completed", "details", "help", "kind", "name", "short", "value")

    def __init__(
        self,
        name: str,
        help: str = "",
        value: str = "",
        *,
        kind: str = "",
        short: str = "",
        details: str = "",
        completed: bool = True,
    ) -> None:
        self.name = name
        self.help = help
        self.value = value
        self.kind = kind or ("text" if value else "flag")
        self.short = short
        self.details = details
        self.completed = completed


class Command:
    """A command: its usage, options and texts, and the function that runs it.

    ``usage`` is the command's name, in lower case, followed by the synopsis of its arguments.
    ``fewest`` and ``most`` are the minimum and maximum number of arguments; without them, the
    synopsis determines both.

    ``run`` is called with the program's context and the parsed arguments, and returns the exit
    status.  Everything after the first ``options_end`` arguments is the command line of another
    program, as in ``exec ID COMMAND --option``; 0 means that options may appear anywhere.
    ``parse`` replaces the parser for commands where the position of an option matters.
    ``exit_status`` describes exit statuses other than the usual ones.  ``option_groups`` lists the
    groups of options in the help, each as (title, names of its options); options without a group
    come first.
    """

    __slots__ = (
        *("details", "examples", "exit_status", "fewest", "most", "name", "options"),
        *("option_groups", "options_end", "parse", "run", "summary", "synopsis"),
    )

    def __init__(
        self,
        usage: str,
        summary: str,
        run: Callable[[Any, Any], int],
        *,
        fewest: int | None = None,
        most: int = 0,
        options: tuple[Option, ...] = (),
        options_end: int = 0,
        option_groups: OptionGroups = (),
        parse: Callable[[list[str], Any], Any] | None = None,
        details: str = "",
        examples: Terms = (),
        exit_status: Terms = (),
    ) -> None:
        words = usage.split()
        names = [word for word in words if word.islower() and word.replace("-", "").isalpha()]
        arguments = words[len(names) :]
        self.name = " ".join(names)
        self.synopsis = " ".join(arguments)
        self.summary = summary
        self.run = run
        if fewest is None:
            fewest = len([argument for argument in arguments if argument[0] != "["])
        self.fewest = fewest
        self.most = most or (ANY if "..." in usage else len(arguments))
        self.options = options
        self.options_end = options_end
        self.option_groups = option_groups
        self.parse = parse
        self.details = details
        self.examples = examples
        self.exit_status = exit_status
