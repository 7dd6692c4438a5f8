"""A container's processes and resource usage, from its cgroups and /proc."""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base.files import read_file
from ociruntime.pods.store import pod_cgroup

_NANOSECONDS = 1_000_000_000
_MICROSECONDS = 1_000_000
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_LONGEST_COMMAND = 4096  # bytes; the process may set its argument area to gigabytes
_NO_LIMIT = 1 << 60  # v1 writes a number near 2^63


def usage(uuid: str, app: str) -> dict[str, Any]:
    """Return ``{"cpu_seconds", "memory", "memory_limit", "pids", "pids_limit"}``.

    Memory is in bytes; None means unknown or unlimited.
    """
    files = _files(uuid, app)
    cpu = _scaled(files.get("cpuacct.usage"), _NANOSECONDS)
    if cpu is None:
        cpu = _scaled(_of_table(files.get("cpu.stat"), "usage_usec"), _MICROSECONDS)
    memory = _number(files.get("memory.usage_in_bytes") or files.get("memory.current"))
    limit = _number(files.get("memory.limit_in_bytes") or files.get("memory.max"))
    return {
        "cpu_seconds": cpu,
        "memory": memory,
        "memory_limit": None if limit is None or limit >= _NO_LIMIT else limit,
        "pids": _number(files.get("pids.current")),
        "pids_limit": _number(files.get("pids.max")),
    }


_READ = (
    *("cpuacct.usage", "cpu.stat", "memory.usage_in_bytes", "memory.current"),
    *("memory.limit_in_bytes", "memory.max", "pids.current", "pids.max"),
)


def _files(uuid: str, app: str) -> dict[str, str]:
    """Return the contents of the control files that exist, by name, from all hierarchies."""
    files = {}
    for directory in _directories(uuid, app):
        for name in _READ:
            try:
                files[name] = read_file(f"{directory}/{name}").decode().strip()
            except OSError:
                continue
    return files


def _directories(uuid: str, app: str) -> list[str]:
    pods = pod_cgroup.directories(pod_cgroup.hierarchies(), f"ocipod-{uuid}")
    return [f"{directory}/{app}" for directory in pods]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _scaled(text: str | None, unit: int) -> float | None:
    number = _number(text)
    return None if number is None else number / unit


def _of_table(text: str | None, key: str) -> str | None:
    for line in (text or "").splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return value
    return None


def processes(uuid: str, app: str) -> list[dict[str, Any]]:
    """Return ``{"pid", "ppid", "user", "cpu_seconds", "memory", "command"}`` of each process.

    They are sorted by pid; PIDs and UIDs are those of the host's namespaces.
    """
    all_processes = (_process(pid) for pid in pod_cgroup.processes(_directories(uuid, app)))
    return [one for one in all_processes if one is not None]


def _process(pid: int) -> dict[str, Any] | None:
    """Read one process from /proc, see proc(5); None if it has exited meanwhile."""
    try:
        stat = read_file(f"/proc/{pid}/stat")
        argv = _command_line(pid)
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    # The name, in parentheses, may itself contain spaces and parentheses.
    name, _, rest = stat.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
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
    """Return the beginning of a process's arguments, joined by spaces.  Raises OSError."""
    fd = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _LONGEST_COMMAND).replace(b"\0", b" ").strip()
    finally:
        os.close(fd)
