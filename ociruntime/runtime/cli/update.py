"""`ociruntime update ID`."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.commandline.sizes import byte_count
from ociruntime.runtime.cli.container_options import caller_path
from ociruntime.runtime.lifecycle.update import WHERE, update
from ociruntime.runtime.spec.load import LARGEST, parse, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context

# flag -> member of linux.resources; a text is a size
_MEMBERS = {
    "blkio-weight": ("blockIO", "weight"),
    "cpu-burst": ("cpu", "burst"),
    "cpu-idle": ("cpu", "idle"),
    "cpu-period": ("cpu", "period"),
    "cpu-quota": ("cpu", "quota"),
    "cpu-rt-period": ("cpu", "realtimePeriod"),
    "cpu-rt-runtime": ("cpu", "realtimeRuntime"),
    "cpu-share": ("cpu", "shares"),
    "cpuset-cpus": ("cpu", "cpus"),
    "cpuset-mems": ("cpu", "mems"),
    "memory": ("memory", "limit"),
    "memory-reservation": ("memory", "reservation"),
    "memory-swap": ("memory", "swap"),
    "pids-limit": ("pids", "limit"),
}
_WORDS = ("cpuset-cpus", "cpuset-mems")
_IGNORED = ("kernel-memory", "kernel-memory-tcp")


def run(context: Context, arguments: Arguments) -> int:
    """Set the limits; silent.  With ``--resources`` the flags of single limits do not count."""
    for name in _IGNORED:
        if name in arguments.texts:
            context.log.warning(f"--{name} is ignored: the kernel limits no kernel memory any more")
    document = _document(arguments) if arguments.text("resources") else _from_flags(arguments)
    try:
        update(
            context,
            arguments.positional[0],
            document,
            arguments.text("l3-cache-schema"),
            arguments.text("mem-bw-schema"),
        )
    except RuntimeFailure as failure:
        if not arguments.text("resources"):
            _name_the_flag(failure)
        raise
    return 0


def _document(arguments: Arguments) -> object:
    if arguments.text("resources") == "-":
        return parse(_standard_input(), "standard input")
    path = caller_path(arguments, "resources")
    return parse(read(path), path)


def _standard_input() -> bytes:
    pieces = []
    try:
        while piece := posix.read(0, 1 << 20):
            pieces.append(piece)
            if len(pieces) > LARGEST >> 10:
                raise UsageError(f"standard input is larger than {LARGEST >> 20} MiB")
    except OSError as error:
        raise HostError("read standard input", error) from None
    return b"".join(pieces)


def _from_flags(arguments: Arguments) -> dict[str, Any]:
    resources: dict[str, dict[str, Any]] = {}
    for flag, (section, member) in _MEMBERS.items():
        value: int | str
        if flag in arguments.numbers:
            value = arguments.number(flag)
        elif flag in _WORDS:
            value = arguments.text(flag)
        elif arguments.text(flag):
            value = byte_count(arguments.text(flag), flag)
        else:
            continue
        resources.setdefault(section, {})[member] = value
    return resources


def _name_the_flag(failure: RuntimeFailure) -> None:
    """Name the flag in a message that begins with the JSON path of the flag's setting."""
    for flag, (section, member) in _MEMBERS.items():
        path = f"{WHERE}.{section}.{member}"
        if failure.message.startswith(f"{path}: "):
            failure.message = f"--{flag}{failure.message[len(path) :]}"
