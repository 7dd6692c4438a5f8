"""The form of an option and of a command: parser, help and whatever documents them read tables.

An option is ``(name, short, kind, value, help)``.  Kinds:

    flag     no value, or ``=true`` / ``=false``
    text     any value; ``value`` is its name in the help
    number   a decimal integer
    choice   ``value`` lists what is accepted, separated by ``|``
    list     any value; each use of the option adds one
    optional any value behind ``=``; without one it is ``true``

An option without help text is accepted and not shown.  A command is ``(name, arguments,
fewest, most, summary, options, details)``; ``fewest`` and ``most`` count its arguments.  With
``ANY`` of them they are another program's: the first one ends the options.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Option = tuple[str, str, str, str, str]
    Command = tuple[str, str, int, int, str, tuple[Option, ...], str]

ANY = 1 << 30
