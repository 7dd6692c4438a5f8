"""The options of ``run`` and ``create``, and their conversion to a create request for ocid."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from ociruntime.base.errors import HostError, UsageError
from ociruntime.commandline.options import Option
from ociruntime.commandline.output import tell
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.signal_names import signal_number
from ociruntime.commandline.sizes import byte_count
from ociruntime.manager.client.connection import Connection, DaemonError, resource
from ociruntime.manager.client.isolation_options import ISOLATION_OPTIONS, isolation_of
from ociruntime.manager.client.limit_options import LIMIT_OPTIONS, limits_of
from ociruntime.manager.client.mount_and_volume_options import MOUNT_OPTIONS, mounts
from ociruntime.manager.client.network_options import NETWORK_OPTIONS, network_of
from ociruntime.manager.client.option_names_in_errors import with_option

Spec: TypeAlias = dict[str, Any]

SPEC_OPTIONS = (
    Option("name", "name of the container (default: generated)", "NAME"),
    Option(
        "rootfs",
        "use a copy of a directory instead of an image",
        "DIR",
        details="The container does not modify the directory.",
    ),
    Option("entrypoint", "override the entrypoint of the image", "PROGRAM"),
    Option(
        "env",
        "set an environment variable",
        "NAME[=VALUE]",
        kind="list",
        short="e",
        details="A name without a value is copied from ocictl's environment.",
    ),
    Option("env-file", "read environment variables from a file", "FILE", kind="list"),
    *MOUNT_OPTIONS,
    Option("workdir", "working directory in the container", "DIR", short="w", completed=False),
    Option("user", "user name or UID", "USER[:GROUP]", short="u"),
    Option("hostname", "hostname of the container", "NAME", short="h"),
    *NETWORK_OPTIONS,
    *LIMIT_OPTIONS,
    Option("shm-size", "size of /dev/shm (default: 64m)", "SIZE"),
    Option("group-add", "add a supplementary group", "GID", kind="list"),
    Option("read-only", "mount the root filesystem read-only"),
    Option("interactive", "keep stdin open", short="i"),
    Option("tty", "allocate a pseudo-terminal", short="t"),
    Option("label", "set metadata", "KEY[=VALUE]", kind="list", short="l"),
    Option("label-file", "read labels from a file", "FILE", kind="list"),
    Option(
        "restart",
        "no, on-failure[:N], always or unless-stopped",
        "POLICY",
        details=(
            "`unless-stopped` is like `always`, but a container that a user has stopped is not "
            "restarted when ocid starts. The restart backoff starts at 100 ms and doubles up to "
            "one minute."
        ),
    ),
    Option("rm", "remove the container when it exits", details="Also removes its logs."),
    Option("stop-signal", "signal sent by stop", "SIGNAL"),
    Option("stop-timeout", "timeout before SIGKILL (default: 10)", "SECONDS", kind="number"),
    Option("pull", "pull policy (default: missing)", "missing|always|never", kind="choice"),
    Option("quiet", "do not show the progress of a pull", short="q"),
    Option("insecure", "skip a check: image (signature), tls, http", "CHECK", kind="list"),
    Option("cidfile", "write the ID to a new file", "FILE"),
    *ISOLATION_OPTIONS,
    # Only suppresses a warning: health checks are not supported.
    Option("no-healthcheck"),
)

_NOT_FOUND = 404
_NOT_STORED = "is not in the store"  # part of ocid's error for an image that must be pulled
_POLICIES = ("no", "on-failure", "always", "unless-stopped")
# Image transports whose reference is a path (images/model/reference.py); in _TAGGED, a tag may
# follow the path.
_TAGGED = ("oci", "oci-archive", "docker-archive")
_PLAIN = ("dir", "tar", "aci")
_ARCHIVES = (".aci", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


def group(text: str) -> int:
    """Parse a value of ``--group-add``, a numeric GID.

    Raises UsageError if it is invalid.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise UsageError(
            f'--group-add: "{text}" is not a numeric GID', "group names are not supported"
        )
    return int(text)


def restart_policy(text: str) -> dict[str, Any]:
    """Parse a value of ``--restart`` like ``on-failure:3``.

    Returns ``{"name", "maximum"}``; ``maximum`` is the maximum number of restarts, or 0 for no
    limit.  Raises UsageError for an invalid value.
    """
    name, colon, digits = text.partition(":")
    counted = name == "on-failure" and digits.isascii() and digits.isdigit() and len(digits) < 10
    if name not in _POLICIES or (colon and not counted):
        raise UsageError(
            f'--restart: unknown policy "{text}"',
            "supported: no, on-failure[:N], always, unless-stopped",
        )
    return {"name": name, "maximum": int(digits or 0)}


