"""Parse the command line of ``run``, ``prepare`` and ``app add``, where options follow images.

    [OPTION]... IMAGE [OPTION]... [-- ARG]... [--- IMAGE [OPTION]... [-- ARG]...]...

An app option applies to the image before it.  If there is only one image, its options may also
precede it.  The arguments of an image's program follow ``--``, and end at ``---`` or at the end of
the command line.  ``---`` may also separate images that have no arguments.  Pod options may
stand anywhere except among a program's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments, is_option, parse_option
from ociruntime.pods.manifest.request import AppRequest, PodRequest, from_options

ARGUMENTS_BEGIN, ARGUMENTS_END = "--", "---"
_SINGLE_FORM = "IMAGE [OPTION]... [-- ARGUMENT]..."
_FORM = f"{_SINGLE_FORM} --- IMAGE ..."


class AppArguments:
    """An image on the command line, with the options and arguments of its app.

    ``arguments`` lists the program's arguments, which follow ``--`` on the command line.  If there
    is no ``--``, ``arguments`` is None, and the image's Cmd is used.
    """

    __slots__ = ("arguments", "image", "options")

    def __init__(self, image: str) -> None:
        self.image = image
        self.options = Arguments(as_runc=False)
        self.arguments: list[str] | None = None


class PodArguments:
    """A parsed command line that describes a pod.

    It consists of the pod's options, its apps, and the positional arguments before the images.
    """

    __slots__ = ("apps", "options", "positional")

    def __init__(self) -> None:
        self.options = Arguments(as_runc=False)
        self.apps: list[AppArguments] = []
        self.positional: list[str] = []


def parse_pod_arguments(
    argv: list[str],
    pod_options: Sequence[Option],
    app_options: Sequence[Option],
    global_options: Sequence[Option] = (),
    *,
    leading: int = 0,
    single: bool = False,
    program: Arguments | None = None,
) -> PodArguments:
    """Parse ``argv``, the command line after the name of the command; return a PodArguments.

    The first ``leading`` positional arguments, such as a UUID, are not images.  With ``single``,
    only one image is allowed, and the arguments of its program extend to the end of ``argv``.
    Global options are stored in ``program``.  Raises UsageError for an unknown or misplaced option
    or argument.
    """
    form = _SINGLE_FORM if single else _FORM
    pod = PodArguments()
    of_pod = [(pod_options, pod.options)]
    if program:
        of_pod.append((global_options, program))
    first = Arguments(as_runc=False)  # the options of the first app
    early = ""  # an option of the first app that was given before its image
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == ARGUMENTS_BEGIN:
            at = _read_arguments(argv, at, pod, len(argv) if single else _end(argv, at), form)
        elif word == ARGUMENTS_END and single:
            raise UsageError(f'"{ARGUMENTS_END}": this command takes only one image', form)
        elif word == ARGUMENTS_END and not pod.apps:
            raise UsageError(f'"{ARGUMENTS_END}" must follow an image or its arguments', form)
        elif word == ARGUMENTS_END:
            continue
        elif is_option(word):
            if pod.apps:
                scopes = [(app_options, pod.apps[-1].options), *of_pod]
            else:
                scopes = [*of_pod, (app_options, first)]
            at += parse_option(word, argv[at:], scopes)
        elif len(pod.positional) < leading:
            pod.positional.append(word)
        elif not word:
            raise UsageError('image "": the name must not be empty', form)
        else:
            pod.apps.append(AppArguments(word))
            if len(pod.apps) == 1:
                early = first.first_name()
                pod.apps[0].options = first
            elif early:
                raise _misplaced(early)
    if not pod.apps and (early := first.first_name()):
        raise _misplaced(early)
    return pod


def pod_request(parsed: PodArguments) -> PodRequest:
    """Convert a parsed command line to a PodRequest, which contains a request for each app.

    Raises UsageError for an invalid value of an option.
    """
    return from_options(PodRequest, parsed.options, apps=[app_request(app) for app in parsed.apps])


def app_request(app: AppArguments) -> AppRequest:
    """Convert ``app``, an image on the command line with its options, to an AppRequest.

    Raises UsageError for an invalid value of an option.
    """
    return from_options(AppRequest, app.options, image=app.image, arguments=app.arguments)


def _end(argv: list[str], at: int) -> int:
    return argv.index(ARGUMENTS_END, at) if ARGUMENTS_END in argv[at:] else len(argv)


def _read_arguments(argv: list[str], at: int, pod: PodArguments, end: int, form: str) -> int:
    if not pod.apps:
        raise UsageError('"--" must follow an image', form)
    app = pod.apps[-1]
    if app.arguments is not None:
        raise UsageError(f'image "{app.image}": "--" is given twice', form)
    app.arguments = argv[at:end]
    return end + 1


def _misplaced(name: str) -> UsageError:
    return UsageError(f"--{name} must follow an image", "it applies to the image before it")
