"""From the command line of ``ocipod`` to an exit status: the one place where its errors end.

Exit status: 0; 254 for any failure; 2 for a command line without a command; 130 when interrupted;
what the apps returned for ``run`` and ``run-prepared``, what the program returned for ``enter``
and ``app exec``.
"""

from __future__ import annotations

import posix

from ociruntime.cli.args import Arguments, parse
from ociruntime.cli.output import write
from ociruntime.cli.suggest import closest
from ociruntime.errors import InternalError, RuntimeFailure, UsageError
from ociruntime.log import plain
from ociruntime.ocipod.context import Context
from ociruntime.ocipod.options import COMMANDS, GLOBAL_OPTIONS, INSIDE, RAW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command

FAILED = 254
NO_COMMAND = 2
INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Runs the command ``argv`` (without the program's name).  Raises nothing."""
    arguments = Arguments()
    try:
        return _run(argv, arguments)
    except RuntimeFailure as failure:
        _report(str(failure), failure, arguments)
        return FAILED
    except KeyboardInterrupt as interrupt:
        _report("interrupted", interrupt, arguments)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        text = " ".join(str(error).split())
        hint = "--debug shows the way there"
        bug = InternalError(f"internal error: {type(error).__name__}: {text}", hint)
        _report(str(bug), error, arguments)
        return FAILED


def _run(argv: list[str], arguments: Arguments) -> int:
    at = parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False)
    if at == len(argv) or argv[at] == "help":
        if at == len(argv):
            write(_help_of([]))
            return 0 if arguments.flag("help") else NO_COMMAND
        return write(_help_of(argv[at + 1 :]))
    if argv[at + 1 : at + 2] in (["--help"], ["-h"]):
        return write(_help_of(argv[at : at + 1]))
    command, used = _find(argv[at:])
    rest = argv[at + used :]
    name = command[0]
    if name not in RAW:
        _read_options(rest, command, arguments)
    if arguments.flag("help") or (name in RAW and rest[:1] in (["--help"], ["-h"])):
        from ociruntime.ocipod.help import command_help

        return write(command_help(command))
    if name not in RAW and not command[2] <= len(arguments.positional) <= command[3]:
        hint = f"ocipod {name} {command[1]}".rstrip()
        raise UsageError(f'"{name}" takes other arguments', hint)
    context = Context(arguments)
    module_name = name.replace(" ", "_").replace("-", "_")
    module = __import__(f"ociruntime.ocipod.{module_name}", None, None, ("run",))
    # Of a RAW command each word has its meaning by its place: it reads them itself.
    status: int = module.run(context, rest if name in RAW else arguments)
    context.log.flush()
    return status


def _help_of(words: list[str]) -> str:
    """Of the command that ``words`` name, of a group of commands, or of all."""
    from ociruntime.ocipod.help import command_help, general_help, group_help

    if not words:
        return general_help()
    if len(words) == 1 and words[0] in _groups():
        return group_help(words[0])
    return command_help(_find(words)[0])


def _groups() -> set[str]:
    return {command[0].partition(" ")[0] for command in COMMANDS if " " in command[0]}


def _read_options(words: list[str], command: Command, arguments: Arguments) -> None:
    """Options and arguments; behind a UUID, the first that is no option begins a program's."""
    tables = (command[5], GLOBAL_OPTIONS)
    if command[0] not in INSIDE:
        parse(words, tables, arguments)
        return
    end = parse(words, tables, arguments, mixed=False)
    arguments.positional += words[end : end + 1]
    words = words[end + 1 :]
    arguments.positional += words[parse(words, tables, arguments, mixed=False) :]


def _find(words: list[str]) -> tuple[Command, int]:
    """The command that ``words`` begin with, in full or by unique beginnings; how many it has."""
    groups = _groups()
    first = _complete(words[0], [*groups, *(c[0] for c in COMMANDS if " " not in c[0])])
    name, used = first, 1
    if first in groups:
        members = [c[0].partition(" ")[2] for c in COMMANDS if c[0].startswith(f"{first} ")]
        if len(words) < 2:
            raise UsageError(f'"{first}" needs a command', " ".join(sorted(members)))
        name, used = f"{first} {_complete(words[1], members)}", 2
    return next(command for command in COMMANDS if command[0] == name), used


def _complete(word: str, names: list[str]) -> str:
    if word in names:
        return word
    hidden = [command[0] for command in COMMANDS if not command[4]]
    matches = [name for name in names if name.startswith(word) and name not in hidden]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f'"{word}" means several commands', " ".join(sorted(matches)))
    close = closest(word, [name for name in names if name not in hidden])
    hint = f"did you mean {close}?" if close else "ocipod --help lists the commands"
    raise UsageError(f'unknown command "{word}"', hint)


def _report(message: str, error: BaseException, arguments: Arguments) -> None:
    posix.write(2, f"ocipod: {plain(message)}\n".encode())
    if arguments.flag("debug"):
        import traceback

        traceback.print_exception(error)
