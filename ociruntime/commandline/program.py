"""The class ``Program``, which finds a command of one or two words in argv and runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ociruntime.base.errors import RuntimeFailure, UsageError, unhandled
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import report, write
from ociruntime.commandline.parser import Arguments, parse, parse_command

# Title of a group -> module -> names of its commands; the title "" is for internal commands.
Groups = dict[str, dict[str, tuple[str, ...]]]
NO_COMMAND = 2
INTERRUPTED = 130


class Program:
    """A program: its name, package, global options and commands.

    Each module in ``groups`` has a tuple ``COMMANDS``, and is imported when one of these commands
    is needed.  ``foreign`` lists commands of similar programs, which must not be mistaken for
    abbreviations of our commands.  ``aliases`` maps each alias, which has two words, to the name of
    its command.  Aliases cannot be abbreviated, and the help does not list them among the commands.
    ``absent`` maps each command that exists only in similar programs to an error hint.
    """

    __slots__ = (
        *("_modules", "absent", "aliases", "description", "foreign", "groups", "name", "options"),
        "package",
    )

    def __init__(
        self,
        name: str,
        package: str,
        description: str,
        options: tuple[Option, ...],
        groups: Groups,
        foreign: tuple[str, ...] = (),
        aliases: dict[str, str] | None = None,
        absent: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.package = package
        self.description = description
        self.options = options
        self.groups = groups
        self.foreign = foreign
        self.aliases = aliases or {}
        self.absent = absent or {}
        self._modules = {
            command: module
            for families in groups.values()
            for module, names in families.items()
            for command in names
        }

    @property
    def names(self) -> list[str]:
        """The names of all commands, in the order in which the help lists them."""
        return list(self._modules)

    @property
    def commands(self) -> tuple[Command, ...]:
        """The definitions of all commands; imports every module with commands."""
        return tuple(map(self.command, self._modules))

    def shown_groups(self) -> list[tuple[str, list[Command]]]:
        """Return the groups of commands in the help as (title, commands).

        Internal commands, whose group has no title, are omitted.
        """
        return [
            (title, [self.command(name) for names in families.values() for name in names])
            for title, families in self.groups.items()
            if title
        ]

    def command(self, name: str) -> Command:
        """Return the definition of the command with this full name; import its module."""
        module = __import__(f"{self.package}.{self._modules[name]}", None, None, ("COMMANDS",))
        commands: tuple[Command, ...] = module.COMMANDS
        return next(command for command in commands if command.name == name)

    def find(self, words: Sequence[str]) -> tuple[Command, int]:
        """Find the command at the beginning of ``words``; return (command, number of its words).

        Each word of a command's name may be abbreviated to a unique prefix.  Raises UsageError if
        no command matches, or more than one.
        """
        alias = self.aliases.get(" ".join(words[:2]))
        if alias:
            return self.command(alias), 2
        for name in (words[0], " ".join(words[:2])):
            if name in self.absent:
                raise UsageError(f'"{name}" is not available', self.absent[name])
        groups = self.first_words()
        single = [name for name in self._modules if " " not in name]
        name, used = self._complete(words[0], [*groups, *single]), 1
        if name in groups:
            members = [
                full_name.partition(" ")[2]
                for full_name in self._modules
                if full_name.startswith(f"{name} ")
            ]
            if len(words) < 2:
                hint = f"use one of {' '.join(sorted(members))}"
                raise UsageError(f'"{name}" needs a command', hint)
            name, used = f"{name} {self._complete(words[1], members, name)}", 2
        return self.command(name), used

    def first_words(self) -> set[str]:
        """Return the first words of all two-word commands, such as ``app`` of ``app add``."""
        return {name.partition(" ")[0] for name in self._modules if " " in name}

    def _complete(self, word: str, names: list[str], group: str = "") -> str:
        """Return the name in ``names`` that ``word`` equals or abbreviates.

        If ``word`` is the second word of a command, ``group`` is the first, for the error message.
        Raises UsageError if no name matches, or more than one.
        """
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
            hint = f"use one of {' '.join(sorted(matches))}"
            raise UsageError(f'command "{word}" is ambiguous', hint)
        from ociruntime.base.similar_names import closest

        whole = f"{group} {word}".lstrip()
        close = closest(word, shown)
        listing = f"{self.name} {group}".rstrip()
        hint = f"did you mean {close}?" if close else f"{listing} --help lists the commands"
        raise UsageError(f'unknown command "{whole}"', hint)

    def main(
        self,
        argv: list[str],
        run: Callable[[Command, Any, Arguments], int],
        failure_status: Callable[[RuntimeFailure, str], int],
    ) -> int:
        """Parse the command line ``argv``, call ``run`` and return the exit status.

        Raises no exceptions: every error becomes one line on standard error.
        ``run(command, arguments, options)`` returns the exit status; ``arguments`` is the result of
        the command's own parser, or the same as ``options``.  ``failure_status(error, name)``
        returns the exit status for an error; ``name`` is the command's name, "" if not known.
        """
        arguments = Arguments(as_runc=False)
        command_names: list[str] = []
        try:
            request = self.read(argv, arguments, command_names)
            if request is None:
                write(self.help_of([]))
                return NO_COMMAND
            if isinstance(request, str):
                return write(request)
            return run(*request, arguments)
        except RuntimeFailure as failure:
            report(self.name, str(failure), failure, arguments.flag("debug"))
            return failure_status(failure, "".join(command_names))
        except KeyboardInterrupt as interrupt:
            report(self.name, "interrupted", interrupt, arguments.flag("debug"))
            return INTERRUPTED
        except ImportError as error:
            unloadable = RuntimeFailure(f"load the program's modules: {error}")
            report(self.name, str(unloadable), error, arguments.flag("debug"))
            return failure_status(unloadable, "".join(command_names))
        except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
            name = "".join(command_names)
            failed = unhandled(name or f"run {self.name}", error)
            report(self.name, str(failed), error, arguments.flag("debug"))
            return failure_status(failed, name)

    def read(
        self, argv: list[str], arguments: Arguments, command_names: list[str]
    ) -> tuple[Command, Any] | str | None:
        """Parse a command line; return (command, its arguments), or a text to print.

        Returns a text if the help or the version was requested, and None if no command was given.
        The command's arguments are ``arguments``, or the result of the command's own parser.
        Appends the command's name to ``command_names`` even if its arguments are wrong.  Raises
        UsageError.
        """
        at = parse(argv, (self.options,), arguments, mixed=False)
        if arguments.flag("version"):
            return self._version()
        if at == len(argv):
            return self.help_of([]) if arguments.flag("help") else None
        if argv[at] == "help":
            return self.help_of(argv[at + 1 :])
        if argv[at + 1 : at + 2] == ["--help"] or self._is_group_help(argv[at:]):
            return self.help_of(argv[at : at + 1])
        command, used = self.find(argv[at:])
        command_names.append(command.name)
        command_argv = argv[at + used :]
        parsed: Any = arguments
        if command.parse:
            parsed = command.parse(command_argv, arguments)
        else:
            parse_command(command_argv, command, self.options, arguments)
        if arguments.flag("help"):
            return self.help_of(command.name.split())
        if arguments.flag("version"):
            return self._version()
        if not command.parse and not command.fewest <= len(arguments.positional) <= command.most:
            hint = f"usage: {self.name} {command.name} {command.synopsis}".rstrip()
            raise UsageError(f'"{command.name}": wrong number of arguments', hint)
        return command, parsed

    def _version(self) -> str:
        from ociruntime import __version__

        return f"{self.name} {__version__}\n"

    def _is_group_help(self, words: Sequence[str]) -> bool:
        """Return whether ``words`` is the name of a command group, followed by ``-h``.

        After a command, ``-h`` may be a different option.
        """
        return words[1:2] == ["-h"] and words[0] in self.first_words()

    def help_of(self, words: Sequence[str]) -> str:
        """Return the help text of a command or group; without ``words``, the program's help text.

        ``words`` is the name of the command or group.  Raises UsageError if the name is unknown.
        """
        from ociruntime.commandline import help as screens

        if not words:
            return screens.general_help(self)
        if len(words) == 1 and words[0] in self.first_words():
            return screens.group_help(self, words[0])
        return screens.command_help(self.name, self.find(words)[0])