def absolute_image(image: str, directory: str) -> str:
    """Return the image reference ``image``; if it is a path, make it absolute.

    A relative path is resolved against ``directory``, because the daemon runs in another directory.
    Raises UsageError if ``directory`` contains a colon and a tag may follow the path: the part
    after the colon would be read as the tag.
    """
    form, colon, path = image.partition(":")
    if not colon:
        is_path = image in (".", "..") or image.startswith(("./", "../")) or _is_archive(image)
        return os.path.join(directory, image) if is_path else image
    if form in _TAGGED and ":" in directory and not path.startswith("/"):
        hint = "the part after a colon would be the tag; run ocictl in another directory"
        raise UsageError(
            f'image "{image}": the path of the current directory contains a colon', hint
        )
    if (form in _TAGGED and path.partition(":")[0]) or (form in _PLAIN and path):
        return f"{form}:{os.path.join(directory, path)}"
    if form == "file":
        path = path.removeprefix("//")
        return os.path.join(directory, path) if path else image
    return os.path.join(directory, image) if image.startswith(("./", "../")) else image


def _is_archive(image: str) -> bool:
    return any(image.endswith(suffix) and image != suffix for suffix in _ARCHIVES)


# Option -> member of the create request, for values that are copied unchanged.
_TEXTS = {
    "name": "name",
    "workdir": "working_dir",
    "hostname": "hostname",
    "pull": "pull_policy",
}
_LISTS = {
    "insecure": "insecure",
}
_NUMBERS = {"stop-timeout": "stop_timeout"}
_FLAGS = {"read-only": "read_only", "tty": "tty", "interactive": "stdin", "rm": "auto_remove"}


def created(connection: Connection, arguments: Arguments) -> dict[str, Any]:
    """Create a container from the options of ``run``; return ocid's answer.

    Raises UsageError for an invalid option, HostError if the file of ``--cidfile`` cannot be
    written, and the errors of ``Connection``.
    """
    command = list(arguments.positional)
    rootfs = arguments.text("rootfs")
    if not rootfs and not command:
        hint = "name an image such as busybox"
        raise UsageError("create a container: an image or --rootfs is required", hint)
    image = "" if rootfs else command.pop(0)
    spec = spec_of(arguments, image, command)
    path = arguments.text("cidfile")
    if not path:
        return post_spec(connection, spec, arguments)
    try:
        # Create the file before the container, so that no container exists without its ID file.
        with open(path, "x", encoding="ascii") as file:
            try:
                record = post_spec(connection, spec, arguments)
                file.write(record["id"])
                file.flush()
            except BaseException:
                os.unlink(path)
                raise
    except OSError as error:
        raise HostError(f'write the ID to "{path}"', error) from None
    return record


def post_spec(connection: Connection, spec: Spec, arguments: Arguments) -> dict[str, Any]:
    """Send ocid a create request, print the answer's warnings, and return the answer.

    If the image is not in the store, pulls it first, and prints the progress to standard error
    unless ``arguments`` contains ``--quiet``.  Raises the errors of ``Connection``; an error about
    a member of ``spec`` gives the name of the option that set the member.
    """
    try:
        record = _posted(connection, spec, quiet=arguments.flag("quiet"))
    except DaemonError as error:
        raise with_option(error, arguments.names()) from None
    warnings = record.get("warnings", ())
    if arguments.flag("no-healthcheck"):
        warnings = [warning for warning in warnings if "HEALTHCHECK" not in warning]
    for warning in warnings:
        tell("ocictl", f'warning: container "{record["name"]}": {warning}')
    return record


def _posted(connection: Connection, spec: Spec, *, quiet: bool) -> dict[str, Any]:
    policy = spec.get("pull_policy", "missing")
    stored = resource("containers", fetch=0)
    if policy != "always":
        try:
            record: dict[str, Any] = connection.post(stored, spec)
        except DaemonError as error:
            missing = error.status == _NOT_FOUND and _NOT_STORED in str(error)
            if not missing or policy == "never":
                raise
        else:
            return record
    from ociruntime.manager.client.pull_progress import pulled

    body = {"image": spec["image"], "pull_policy": policy, "insecure": spec.get("insecure") or []}
    pulled(connection, body | {"platform": spec.get("platform")}, spec["image"], quiet=quiet)
    return dict(connection.post(stored, spec))


