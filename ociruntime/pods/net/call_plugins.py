"""The Container Network Interface (CNI): call network plugins, installed or built in.

A plugin gets the command in its environment and the configuration as JSON on standard input, and
writes its result as JSON to standard output (https://www.cni.dev/docs/spec/).
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net.plugin_parameters import PluginCall, check_result

TIMEOUT = 60.0  # seconds for a plugin to finish
BUILTIN = {
    "loopback": "loopback",
    "ptp": "ptp",
    "bridge": "bridge",
    "host-local": "host_local",
    "portmap": "portmap",
}
INCOMPATIBLE_VERSION = 1  # an error code of the CNI specification
QUOTED = 300  # maximum characters of a plugin's output to quote in an error


def is_plugin_name(text: object) -> bool:
    """Return whether ``text`` can be the file name of a CNI plugin."""
    return (
        isinstance(text, str)
        and text != ""
        and text.isprintable()
        and "/" not in text
        and text not in (".", "..")
    )


def find_plugin(kind: str, directories: tuple[str, ...]) -> str:
    """Return the path of the CNI plugin ``kind``, or "" if there is only a built-in plugin.

    Raises NetworkError if the plugin is not found.
    """
    if not is_plugin_name(kind):
        raise NetworkError(f'find network plugin "{ascii(kind)[1:-1]}": invalid name')
    for directory in directories:
        path = f"{directory}/{kind}"
        if os.access(path, 1) and not _is_directory(path):
            return path
    if kind in BUILTIN:
        return ""
    raise NetworkError(
        f'find network plugin "{kind}": not found', f"install it in one of {', '.join(directories)}"
    )


def validate(program: str, call: PluginCall) -> None:
    """Check the configuration of a call to a built-in plugin; raise NetworkError if it is invalid.

    Does nothing if ``program`` is the path of an installed plugin, which checks its configuration
    itself.
    """
    if not program:
        _builtin(call).validate(call)


def add(program: str, call: PluginCall) -> dict[str, Any]:
    """Connect the pod to the network by calling ADD of a CNI plugin; return the CNI result.

    ``program`` is the plugin's path, or "" for a built-in plugin.  Raises NetworkError if the
    plugin fails.
    """
    if not program:
        result: dict[str, Any] = _builtin(call).add(call)
        return result
    output = _ask(program, call, "ADD")
    where = _where(program, call)
    return check_result(_parse(output, where), where)


def delete(program: str, call: PluginCall) -> None:
    """Undo ``add`` by calling DEL of a CNI plugin, even if ``add`` has failed halfway.

    ``program`` is the plugin's path, or "" for a built-in plugin.  Raises NetworkError if the
    plugin fails.
    """
    if not program:
        _builtin(call).delete(call)
    else:
        _ask(program, call, "DEL")


def tags(program: str, call: PluginCall) -> list[tuple[str, int]]:
    """Return (tag, IP family 4 or 6) of each packet filter ruleset of a built-in plugin.

    A tag is the name under which the plugin adds rules to nft or iptables.  Returns [] if
    ``program`` is the path of an installed plugin, which manages its own rules.
    """
    return [] if program else list(_builtin(call).tags(call))


def check(program: str, call: PluginCall) -> None:
    """Check the pod's connection to the network by calling CHECK of a CNI plugin.

    ``program`` is the plugin's path, or "" for a built-in plugin.  Raises NetworkError if an
    interface, address or rule that ``add`` made is missing.
    """
    if not program:
        _builtin(call).check(call)
    else:
        _ask(program, call, "CHECK")


def versions(program: str) -> list[str]:
    """Return the CNI versions that the installed plugin ``program`` (a path) supports.

    Raises NetworkError if the plugin fails or lists no versions.
    """
    from ociruntime.pods.net.run_program import run_program

    environment = {"CNI_COMMAND": "VERSION", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    code, output, _ = run_program([program], b'{"cniVersion":"1.0.0"}', TIMEOUT, environment)
    answer = _parse(output, f'network plugin "{program}"')
    supported = answer.get("supportedVersions") if isinstance(answer, dict) else None
    if code or not isinstance(supported, list):
        raise NetworkError(
            f'network plugin "{program}": VERSION: the reply has no list "supportedVersions"'
        )
    return [str(version) for version in supported]


def _builtin(call: PluginCall) -> ModuleType:
    kind = str(call.configuration["type"])
    module: ModuleType = __import__(
        f"ociruntime.pods.net.builtin.{BUILTIN[kind]}", None, None, ("add",)
    )
    return module


def _ask(program: str, call: PluginCall, command: str) -> bytes:
    import json

    from ociruntime.pods.net.run_program import run_program

    data = json.dumps(call.configuration).encode()
    code, output, errors = run_program([program], data, TIMEOUT, call.environment(command))
    if code:
        raise _failure(program, call, command, code, output, errors)
    return output


def _failure(
    program: str, call: PluginCall, command: str, code: int, output: bytes, errors: bytes
) -> NetworkError:
    action = f"{_where(program, call)}: {command}"
    try:
        answer = _parse(output, action)
    except NetworkError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("msg"), str):
        output_text = _quoted(errors) or _quoted(output)
        ended = f"exit status {code}" if code > 0 else f"signal {-code}"
        return NetworkError(f"{action}: {ended}{': ' if output_text else ''}{output_text}")
    message = answer["msg"]
    if isinstance(answer.get("details"), str) and answer["details"]:
        message += f": {answer['details']}"
    hint = ""
    if answer.get("code") == INCOMPATIBLE_VERSION:
        try:
            hint = f"the plugin supports {', '.join(versions(program))}"
        except NetworkError:
            pass
    return NetworkError(f"{action}: {' '.join(message.split())}", hint)


def _where(program: str, call: PluginCall) -> str:
    """Return the beginning of an error message about a call to a plugin."""
    return f'network "{call.network}": plugin "{program}"'


def _parse(output: bytes, where: str) -> object:
    import json

    try:
        value: object = json.loads(output)
    except (ValueError, RecursionError):
        raise NetworkError(
            f"{where}: invalid JSON in its output: {_quoted(output) or '(empty)'}"
        ) from None
    return value


def _quoted(data: bytes) -> str:
    return " ".join(data.decode(errors="replace").split())[-QUOTED:]


def _is_directory(path: str) -> bool:
    try:
        os.stat(f"{path}/.")
    except OSError:
        return False
    return True
