"""Options of a new container for its limits, kernel settings, devices and namespaces."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline import container_values
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.sizes import byte_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]

ISOLATION_OPTIONS = (
    Option(
        "memory-swap",
        "limit of memory and swap together, or -1",
        "SIZE",
        details="Needs --memory; -1 is unlimited swap.",
    ),
    Option(
        "memory-reservation",
        "memory that is reclaimed last",
        "SIZE",
        details="A soft limit: memory above it is reclaimed first if the host is short of it.",
    ),
    Option(
        "cpu-quota",
        "CPU time per period, in microseconds",
        "MICROSECONDS",
        kind="number",
        details="The same limit as --cpus, which is quota divided by period.",
    ),
    Option(
        "cpu-period",
        "period of --cpu-quota (default: 100000)",
        "MICROSECONDS",
        kind="number",
    ),
    Option("cpuset-cpus", "CPUs to run on: 0-2,7", "LIST"),
    Option("cpuset-mems", "memory nodes to use: 0,1", "LIST"),
    Option(
        "tmpfs",
        "mount a tmpfs",
        "DIR[:OPTION,...]",
        kind="list",
        details=(
            "Files there are in memory, and gone when the container stops. The defaults are "
            "nosuid, nodev and noexec, overridden by suid, dev and exec; size=64m and mode=1777 "
            "set size and mode. The same is --mount type=tmpfs,target=DIR,tmpfs-size=64m."
        ),
    ),
    Option(
        "ulimit",
        "set a resource limit of processes",
        "NAME=SOFT[:HARD]",
        kind="list",
        details="As in nofile=1024:4096; -1 is unlimited. NAME is one of setrlimit(2).",
    ),
    Option(
        "sysctl",
        "set a kernel parameter of the container",
        "NAME=VALUE",
        kind="list",
        details=(
            "Only what belongs to the container: net.* without --network=host, and "
            "fs.mqueue.*, kernel.msg*, kernel.sem and kernel.shm* without --ipc=host."
        ),
    ),
)


def isolation_of(arguments: Arguments) -> Spec:
    """Return the members of the request that these options set.  Raises UsageError."""
    spec: Spec = {
        member: [parse(text, f"--{option}") for text in arguments.list(option)]
        for option, (member, parse) in _PARSED.items()
    }
    spec["tmpfs"] += [tmpfs_mount(text) for text in arguments.list("mount") if is_tmpfs(text)]
    pairs = [container_values.pair(text, "--sysctl") for text in arguments.list("sysctl")]
    spec["sysctls"] = dict(pairs)
    for option in ("memory-swap", "memory-reservation"):
        if text := arguments.text(option):
            spec[option.replace("-", "_")] = byte_count(text, option)
    for option in ("cpu-quota", "cpu-period"):
        spec[option.replace("-", "_")] = arguments.number(option)
    for option in ("cpuset-cpus", "cpuset-mems"):
        spec[option.replace("-", "_")] = arguments.text(option)
    # 0 and an empty text are docker's "not set".
    return {member: value for member, value in spec.items() if value}


# Option -> member of the request, and the parser of each of its values.
_PARSED = {
    "tmpfs": ("tmpfs", container_values.tmpfs),
    "ulimit": ("ulimits", container_values.ulimit),
}
# Key of --mount type=tmpfs -> option of the tmpfs that its value belongs to.
_TMPFS_KEYS = {"tmpfs-size": "size", "tmpfs-mode": "mode"}


def is_tmpfs(text: str) -> bool:
    """Return whether a ``--mount`` is one of a tmpfs."""
    return "type=tmpfs" in text.split(",")


def tmpfs_mount(text: str) -> dict[str, Any]:
    """Parse a mount like ``type=tmpfs,target=/run,tmpfs-size=64m``.  Raises UsageError."""
    target, options = "", []
    for word in text.split(","):
        key, equals, value = word.partition("=")
        if key in _TMPFS_KEYS and equals:
            options.append(f"{_TMPFS_KEYS[key]}={value}")
        elif key in ("ro", "readonly"):
            options += ["ro"] if not equals or value in ("true", "1") else []
        elif key in ("target", "dst", "destination"):
            target = value
        elif key != "type":
            known = ", ".join(("target", "readonly", *_TMPFS_KEYS))
            raise UsageError(f'--mount: unknown key of a tmpfs "{key}"', known)
    if not target:
        raise UsageError(f'--mount: target is missing in "{text}"')
    return {**container_values.tmpfs(target, "--mount"), "options": options}
