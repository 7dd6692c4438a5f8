"""A program with commands of one or two words: find them, load them, describe them."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.commandline.output import bug_of, report, write
from ociruntime.commandline.parser import Arguments, parse, parse_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ociruntime.commandline.options import Command, Option

# Title -> module -> its commands; those without a title are internal.
Groups = dict[str, dict[str, tuple[str, ...]]]
NO_COMMAND = 2
INTERRUPTED = 130


class Program:
    """A program: its name, package, global options and commands.

    Each module of ``groups`` has a tuple ``COMMANDS``; it is loaded when one of them is needed.
    ``foreign`` are commands of similar programs, which are no abbreviations of ours.
    """

    __slots__ = ("_modules", "description", "foreign", "groups", "name", "options", "package")

    def __init__(
        self,
        name: str,
        package: str,
        description: str,
        options: tuple[Option, ...],
        groups: Groups,
        foreign: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.package = package
        self.description = description
        self.options = options
        self.groups = groups
        self.foreign = foreign
        self._modules = {
            command: module
            for families in groups.values()
            for module, names in families.items()
            for command in names
        }

    @property
    def names(self) -> list[str]:
        """The names of all commands, in the order of the help."""
        return list(self._modules)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Return all commands; loads every module."""
        return tuple(map(self.command, self._modules))

    def shown_groups(self) -> list[tuple[str, list[Command]]]:
        """Return titles and commands, without internal commands."""
        return [
            (title, [self.command(name) for names in families.values() for name in names])
            for title, families in self.groups.items()
            if title
        ]

    def command(self, name: str) -> Command:
        """Load the command with this full name."""
        module = __import__(f"{self.package}.{self._modules[name]}", None, None, ("COMMANDS",))
        commands: tuple[Command, ...] = module.COMMANDS
        return next(command for command in commands if command.name == name)

    def find(self, words: Sequence[str]) -> tuple[Command, int]:
        """Return the command that ``words`` begin with, and its number of words.

        Each word may be abbreviated to a unique prefix.  Raises UsageError.
        """
        groups = self.first_words()
        single = [name for name in self._modules if " " not in name]
        name, used = self._complete(words[0], [*groups, *single]), 1
        if name in groups:
            members = [one.partition(" ")[2] for one in self._modules if one.startswith(f"{name} ")]
            if len(words) < 2:
                raise UsageError(f'"{name}" needs a command', " ".join(sorted(members)))
            name, used = f"{name} {self._complete(words[1], members)}", 2
        return self.command(name), used

    def first_words(self) -> set[str]:
        """Return the first words of command names that have a second word."""
        return {name.partition(" ")[0] for name in self._modules if " " in name}

    def _complete(self, word: str, names: list[str]) -> str:
        if word in names:
            return word
        internal = [name for members in self.groups.get("", {}).values() for name in members]
        shown = [name for name in names if name not in internal]
        matches = [name for name in shown if name.startswith(word)]
        if word in self.foreign:
            matches = []
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(f'"{word}" is ambiguous', " ".join(sorted(matches)))
        from ociruntime.commandline.suggestions import closest

        close = closest(word, shown)
        hint = f"did you mean {close}?" if close else f"{self.name} --help lists the commands"
        raise UsageError(f'unknown command "{word}"', hint)

    def main(
        self,
        argv: list[str],
        run: Callable[[Command, Any, Arguments], int],
        failure_status: Callable[[RuntimeFailure, str], int],
    ) -> int:
        """Run the command line ``argv`` with ``run`` and return the exit status; raise nothing.

        Every error becomes one line on standard error.  ``failure_status`` returns the status for
        an error and the name of the command, "" if none was found.
        """
        arguments = Arguments(as_runc=False)
        found: list[str] = []
        try:
            request = self.read(argv, arguments, found)
            if request is None:
                write(self.help_of([]))
                return NO_COMMAND
            if isinstance(request, str):
                return write(request)
            return run(*request, arguments)
        except RuntimeFailure as failure:
            report(self.name, str(failure), failure, arguments.flag("debug"))
            return failure_status(failure, "".join(found))
        except KeyboardInterrupt as interrupt:
            report(self.name, "interrupted", interrupt, arguments.flag("debug"))
            return INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
            bug = bug_of(error)
            report(self.name, str(bug), error, arguments.flag("debug"))
            return failure_status(bug, "".join(found))

    def read(
        self, argv: list[str], arguments: Arguments, found: list[str]
    ) -> tuple[Command, Any] | str | None:
        """Parse a command line; return the command with its arguments, or the requested help.

        Returns None if there is no command.  The arguments are ``arguments``, or the result of the
        command's own parser.  The command's name is appended to ``found``, even if its arguments
        are wrong.  Raises UsageError.
        """
        at = parse(argv, (self.options,), arguments, mixed=False)
        if at == len(argv):
            return self.help_of([]) if arguments.flag("help") else None
        if argv[at] == "help":
            return self.help_of(argv[at + 1 :])
        if argv[at + 1 : at + 2] == ["--help"] or self._is_group_help(argv[at:]):
            return self.help_of(argv[at : at + 1])
        command, used = self.find(argv[at:])
        found.append(command.name)
        rest = argv[at + used :]
        parsed: Any = arguments
        if command.parse:
            parsed = command.parse(rest, arguments)
        else:
            parse_command(rest, command, self.options, arguments)
        if arguments.flag("help"):
            return self.help_of(command.name.split())
        if not command.parse and not command.fewest <= len(arguments.positional) <= command.most:
            hint = f"{self.name} {command.name} {command.synopsis}".rstrip()
            raise UsageError(f'"{command.name}": wrong number of arguments', hint)
        return command, parsed

    def _is_group_help(self, words: Sequence[str]) -> bool:
        """Return whether the words are a group and ``-h``, which single commands may redefine."""
        return words[1:2] == ["-h"] and words[0] in self.first_words()

    def help_of(self, words: Sequence[str]) -> str:
        """Return the help of a command, a group or, without words, the program."""
        from ociruntime.commandline import help as screens

        if not words:
            return screens.general_help(self)
        if len(words) == 1 and words[0] in self.first_words():
            return screens.group_help(self, words[0])
        return screens.command_help(self.name, self.find(words)[0])