def spec_of(arguments: Arguments, image: str, command: list[str]) -> Spec:
    """Return the body of a create request, with members for the options in ``arguments``.

    Resolves relative paths against the working directory of ocictl.  Raises UsageError for an
    invalid value, HostError if a file that an option names cannot be read.
    """
    spec: Spec = {}
    rootfs = arguments.text("rootfs")
    if rootfs:
        # The shell does not expand the tilde of --rootfs=~/tree.
        spec["rootfs"] = os.path.abspath(os.path.expanduser(rootfs))
    else:
        spec["image"] = absolute_image(image, os.getcwd())
    if command:
        spec["command"] = command
    if "entrypoint" in arguments.texts:
        # An empty entrypoint overrides the image's entrypoint.
        spec["entrypoint"] = [word for word in [arguments.text("entrypoint")] if word]
    spec.update({_TEXTS[name]: text for name, text in arguments.texts.items() if name in _TEXTS})
    spec.update(
        {_LISTS[name]: values for name, values in arguments.lists.items() if name in _LISTS}
    )
    spec.update({_NUMBERS[name]: n for name, n in arguments.numbers.items() if name in _NUMBERS})
    spec.update({_FLAGS[name]: True for name in _FLAGS if arguments.flag(name)})
    spec.update(_parsed(arguments))
    spec.update(network_of(arguments))
    spec.update(limits_of(arguments))
    spec.update(isolation_of(arguments))
    return spec


def _parsed(arguments: Arguments) -> Spec:
    """Return the members of a create request for the options whose values must be parsed."""
    spec: Spec = {}
    if env := environment(arguments.list("env-file"), arguments.list("env"), os.environ):
        spec["env"] = env
    spec.update(mounts(arguments, os.getcwd()))
    if groups := [group(text) for text in arguments.list("group-add")]:
        spec["group_add"] = groups
    if labels := _labels(arguments):
        spec["labels"] = labels
    user, _, primary = arguments.text("user").partition(":")
    spec.update({key: text for key, text in (("user", user), ("group", primary)) if text})
    if shared := arguments.text("shm-size"):
        spec["shm_size"] = byte_count(shared, "shm-size")
    if restart := arguments.text("restart"):
        spec["restart_policy"] = restart_policy(restart)
    if signal := arguments.text("stop-signal"):
        signal_number(signal)
        spec["stop_signal"] = signal
    return spec


def _labels(arguments: Arguments) -> dict[str, str]:
    lines: list[str] = []
    for path in arguments.list("label-file"):
        lines += [line for line in lines_of(path, "--label-file") if line and line[0] != "#"]
    return labels_of(lines + arguments.list("label"))


def labels_of(values: list[str]) -> dict[str, str]:
    """Parse values of ``--label`` (KEY[=VALUE]) into ``{KEY: VALUE}``."""
    return {name: value for name, _, value in (word.partition("=") for word in values)}


def environment(
    files: list[str], settings: list[str], inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of ``--env-file`` (``files``), overridden by ``--env`` (``settings``).

    For a NAME without ``=``, copies the value from ``inherited``, the environment of ocictl; omits
    a NAME that is not set there.  Raises UsageError for an invalid variable, HostError if a file
    cannot be read.
    """
    variables: dict[str, str] = {}
    for path in files:
        lines = lines_of(path, "--env-file")
        variables.update(
            _variables([line for line in lines if line and line[0] != "#"], path, inherited)
        )
    variables.update(_variables(settings, "--env", inherited))
    return variables


def lines_of(path: str, option: str) -> list[str]:
    """Return the lines of the file ``path``, the value of ``option``.

    Raises HostError if the file cannot be read, UsageError if it is not UTF-8.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError as error:
        raise HostError(f'{option}: read "{path}"', error) from None
    except UnicodeDecodeError:
        raise UsageError(f'{option}: "{path}" is not valid UTF-8') from None


def _variables(settings: list[str], where: str, inherited: Mapping[str, str]) -> dict[str, str]:
    variables = {}
    for word in settings:
        name, equals, value = word.partition("=")
        if not name:
            raise UsageError(f'{where}: the variable "{word}" has no name', "use NAME=VALUE")
        if equals:
            variables[name] = value
        elif name in inherited:
            variables[name] = inherited[name]
    return variables
