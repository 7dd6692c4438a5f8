"""A process and its descendants, found in /proc: for a container without a cgroup."""

from __future__ import annotations

import posix

from ociruntime.base.files import read_file


def descendants(pid: int, *, with_namespace: bool) -> list[int]:
    """Return ``pid`` and its descendants in ascending order, without zombies.

    ``with_namespace``: include processes in its pid namespace, which `exec` has started, and their
    descendants.
    """
    children: dict[int, list[int]] = {}
    pending = [pid]
    namespace = _namespace(pid) if with_namespace else ""
    for name in posix.listdir("/proc"):
        if name.isdigit():
            state, parent = _stat(int(name))
            if state not in "ZX":
                children.setdefault(parent, []).append(int(name))
                if namespace and _namespace(int(name)) == namespace:
                    pending.append(int(name))
    found: set[int] = set()
    while pending:
        each = pending.pop()
        if each not in found:
            found.add(each)
            pending += children.get(each, [])
    return sorted(found)


def _stat(pid: int) -> tuple[str, int]:
    """Return a process's state and parent (proc_pid_stat(5)); the state is ``X`` if it is gone."""
    try:
        text = read_file(f"/proc/{pid}/stat")
    except OSError:
        return "X", 0
    fields = text[text.rfind(b")") + 2 :].split()
    return fields[0].decode(), int(fields[1])


def _namespace(pid: int) -> str:
    try:
        return posix.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
