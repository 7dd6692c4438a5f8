"""Steps shared by the commands that prepare or run a pod, from the arguments to the pod."""

from __future__ import annotations

from ociruntime.base.errors import HostError, UsageError
from ociruntime.commandline.output import tell
from ociruntime.pods.bundle.runtime_calls import find_runtime
from ociruntime.pods.cli.options import GLOBAL_OPTIONS
from ociruntime.pods.manifest.app_arguments import PodWords, Values, read_words
from ociruntime.pods.manifest.app_options import APP_OPTIONS
from ociruntime.pods.operations.runtime_config import Host, run_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context
    from ociruntime.pods.manifest.app_options import Option
    from ociruntime.pods.store.pod import Pod


def read(
    context: Context, words: list[str], options: tuple[Option, ...]
) -> tuple[Context, PodWords]:
    """Parse the arguments; return the context with their global options, and the rest.

    Raises UsageError.
    """
    parsed = read_words(words, options, APP_OPTIONS, GLOBAL_OPTIONS)
    return context.changed(parsed.globals.texts, parsed.globals.flags), parsed


def values_of(arguments: Arguments) -> Values:
    """Return the options of a command without app options among them."""
    values = Values()
    values.texts = arguments.texts
    values.lists = arguments.lists
    values.flags = arguments.flags
    return values


def host_of(context: Context) -> Host:
    """Return the global options that a pod stores.  Raises PodError if the runtime is not found."""
    host = Host(context.directory)
    host.runtime = find_runtime(context.runtime)
    host.insecure = context.insecure
    host.local_config = context.local_config
    host.user_config = context.user_config
    host.system_config = context.system_config
    host.debug = context.debug
    return host


def prepared(context: Context, words: PodWords, *, runs: bool) -> Pod:
    """Prepare a pod and return it with its lock held; ``runs``: check its networks, too.

    Raises RuntimeFailure.
    """
    import os

    from ociruntime.commandline.progress import Bar
    from ociruntime.pods.operations.prepare import Request, check, prepare

    options = words.options
    request = Request(host_of(context), words, warn)
    kind = check(request).name
    if runs:
        settings = run_settings(options, "", kind)
        check_networks(context, settings["net"])
        request.networks = [name for name, _ in settings["net"]]
        request.run_settings = lambda uuid: run_settings(options, uuid, kind)
    if options.flag("inherit-env"):
        request.inherited = dict(os.environ)
    check_root()
    with Bar() as bar:
        request.progress = bar
        return prepare(request)


def check_networks(context: Context, networks: list[tuple[str, str]]) -> None:
    """Check that the networks exist, before anything is created.  Raises NetworkError."""
    from ociruntime.pods.net import choice
    from ociruntime.pods.net.configuration import net_directories

    directories = net_directories(context.user_config, context.local_config, context.system_config)
    choice.check(networks, directories)


def check_root() -> None:
    """Raise UsageError unless we are root."""
    import posix

    if posix.geteuid():
        raise UsageError("ocipod must be run as root", "sudo ocipod ...")


def save_uuid(values: Values, pod: Pod) -> None:
    """Write the UUID to the file of --uuid-file-save.

    On failure, removes the pod and raises HostError.
    """
    path = values.text("uuid-file-save")
    if not path:
        return
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(pod.uuid)
    except OSError as error:
        from ociruntime.pods.store.removal import discard

        discard(pod)
        raise HostError(f"write the UUID to {path}", error) from error


def warn(text: str) -> None:
    """Print a warning to standard error, unbuffered: the next step may take long."""
    tell("ocipod", text)
