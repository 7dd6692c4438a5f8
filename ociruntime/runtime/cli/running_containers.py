"""The commands for running containers: `ps`, `pause`, `resume`, `update`, `mounts`."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.base.json_text import dump, parse
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.sizes import byte_count
from ociruntime.runtime.cli.container_options import absolute, caller_path
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.pause import pause, resume
from ociruntime.runtime.lifecycle.ps import process_ids, process_table
from ociruntime.runtime.lifecycle.update import WHERE, update
from ociruntime.runtime.spec.load_config import LARGEST, read


def run_ps(context: Context, arguments: Arguments) -> int:
    """Print a container's processes as ps(1) does, or their PIDs as a JSON array."""
    container_id, *ps_arguments = arguments.positional
    if arguments.text("format") == "json":
        return write(dump(process_ids(context, container_id)) + "\n")
    # A process chooses its name and arguments: write_lines escapes control characters that ps
    # does not escape, such as U+202E.
    return write_lines(process_table(context, container_id, ps_arguments))


def run_pause(context: Context, arguments: Arguments) -> int:
    """Pause all processes of a container."""
    pause(context, arguments.positional[0])
    return 0


def run_resume(context: Context, arguments: Arguments) -> int:
    """Resume all processes of a container."""
    resume(context, arguments.positional[0])
    return 0


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
                f"--{name} is ignored: kernels no longer support a limit of kernel memory"
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
    """Parse the JSON file that ``--resources`` names; return its value.

    Raises ConfigError and HostError.
    """
    if arguments.text("resources") == "-":
        return parse(_standard_input(), "standard input")
    path = caller_path(arguments, "resources")
    return parse(read(path), path)


def _standard_input() -> bytes:
    """Read all of standard input.  Raises HostError, and UsageError if it is too large."""
    pieces = []
    try:
        while piece := posix.read(0, 1 << 20):
            pieces.append(piece)
            if len(pieces) > LARGEST >> 10:
                raise UsageError(
                    f"--resources -: standard input is larger than {LARGEST >> 20} MiB",
                    "pass a LinuxResources object",
                )
    except OSError as error:
        raise HostError("read standard input", error) from None
    return b"".join(pieces)


def _from_flags(arguments: Arguments) -> dict[str, dict[str, int | str]]:
    """Convert the options for single limits to a LinuxResources object.  Raises UsageError."""
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
    """Replace the JSON path at the beginning of an error message by the option that set it."""
    for flag, (section, member) in _MEMBERS.items():
        path = f"{WHERE}.{section}.{member}"
        if failure.message.startswith(f"{path}: "):
            failure.message = f"--{flag}{failure.message[len(path) :]}"


def run_mounts(context: Context, arguments: Arguments) -> int:
    """Add mounts to a running container, or remove mounts from it; return 0."""
    action, container_id, file = arguments.positional
    if action not in ("add", "remove"):
        raise UsageError(f'mounts: unknown action "{action}"', "use add or remove")
    # Imported here to keep it out of the snapshot, which contains this module: the command is rare.
    from ociruntime.runtime.lifecycle.mounts_add_remove import change_mounts

    change_mounts(context, container_id, absolute(file), remove=action == "remove")
    return 0


COMMANDS = (
    Command(
        "ps ID [ARGUMENT]...",
        "list the processes of a container",
        run_ps,
        options=(
            Option(
                "format", "output format (default: table)", "table|json", kind="choice", short="f"
            ),
        ),
        options_end=1,
        details=(
            "The table is the output of the host's ps(1) with ARGUMENT... (default: -ef); it\n"
            "must have a PID column. The JSON is an array of PIDs on the host."
        ),
        examples=(
            ("List the processes as ps(1) does", "ociruntime ps web"),
            ("List their memory usage", "ociruntime ps web -eo pid,rss,args"),
        ),
    ),
    Command(
        "pause ID",
        "suspend all processes of a container",
        run_pause,
        details="Pausing a paused container is not an error.",
        examples=(("Suspend all processes", "ociruntime pause web"),),
    ),
    Command(
        "resume ID",
        "resume a paused container",
        run_resume,
        details="Resuming a running container is not an error.",
        examples=(("Resume them", "ociruntime resume web"),),
    ),
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
        details="Changes all limits or none, but no device rules. FILE overrides options.",
        examples=(
            ("Change the memory limit", "ociruntime update --memory 512M web"),
            (
                "Read limits as in config.json",
                'echo \'{"pids": {"limit": 100}}\' | ociruntime update -r - web',
            ),
        ),
    ),
    Command(
        "mounts add|remove ID FILE",
        "add or remove mounts of a container",
        run_mounts,
        details=(
            "FILE holds a JSON array like `mounts` in config.json. If one mount fails, none\n"
            "is added. `remove` unmounts the destinations in reverse order."
        ),
        examples=(
            ("Add the mounts in mounts.json", "ociruntime mounts add web mounts.json"),
            ("Remove them", "ociruntime mounts remove web mounts.json"),
        ),
    ),
)
