"""Delete a dead pod's containers that its OCI runtime still has in its state directory.

    /run/ocipod/RUNTIME    the ``--root`` of the runtime with that program name, for all pods

However a runtime names a container's entry, the name contains its id, which starts with the UUID.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, PodError, reason
from ociruntime.base.trusted import check_directory
from ociruntime.pods.bundle.runtime_calls import STATE_ROOT, find_runtime
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.removal import remove_tree

_DELETE_SECONDS = 30


def delete_containers(uuid: str, runtime: str) -> list[str]:
    """Delete the pod's containers, each with the runtime that made it; return the problems.

    ``runtime`` is the name or path of the pod's own; others are only known by name.
    """
    problems = []
    for place in _entries(STATE_ROOT):
        root = f"{STATE_ROOT}/{place}"
        try:
            check_directory(root, "state directory of the runtime")
        except HostError as failure:
            problems.append(str(failure))
            continue
        entries = [name for name in _entries(root) if uuid in name]
        if entries:
            own = runtime.rpartition("/")[2] == place
            problems += _delete(root, uuid, entries, runtime if own else place)
            problems += _remove(root, entries)
    return problems


def _entries(path: str) -> list[str]:
    try:
        return sorted(posix.listdir(path))
    except OSError:
        return []  # nothing has run since the host was booted


def _delete(root: str, uuid: str, entries: list[str], runtime: str) -> list[str]:
    problems = []
    try:
        program = find_runtime(runtime)
        for container in sorted({name[name.index(uuid) :] for name in entries}):
            if problem := _delete_container(program, root, container):
                problems.append(f"delete container {container}: {problem}")
    except PodError as failure:
        problems.append(str(failure))
    return problems


def _delete_container(program: str, root: str, container: str) -> str:
    """Run the runtime's ``delete``; return "" or what went wrong."""
    import subprocess

    try:
        done = subprocess.run(
            [program, "--root", root, "delete", "--force", container],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=_DELETE_SECONDS,
        )
    except OSError as error:
        return f"{program}: {reason(error)}"
    except subprocess.TimeoutExpired:
        return f"{program} has not finished after {_DELETE_SECONDS} s"
    if done.returncode == 0:
        return ""
    return " ".join(done.stderr.decode(errors="replace").split()) or f"status {done.returncode}"


def _remove(root: str, entries: list[str]) -> list[str]:
    """Remove entries that the runtime has left behind; return the problems."""
    try:
        fd = open_directory(root)
        try:
            for name in entries:
                remove_tree(fd, name)
        finally:
            posix.close(fd)
    except OSError as error:
        return [f"remove what is left in {root}: {reason(error)}"]
    return []
