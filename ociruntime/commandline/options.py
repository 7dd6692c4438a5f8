"""The types Option and Command: data for parser, help, manual pages and shell completions."""

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
        text     any value; ``value`` is its name in the help
        number   a decimal integer
        count    a decimal integer, 0 or more
        choice   ``value`` lists what is accepted, separated by ``|``
        list     any value; each use of the option adds one
        optional any value after ``=``; without one it is ``true``
        joined   as ``optional``; repeated values are joined with commas
        refused  known from another program but not supported; ``value`` is the error's hint

    The default is ``text`` with a ``value`` and ``flag`` without.  An option without ``help`` is
    accepted and not shown.  ``details`` continue the help in the manual page.  Shells do not
    complete a value that is not ``completed``: a new name, or a path inside a container.
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
    """A command: its usage, options, texts, and the function that runs it.

    ``usage`` is the command's name, in lower case, and the synopsis of its arguments, from which
    their number follows; ``fewest`` and ``most`` override it.
    ``run`` gets the program's context and the parsed arguments, and returns the exit status.
    ``options_end``: the number of the argument that ends the options, because the rest belongs to
    another program; 0 if options may stand anywhere.  ``parse`` replaces the parser for commands
    where the position of an option matters.  ``exit_status`` describes a command's own exit status.
    ``option_groups`` are titles and names of options for the help; the others come first.
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
