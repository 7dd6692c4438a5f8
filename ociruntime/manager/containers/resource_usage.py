"""A container's processes and resource usage, from its cgroups and /proc."""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base.files import read_file, whole_number
from ociruntime.pods.store import pod_cgroup

_NANOSECONDS = 1_000_000_000
_MICROSECONDS = 1_000_000
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_LONGEST_COMMAND = 4096  # bytes; the process may set its argument area to gigabytes
_NO_LIMIT = 1 << 60  # without a limit, cgroup v1 shows a number near 2^63


def usage(uuid: str, app: str, pid: int = 0) -> dict[str, Any]:
    """Return the resource usage of an app in the pod ``uuid``.

    The keys are ``cpu_seconds``, ``memory``, ``memory_limit``, ``pids``, ``pids_limit``,
    ``network_received``, ``network_sent``, ``block_read`` and ``block_written``.  Memory and
    traffic are in bytes; None means unknown or unlimited.  ``pid`` is the PID of the container's
    init, 0 if the container is not running.  Network traffic is counted in the network namespace
    of ``pid``; the traffic is unknown if that is the host's network namespace.
    """
    files = _files(uuid, app)
    cpu = _scaled(files.get("cpuacct.usage"), _NANOSECONDS)
    if cpu is None:
        cpu = _scaled(_of_table(files.get("cpu.stat"), "usage_usec"), _MICROSECONDS)
    memory = whole_number(files.get("memory.usage_in_bytes") or files.get("memory.current", ""))
    limit = whole_number(files.get("memory.limit_in_bytes") or files.get("memory.max", ""))
    received, sent = _network(pid)
    read, written = _blocks(files)
    return {
        "cpu_seconds": cpu,
        "memory": memory,
        "memory_limit": None if limit is None or limit >= _NO_LIMIT else limit,
        "pids": whole_number(files.get("pids.current", "")),
        "pids_limit": whole_number(files.get("pids.max", "")),
        "network_received": received,
        "network_sent": sent,
        "block_read": read,
        "block_written": written,
    }


def _network(pid: int) -> tuple[int | None, int | None]:
    """Return (bytes received, bytes sent) in the network namespace of ``pid``.

    Leaves out the loopback interface.  Returns (None, None) if ``pid`` is 0 or in the host's
    network namespace, or if the counters cannot be read.
    """
    try:
        if not pid or os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
            return None, None
        table = read_file(f"/proc/{pid}/net/dev").decode(errors="replace")
    except OSError:
        return None, None
    received = sent = 0
    # Not splitlines() and strip(): they also split at characters that a container may use in the
    # name of an interface.
    for line in table.split("\n")[2:]:
        name, _, counters = line.partition(":")
        fields = counters.split()
        if name.strip(" ") != "lo" and len(fields) > 8:
            received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent


# The cgroup v1 files, the recursive file first, and the v2 file.
_BLOCK_FILES = (
    "blkio.throttle.io_service_bytes_recursive",
    "blkio.throttle.io_service_bytes",
    "io.stat",
)


def _blocks(files: dict[str, str]) -> tuple[int | None, int | None]:
    """Return (bytes read, bytes written) on block devices; (None, None) if unknown.

    ``files`` is the result of ``_files``.
    """
    table = next((files[name] for name in _BLOCK_FILES if name in files), None)
    if table is None:
        return None, None
    counts = {"read": 0, "write": 0, "rbytes": 0, "wbytes": 0}
    for line in table.splitlines():
        fields = line.split()
        if len(fields) == 3 and whole_number(fields[2]) is not None:  # v1: 8:0 Read 4096
            fields = [fields[0], f"{fields[1].lower()}={fields[2]}"]
        for word in fields[1:]:  # v2: 8:0 rbytes=4096 wbytes=0 ...
            name, _, number = word.partition("=")
            if name in counts:
                counts[name] += whole_number(number) or 0
    return counts["read"] + counts["rbytes"], counts["write"] + counts["wbytes"]


_READ = (
    *("cpuacct.usage", "cpu.stat", "memory.usage_in_bytes", "memory.current"),
    *("memory.limit_in_bytes", "memory.max", "pids.current", "pids.max"),
    *_BLOCK_FILES,
)


def _files(uuid: str, app: str) -> dict[str, str]:
    """Read the app's cgroup control files in all hierarchies; return ``{name: contents}``."""
    files = {}
    for directory in _directories(uuid, app):
        for name in _READ:
            try:
                files[name] = read_file(f"{directory}/{name}").decode(errors="replace").strip()
            except OSError:
                continue
    return files


def _directories(uuid: str, app: str) -> list[str]:
    pods = pod_cgroup.directories(pod_cgroup.hierarchies(), f"ocipod-{uuid}")
    return [f"{directory}/{app}" for directory in pods]


def _scaled(text: str | None, unit: int) -> float | None:
    number = whole_number(text or "")
    return None if number is None else number / unit


def _of_table(text: str | None, key: str) -> str | None:
    for line in (text or "").splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return value
    return None


def processes(uuid: str, app: str) -> list[dict[str, Any]]:
    """Return the processes of an app, sorted by PID.

    A process is ``{"pid", "ppid", "user", "cpu_seconds", "memory", "command"}``.  PIDs are those in
    the host's PID namespace.  ``user`` is the UID on the host as a string, ``memory`` the resident
    set size in bytes.
    """
    all_processes = (_process(pid) for pid in pod_cgroup.processes(_directories(uuid, app)))
    return [process for process in all_processes if process is not None]


def _process(pid: int) -> dict[str, Any] | None:
    """Return a process as ``processes`` describes it, read from proc(5); None if it is gone."""
    try:
        stat = read_file(f"/proc/{pid}/stat")
        argv = _command_line(pid)
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    # The name, in parentheses, may itself contain spaces and parentheses.
    name, _, numbers = stat.partition(b"(")[2].rpartition(b")")
    fields = numbers.split()
    command = argv or b"[" + name + b"]"
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "user": str(uid),
        "cpu_seconds": (int(fields[11]) + int(fields[12])) / _TICKS,
        "memory": int(fields[21]) * _PAGE,
        "command": command.decode(errors="replace"),
    }


def _command_line(pid: int) -> bytes:
    """Return a process's arguments, joined by spaces, up to 4096 bytes.

    Raises OSError if the process does not exist.
    """
    fd = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _LONGEST_COMMAND).replace(b"\0", b" ").strip()
    finally:
        os.close(fd)
