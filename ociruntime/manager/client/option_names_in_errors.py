"""Replace names of JSON members in ocid's error messages: ``auto_remove`` becomes ``--rm``."""

from __future__ import annotations

import re
from collections.abc import Container

from ociruntime.manager.client.connection import DaemonError

_BAD_REQUEST = "bad_request"
_PATH = re.compile(r"([a-z_]+)(?:\[[0-9]+\]|\.[a-z_]+)*: (.*)", re.DOTALL)
_MEMBER = re.compile(r"\b[a-z]+_[a-z_]+\b")
# Member of a create request -> its option, if their names differ.
_OPTIONS = {
    "auto_remove": "rm",
    "devices": "device",
    "dns_options": "dns-option",
    "group": "user",
    "hosts": "add-host",
    "labels": "label",
    "network_aliases": "network-alias",
    "no_new_privileges": "security-opt",
    "ports": "publish",
    "pull_policy": "pull",
    "restart_policy": "restart",
    "seccomp": "security-opt",
    "stdin": "interactive",
    "sysctls": "sysctl",
    "ulimits": "ulimit",
    "volumes": "volume",
    "working_dir": "workdir",
}


def _option_of(word: re.Match[str]) -> str:
    return f"--{_OPTIONS[word[0]]}" if word[0] in _OPTIONS else word[0]


def with_option(error: DaemonError, used: Container[str]) -> DaemonError:
    """Return ``error`` with option names instead of JSON members in its message.

    ``used`` contains the names of the options on the command line.  Returns ``error`` unchanged
    unless it is a ``bad_request`` whose message begins with the JSON path of a member, and the
    member's option is in ``used``.
    """
    path = _PATH.fullmatch(str(error)) if error.code == _BAD_REQUEST else None
    if path is None:
        return error
    member, rest = path.groups()
    option = _OPTIONS.get(member, member.replace("_", "-"))
    if option == "volume" and "volume" not in used:
        option = "mount"
    if option not in used:
        return error
    rest = _MEMBER.sub(_option_of, rest)
    return DaemonError(f"--{option}: {rest}", error.code, error.status, error.exit_code)
