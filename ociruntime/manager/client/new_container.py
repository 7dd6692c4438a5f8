"""Translation of the options of ``run`` and ``create`` into the request for a container."""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, UsageError
from ociruntime.commandline.signal_names import signal_number
from ociruntime.commandline.sizes import byte_count
from ociruntime.manager.client import option_values
from ociruntime.manager.client.connection import Connection, resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ociruntime.commandline.parser import Arguments

    Spec = dict[str, Any]

# Option -> member of the request, where the value is passed on unchanged.
_TEXTS = {
    "name": "name",
    "workdir": "working_dir",
    "hostname": "hostname",
    "pull": "pull_policy",
}
_LISTS = {"dns": "dns", "cap-add": "cap_add", "cap-drop": "cap_drop", "insecure": "insecure"}
_NUMBERS = {"pids-limit": "pids_limit", "stop-timeout": "stop_timeout"}
_FLAGS = {
    "read-only": "read_only",
    "tty": "tty",
    "interactive": "stdin",
    "rm": "auto_remove",
}


def created(connection: Connection, arguments: Arguments) -> dict[str, Any]:
    """Create a container and return its status.  Raises UsageError."""
    command = list(arguments.positional)
    image = "" if arguments.text("rootfs") else command.pop(0)
    record: dict[str, Any] = connection.post(
        resource("containers"), spec_of(arguments, image, command)
    )
    return record


def spec_of(arguments: Arguments, image: str, command: list[str]) -> Spec:
    """Return the body of the request; members without an option are left out.

    Relative paths are resolved in our working directory.  Raises UsageError, HostError.
    """
    spec: Spec = {}
    rootfs = arguments.text("rootfs")
    if rootfs:
        spec["rootfs"] = os.path.abspath(rootfs)
    else:
        spec["image"] = option_values.absolute_image(image, os.getcwd())
    if command:
        spec["command"] = command
    if "entrypoint" in arguments.texts:
        spec["entrypoint"] = [arguments.text("entrypoint")]
    spec.update({_TEXTS[name]: text for name, text in arguments.texts.items() if name in _TEXTS})
    spec.update({_LISTS[name]: words for name, words in arguments.lists.items() if name in _LISTS})
    spec.update({_NUMBERS[name]: n for name, n in arguments.numbers.items() if name in _NUMBERS})
    spec.update({_FLAGS[name]: True for name in _FLAGS if arguments.flag(name)})
    spec.update(_parsed(arguments))
    return spec


def _parsed(arguments: Arguments) -> Spec:
    """Return the members whose options have a syntax of their own."""
    spec: Spec = {}
    if env := environment(arguments.list("env-file"), arguments.list("env"), os.environ):
        spec["env"] = env
    if network := arguments.text("network") or arguments.text("net"):
        spec["network"] = network
    volumes = [option_values.volume(text, os.getcwd()) for text in arguments.list("volume")]
    volumes += [option_values.mount(text, os.getcwd()) for text in arguments.list("mount")]
    if volumes:
        spec["volumes"] = volumes
    if ports := [option_values.port(text) for text in arguments.list("publish")]:
        spec["ports"] = ports
    if labels := arguments.list("label"):
        spec["labels"] = {name: value for name, _, value in (one.partition("=") for one in labels)}
    user, _, group = arguments.text("user").partition(":")
    spec.update({key: text for key, text in (("user", user), ("group", group)) if text})
    if memory := arguments.text("memory"):
        spec["memory"] = byte_count(memory, "memory")
    if cpus := arguments.text("cpus"):
        spec["cpus"] = option_values.cpus(cpus)
    if restart := arguments.text("restart"):
        spec["restart_policy"] = option_values.restart_policy(restart)
    if signal := arguments.text("stop-signal"):
        signal_number(signal)
        spec["stop_signal"] = signal
    return spec


def environment(files: list[str], words: list[str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment from ``--env-file`` and then ``--env``.

    A bare name is copied from ``own``, our environment, if it is set there.  Raises UsageError,
    HostError.
    """
    found: dict[str, str] = {}
    for path in files:
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError):
                raise HostError(f"read {path}", error) from None
            raise UsageError(f"--env-file {path}: not UTF-8") from None
        found.update(_variables([line for line in lines if line and line[0] != "#"], path, own))
    found.update(_variables(words, "--env", own))
    return found


def _variables(words: list[str], where: str, own: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise UsageError(f'{where}: "{word}" has no name', "NAME=VALUE")
        if equals:
            found[name] = value
        elif name in own:
            found[name] = own[name]
    return found
