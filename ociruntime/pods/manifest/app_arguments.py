"""Parse the command line of ``run``, ``prepare`` and ``app add``, where position matters.

    [OPTION]... IMAGE [OPTION]... [-- ARG]... [--- IMAGE [OPTION]... [-- ARG]...]...

An app option applies to the image before it.  What follows ``--``, up to ``---`` or the end, are
the image's arguments.  Pod options may stand anywhere except among arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import UsageError
from ociruntime.pods.manifest.app_options import ALSO_OF_POD, Option

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
ARGUMENTS_BEGIN, ARGUMENTS_END = "--", "---"


class Values:
    """The parsed options: ``texts`` (the last one wins), ``lists`` (all occurrences), ``flags``."""

    __slots__ = ("flags", "lists", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.flags: dict[str, bool] = {}

    def text(self, name: str, default: str = "") -> str:
        return self.texts.get(name, default)

    def list(self, name: str) -> list[str]:
        return self.lists.get(name, [])

    def flag(self, name: str) -> bool:
        return self.flags.get(name, False)

    def has(self, name: str) -> bool:
        return name in self.texts or name in self.lists or name in self.flags


class AppWords:
    """An image on the command line: reference, options, arguments.

    ``arguments`` is None without ``--``: the image's own Cmd is used.
    """

    __slots__ = ("arguments", "image", "options")

    def __init__(self, image: str) -> None:
        self.image = image
        self.options = Values()
        self.arguments: list[str] | None = None


class PodWords:
    """A parsed command line; ``globals`` are options of the program itself."""

    __slots__ = ("apps", "globals", "options", "positional")

    def __init__(self) -> None:
        self.globals = Values()
        self.options = Values()
        self.apps: list[AppWords] = []
        self.positional: list[str] = []


def read_words(
    words: list[str],
    pod_options: Sequence[Option],
    app_options: Sequence[Option],
    global_options: Sequence[Option] = (),
    leading: int = 0,
    single: bool = False,
) -> PodWords:
    """Parse ``words``, without the command's name; the first ``leading`` ones are not images.

    ``single`` expects one image, whose arguments extend to the end.  Global options may stand
    wherever pod options may.

    Raises UsageError.
    """
    said = PodWords()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == ARGUMENTS_BEGIN:
            at = _read_arguments(words, at, said, len(words) if single else _end(words, at))
        elif word == ARGUMENTS_END:
            raise UsageError(f'"{ARGUMENTS_END}" must follow the arguments of an image', _FORM)
        elif len(word) > 1 and word[0] == "-":
            at = _read_option(words, at, said, (pod_options, app_options, global_options))
        elif len(said.positional) < leading:
            said.positional.append(word)
        elif not word:
            raise UsageError("the image's name must not be empty", _FORM)
        else:
            said.apps.append(AppWords(word))
    return said


_FORM = "IMAGE [OPTION]... [-- ARGUMENT]... --- IMAGE ..."


def _end(words: list[str], at: int) -> int:
    return words.index(ARGUMENTS_END, at) if ARGUMENTS_END in words[at:] else len(words)


def _read_arguments(words: list[str], at: int, said: PodWords, end: int) -> int:
    if not said.apps:
        raise UsageError('"--" must follow an image', _FORM)
    app = said.apps[-1]
    if app.arguments is not None:
        raise UsageError(f'image "{app.image}": arguments given twice', _FORM)
    app.arguments = words[at:end]
    return end + 1


def _read_option(
    words: list[str],
    at: int,
    said: PodWords,
    tables: tuple[Sequence[Option], Sequence[Option], Sequence[Option]],
) -> int:
    """Parse the option before index ``at``; return the index of the next word."""
    name, equals, value = words[at - 1].lstrip("-").partition("=")
    option, values = _owner(name, said, *tables)
    if option[2] == "flag":
        if equals and value not in _BOOLEANS:
            raise UsageError(f'--{name}: invalid boolean "{value}"', "true or false")
        values.flags[name] = _BOOLEANS.get(value, True)
        return at
    if not equals and option[2] == "optional":
        value = ""
    elif not equals:
        if at == len(words):
            raise UsageError(f"--{name} requires a value", option[3])
        value = words[at]
        at += 1
    _store(option, value, values)
    return at


def _owner(
    name: str,
    said: PodWords,
    pod_options: Sequence[Option],
    app_options: Sequence[Option],
    global_options: Sequence[Option],
) -> tuple[Option, Values]:
    """Return the option's row and the values that it belongs to.  Raises UsageError."""
    of_app = next((option for option in app_options if option[0] == name), None)
    of_pod = next((option for option in pod_options if option[0] == name), None)
    if of_app and said.apps:
        return of_app, said.apps[-1].options
    if of_pod and (of_app is None or name in ALSO_OF_POD):
        return of_pod, said.options
    for option in global_options:
        if option[0] == name:
            return option, said.globals
    if of_app:
        raise UsageError(f"--{name} must follow an image", "it applies to the image before it")
    tables = (*pod_options, *app_options, *global_options)
    names = [option[0] for option in tables if option[4]]
    near = [one for one in names if name and (one.startswith(name) or name.startswith(one))]
    hint = f"did you mean --{near[0]}?" if near else ""
    raise UsageError(f"unknown option --{name}", hint)


def _store(option: Option, value: str, values: Values) -> None:
    name, _, kind, accepted, _ = option
    if kind == "choice" and value not in accepted.split("|"):
        raise UsageError(f'--{name}: invalid value "{value}"', accepted.replace("|", ", "))
    if kind == "list":
        values.lists.setdefault(name, []).append(value)
    elif kind == "optional" and values.text(name) and value:
        values.texts[name] += f",{value}"
    else:
        values.texts[name] = value
