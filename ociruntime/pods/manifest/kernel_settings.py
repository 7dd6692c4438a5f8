"""Check ulimits, sysctls and lists of CPUs in requests and manifests."""

from __future__ import annotations

from typing import Any

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.base.linux import RLIM_INFINITY, RLIMITS

_PREFIX = "RLIMIT_"
ULIMITS = tuple(name.removeprefix(_PREFIX).lower() for name in RLIMITS)
_LIMIT = checks.number(-1, RLIM_INFINITY - 1)  # -1: unlimited
_ULIMIT = checks.object_of(
    {"name": checks.one_of(*ULIMITS), "soft": _LIMIT, "hard": _LIMIT}, "name", "soft", "hard"
)
# Parameters of the IPC namespace; ``_PREFIXES``: start of a parameter's name -> the type of its
# namespace.  Any other parameter would change the host.
_IPC = (
    *("kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem"),
    *("kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"),
)
_PREFIXES = {"net.": "network", "fs.mqueue.": "ipc"}
_SETTABLE = "net.*, fs.mqueue.*, kernel.msg*, kernel.sem, kernel.shm*"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def check_ulimit(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    """Check ``value``, a ulimit ``{"name", "soft", "hard"}``; -1 means unlimited.

    Raises BadRequest, whose message begins with ``where``, if it is invalid.
    """
    _ULIMIT(where, value)
    soft, hard = value["soft"], value["hard"]
    if hard >= 0 and not 0 <= soft <= hard:
        raise BadRequest(where, f"{value['name']}: the soft limit is above the hard limit")


def rlimits(ulimits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert ulimits to ``process.rlimits`` of an OCI config; later ones override earlier ones."""
    last = {ulimit["name"]: ulimit for ulimit in ulimits}
    return [
        {
            "type": f"{_PREFIX}{name.upper()}",
            "soft": ulimit["soft"] if ulimit["soft"] >= 0 else RLIM_INFINITY,
            "hard": ulimit["hard"] if ulimit["hard"] >= 0 else RLIM_INFINITY,
        }
        for name, ulimit in last.items()
    ]


def namespace_of(sysctl: str) -> str:
    """Return the type of namespace that the kernel parameter ``sysctl`` belongs to.

    The type is "network" or "ipc", or "" if the parameter affects the whole host or is invalid.
    """
    if not all(part and not set(part) - _LETTERS for part in sysctl.split(".")):
        return ""
    if sysctl in _IPC:
        return "ipc"
    return next((kind for start, kind in _PREFIXES.items() if sysctl.startswith(start)), "")


def check_sysctls(where: str, value: Any) -> None:  # noqa: ANN401
    """Check ``value``, kernel parameters ``{name: value}`` to set in a container's namespaces.

    Raises BadRequest, whose message begins with ``where``, for an invalid value, or for a parameter
    that would change the host.
    """
    checks.strings_by_name(where, value)
    for name, text in value.items():
        if not namespace_of(name):
            message = f'"{name}" would change the host: it does not belong to a namespace'
            raise BadRequest(where, message, f"supported: {_SETTABLE}")
        if "\n" in text:
            raise BadRequest(where, f'the value of "{name}" must be one line')


def check_owned(sysctls: dict[str, str], shared: dict[str, str], where: str) -> None:
    """Check that no kernel parameter belongs to a namespace that the pod shares with the host.

    ``sysctls`` maps the names of parameters to values.  ``shared`` maps the types of shared
    namespaces to the command-line options that share them.  Raises UsageError, whose message begins
    with ``where``, if a parameter belongs to a shared namespace.
    """
    for name in sysctls:
        option = shared.get(namespace_of(name))
        if option:
            raise UsageError(
                f'{where}: "{name}" would change the host, because of {option}',
                f"omit {option}",
            )


def check_cpu_list(where: str, value: Any) -> None:  # noqa: ANN401
    """Check ``value``, a list of CPUs or memory nodes such as ``0-2,7``.

    Raises BadRequest, whose message begins with ``where``, if it is invalid.
    """
    checks.nonempty(where, value)
    for part in value.split(","):
        first, dash, last = part.partition("-")
        numbers = (first, last) if dash else (first,)
        if not all(word.isascii() and word.isdigit() and len(word) < 6 for word in numbers) or (
            dash and int(first) > int(last)
        ):
            raise BadRequest(
                where, f'invalid list of CPUs or memory nodes "{value}"', "for example 0-2,7"
            )
