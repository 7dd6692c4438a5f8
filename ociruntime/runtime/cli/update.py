"""`ociruntime update ID`: change the limits of a container."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.base.json_text import parse
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.sizes import byte_count
from ociruntime.runtime.cli.container_options import caller_path
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.update import WHERE, update
from ociruntime.runtime.spec.load_config import LARGEST, read

# Option -> its member of linux.resources.
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
_LISTS = ("cpuset-cpus", "cpuset-mems")  # values are passed unchanged; other text values are sizes
_IGNORED = ("kernel-memory", "kernel-memory-tcp")


def run_update(context: Context, arguments: Arguments) -> int:
    """Change a container's limits; ``--resources`` overrides the options for single limits."""
    for name in _IGNORED:
        if name in arguments.texts:
            context.log.warning(
                f"--{name} is ignored: Linux no longer supports kernel memory limits"
            )
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
    """Parse the JSON file of ``--resources``, or standard input for "-", and return its value.

    Raises ConfigError if the file cannot be read or the text is not JSON.  Raises HostError if
    standard input cannot be read or the working directory was deleted, UsageError if standard input
    is too large.
    """
    if arguments.text("resources") == "-":
        return parse(_standard_input(), "standard input")
    path = caller_path(arguments, "resources")
    return parse(read(path), path)


def _standard_input() -> bytes:
    """Read all of standard input.

    Raises HostError if it cannot be read, UsageError if it is too large.
    """
    pieces, size = [], 0
    try:
        while piece := posix.read(0, 1 << 20):
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise UsageError(
                    f"--resources -: standard input is larger than {LARGEST >> 20} MiB",
                    "pass a LinuxResources object",
                )
    except OSError as error:
        raise HostError("read standard input", error) from None
    return b"".join(pieces)


def _from_flags(arguments: Arguments) -> dict[str, dict[str, int | str]]:
    """Convert the options for single limits to a LinuxResources object.

    Raises UsageError for an invalid size.
    """
    resources: dict[str, dict[str, int | str]] = {}
    for flag, (section, member) in _MEMBERS.items():
        value: int | str
        if flag in arguments.numbers:
            value = arguments.number(flag)
        elif flag in _LISTS:
            value = arguments.text(flag)
        elif arguments.text(flag):
            value = byte_count(arguments.text(flag), flag)
        else:
            continue
        resources.setdefault(section, {})[member] = value
    return resources


def _name_the_flag(failure: RuntimeFailure) -> None:
    """Replace the JSON path that begins an error message with the option that set this value."""
    for flag, (section, member) in _MEMBERS.items():
        path = f"{WHERE}.{section}.{member}"
        if failure.message.startswith(f"{path}: "):
            failure.message = f"--{flag}{failure.message[len(path) :]}"


COMMANDS = (
    Command(
        "update ID",
        "change the resource limits of a container",
        run_update,
        options=(
            Option("resources", "read linux.resources from FILE (-: stdin)", "FILE", short="r"),
            Option("memory", "memory limit: 512, 50M, 1.5G; -1: unlimited", "SIZE"),
            Option("memory-reservation", "memory soft limit", "SIZE"),
            Option("memory-swap", "limit of memory and swap together", "SIZE"),
            Option("cpu-share", "CPU shares (relative weight)", "N", kind="number"),
            Option("cpu-quota", "CPU time per period", "USEC", kind="number"),
            Option("cpu-period", "length of a CPU period", "USEC", kind="number"),
            Option("cpu-burst", "unused CPU time that may accumulate", "USEC", kind="number"),
            Option("cpu-idle", "1: schedule as SCHED_IDLE", "N", kind="number"),
            Option("cpu-rt-runtime", "realtime CPU time per period", "USEC", kind="number"),
            Option("cpu-rt-period", "length of a realtime period", "USEC", kind="number"),
            Option("cpuset-cpus", "CPUs to use: 0-3,7", "LIST"),
            Option("cpuset-mems", "memory nodes to use", "LIST"),
            Option("pids-limit", "maximum number of processes; -1: unlimited", "N", kind="number"),
            Option("blkio-weight", "block I/O weight (10 to 1000)", "N", kind="number"),
            Option("l3-cache-schema", "Intel RDT L3 cache schema", "SCHEMA"),
            Option("mem-bw-schema", "Intel RDT memory bandwidth schema", "SCHEMA"),
            Option("kernel-memory", value="SIZE"),
            Option("kernel-memory-tcp", value="SIZE"),
        ),
        details="Changes all limits or none. Device rules are ignored. FILE overrides options.",
        examples=(
            ("Change the memory limit", "ociruntime update --memory 512M web"),
            (
                "Read limits as in config.json",
                'echo \'{"pids": {"limit": 100}}\' | ociruntime update -r - web',
            ),
        ),
    ),
)
