"""Clean up after an exited pod: remove its containers, cgroups, mounts, networks and directory.

Each step can be repeated, and succeeds if there is nothing to remove: after a reboot only the
directory exists, and a failed attempt may have left some of the state behind.
"""

from __future__ import annotations

import os
import time
from typing import Any

from ociruntime.base.errors import HostError, PodError, reason
from ociruntime.base.fault_injection import fault
from ociruntime.base.files import sync_directory
from ociruntime.base.mountinfo import OWN, own_mountinfo, parse_mountinfo
from ociruntime.base.process import SIGKILL, open_process, send_signal, start_time
from ociruntime.base.trusted_directories import check_directory
from ociruntime.pods.bundle.runtime_calls import STATE_ROOT, find_runtime
from ociruntime.pods.store import pod_cgroup
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.manifest_file import MANIFEST, RUNTIME_CONFIG, read_object
from ociruntime.pods.store.pod import Pod, phase_path
from ociruntime.pods.store.remove_tree import remove_tree

NET_INFO = "net-info.json"
NOT_CLEAN = "not-clean"  # exists once an attempt has failed

# Remove these last, in this order: an attempt that is repeated after a crash needs them.
_LAST = (NET_INFO, RUNTIME_CONFIG, MANIFEST)


def clean_up(pod: Pod) -> list[str]:
    """Remove the containers, cgroups, mounts and networks of an exited pod.

    The caller holds the pod's lock.  If this function returns, the pod's directory may be removed.
    Returns messages about errors that do not prevent the removal.  Raises PodError if the directory
    must not be removed yet: it contains mounts, killed processes have not exited, or containers or
    networks remain after the first attempt.  Raises HostError if the pod's state cannot be read,
    or if the failed attempt cannot be recorded.
    """
    problems = delete_containers(pod.uuid, _runtime(pod))
    remaining = remove_cgroups(pod_cgroup.directories(_hierarchies(), f"ocipod-{pod.uuid}"))
    if remaining:
        raise PodError(f'remove the cgroup "{remaining[0]}": killed processes have not exited')
    _unmount_below(pod.path())
    remains = bool(problems) and _has_containers(pod.uuid)
    network_problems = _leave_networks(pod)
    problems += network_problems
    if (remains or network_problems) and _mark_attempt(pod):
        # Keep the directory, which records what remains, for one more attempt.  Do not keep it for
        # ever: a plugin that has been uninstalled would never succeed.
        raise PodError(problems[0], "try again; the second attempt removes the pod in any case")
    return problems


def _mark_attempt(pod: Pod) -> bool:
    """Record that the cleanup has failed; return False if an earlier attempt failed, too."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(NOT_CLEAN, flags, 0o600, dir_fd=pod.fd))
    except FileExistsError:
        return False
    except OSError as error:
        action = (
            f'record the failed cleanup of pod {pod.uuid}: create "{NOT_CLEAN}" in its directory'
        )
        raise HostError(action, error) from None
    return True


def forget_run(pod: Pod) -> list[str]:
    """Remove what a sandbox's last run has left on the host, so that the sandbox can run again.

    The caller holds the pod's lock.  Returns messages about errors that do not prevent the next
    run.  Raises PodError or HostError for errors that prevent it.
    """
    ended = read_object(pod, "exit") or {}
    problems = [] if ended.get("clean") else clean_up(pod)
    try:
        # Remove ``exit`` last: it records whether cleanup has to be repeated after a kill.  Remove
        # ``monitor.json`` before it: after a reboot its pid may be that of another process.
        for name in (
            "ready",
            "ctl",
            NET_INFO,
            NOT_CLEAN,
            *_state_files(pod),
            "monitor.json",
            "exit",
        ):
            remove_tree(pod.fd, name)
    except OSError as error:
        raise HostError(f"remove the state of the last run of pod {pod.uuid}", error) from None
    return problems


def _state_files(pod: Pod) -> list[str]:
    return [f"apps/{name}/state.json" for name in os.listdir(f"/proc/self/fd/{pod.fd}/apps")]


def remove(pod: Pod) -> None:
    """Remove the pod's directory: root filesystems first, the manifest last.

    The caller must have called ``clean_up``.  Raises PodError if a file cannot be removed.
    """
    directory = f"/proc/self/fd/{pod.fd}"
    try:
        first = [name for name in os.listdir(directory) if name not in _LAST]
        for name in sorted(first, key=lambda name: name != "apps"):
            remove_tree(pod.fd, name)
        fault("gc.sweep.before-manifest")
        for name in _LAST:
            remove_tree(pod.fd, name)
        os.rmdir(pod.path())
        sync_directory(phase_path(pod.directory, pod.phase))
    except OSError as error:
        raise PodError(f'remove "{_path_in(error, pod)}": {reason(error)}') from None


def _path_in(error: OSError, pod: Pod) -> str:
    if not error.filename:
        return pod.path()
    name = error.filename
    if str(name).startswith("/proc/self/fd/"):
        return pod.path()
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def _runtime(pod: Pod) -> str:
    try:
        config: dict[str, Any] = read_object(pod, RUNTIME_CONFIG) or {}
    except (PodError, HostError):
        config = {}
    return str(config.get("runtime") or "ociruntime")


def _hierarchies() -> list[str]:
    try:
        return pod_cgroup.hierarchies()
    except OSError as error:
        raise HostError(f'read "{OWN}"', error) from None


def mountinfo() -> str:
    """Return the text of /proc/self/mountinfo; raise HostError if it cannot be read."""
    try:
        return own_mountinfo()
    except OSError as error:
        raise HostError(f'read "{OWN}"', error) from None


def _unmount_below(path: str) -> None:
    """Unmount all mounts at and below ``path``.

    Raises PodError if something is still mounted afterwards, HostError if the mounts cannot be
    listed.
    """
    from ociruntime._system_calls import ffi, lib

    for target in mounts_below(path, mountinfo()):
        lib.oci_detach_mount(ffi.new("char[]", target.encode("utf-8", "surrogateescape")))
    remaining = mounts_below(path, mountinfo())
    if remaining:
        hint = f"unmount it with: umount {remaining[0]}"
        raise PodError(f'unmount "{remaining[0]}": it is still mounted', hint)


def mounts_below(path: str, mountinfo: str) -> list[str]:
    """Return the mount points at and below ``path``, the last mounted first.

    ``mountinfo`` is the text of /proc/PID/mountinfo.
    """
    targets = [mount.target for mount in parse_mountinfo(mountinfo)]
    return [each for each in targets if f"{each}/".startswith(f"{path}/")][::-1]


def _leave_networks(pod: Pod) -> list[str]:
    try:
        info = read_object(pod, NET_INFO)
    except (PodError, HostError) as failure:
        return [str(failure)]
    if info is None:
        return []
    from ociruntime.pods.net.connect_pod import tear_down

    return [
        f"disconnect pod {pod.uuid} from its networks: {problem}" for problem in tear_down(info)
    ]


# Remove a dead pod's cgroups, ``/ocipod-UUID`` in every hierarchy, with all processes in them.
#
# The caller holds the pod's lock: its monitor has exited, and the processes are orphans.

_TIMEOUT = 5.0  # seconds for killed processes to disappear
_PAUSE = 0.01


def remove_cgroups(paths: list[str]) -> list[str]:
    """Kill all processes in the cgroups at ``paths``, and remove the cgroups.

    Returns the paths of the cgroups that could not be removed within 5 seconds.
    """
    deadline = time.monotonic() + _TIMEOUT
    left = pod_cgroup.remove(paths)
    while left and time.monotonic() < deadline:
        _kill(paths, left)
        time.sleep(_PAUSE)
        left = pod_cgroup.remove(paths)
    return left


def _kill(paths: list[str], left: list[str]) -> None:
    """Send SIGKILL once to all processes in cgroups; the caller repeats this for new processes.

    ``paths`` are the pod's cgroups.  With cgroup v2, each of them is killed as a whole.  ``left``
    are the cgroups at or below ``paths`` that still exist; their processes are also killed one by
    one.
    """
    for path in paths:
        _write(f"{path}/cgroup.kill", b"1")
    for path in left:
        _write(f"{path}/freezer.state", b"THAWED")
    for pid in pod_cgroup.processes(left):
        started = start_time(pid)
        fd = open_process(pid, started)
        if fd < 0:
            continue
        try:
            # Check again with the pidfd open: before, another process could have got the pid.
            if pid in pod_cgroup.processes(left):
                send_signal(fd, SIGKILL, pid)
        finally:
            os.close(fd)


def _write(path: str, data: bytes) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, data)
    except OSError:
        pass
    finally:
        os.close(fd)


# Delete a dead pod's containers that its OCI runtime still has in its state directory.
#
#     /run/ocipod/RUNTIME    the ``--root`` of the runtime with that program name, for all pods
#
# The name of a container's entry begins with its id, UUID-APP.  If a command of ociruntime was
# killed, a prefix precedes the id (``state_directory.py``).  A UUID elsewhere in a name means
# nothing: an app may have the UUID of another pod as its name.

_DELETE_SECONDS = 30
_PREFIXES = (".creating-", ".deleting-")


def delete_containers(uuid: str, runtime: str) -> list[str]:
    """Delete the containers of the pod ``uuid``, each with the OCI runtime that created it.

    ``runtime`` is the name or path of the runtime in the pod's configuration.  A container that
    another runtime created is in the state root of that runtime.  Each state root has the name of
    its runtime, and the runtime is looked up by this name.  Returns error messages.  Raises
    HostError if a state root cannot be read.
    """
    problems = []
    for name in _entries(STATE_ROOT):
        root = f"{STATE_ROOT}/{name}"
        try:
            check_directory(root, "state directory of the runtime")
        except HostError as failure:
            problems.append(str(failure))
            continue
        entries = [each for each in _entries(root) if _id_in(each).startswith(f"{uuid}-")]
        if entries:
            own = runtime.rpartition("/")[2] == name
            problems += _delete(root, entries, runtime if own else name)
            problems += _remove(root, entries)
    return problems


def _has_containers(uuid: str) -> bool:
    """Return whether state of the pod's containers exists; True if this cannot be determined."""
    try:
        return any(
            _id_in(entry).startswith(f"{uuid}-")
            for name in _entries(STATE_ROOT)
            for entry in _entries(f"{STATE_ROOT}/{name}")
        )
    except HostError:
        return True


def _entries(path: str) -> list[str]:
    """Return the sorted names in the directory ``path``; [] if the directory is missing.

    Raises HostError if the directory cannot be read.
    """
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []  # nothing has run since the host was booted
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None


def _id_in(entry: str) -> str:
    """Return the container id in ``entry``, the name of a container's state directory.

    The name is the id, with the prefix ``.creating-`` or ``.deleting-`` if ``create`` or ``delete``
    was interrupted.
    """
    for prefix in _PREFIXES:
        entry = entry.removeprefix(prefix)
    return entry


def _delete(root: str, entries: list[str], runtime: str) -> list[str]:
    problems = []
    try:
        program = find_runtime(runtime)
        for container in sorted(set(map(_id_in, entries))):
            if problem := _delete_container(program, root, container):
                problems.append(f'delete container "{container}": {problem}')
    except PodError as failure:
        problems.append(str(failure))
    return problems


def _delete_container(program: str, root: str, container: str) -> str:
    """Run ``delete --force`` of the OCI runtime ``program`` for ``container``.

    ``root`` is the runtime's state root.  Returns the error message, or "" on success.
    """
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
        return f'execute "{program}": {reason(error)}'
    except subprocess.TimeoutExpired:
        return f'"{program} delete": timeout after {_DELETE_SECONDS} s'
    if done.returncode == 0:
        return ""
    return (
        " ".join(done.stderr.decode(errors="replace").split()) or f"exit status {done.returncode}"
    )


def _remove(root: str, entries: list[str]) -> list[str]:
    """Remove the state directories ``entries`` that the runtime has left in ``root``.

    Returns error messages.
    """
    try:
        fd = open_directory(root)
        try:
            for name in entries:
                remove_tree(fd, name)
        finally:
            os.close(fd)
    except OSError as error:
        return [f'remove stale state in "{root}": {reason(error)}']
    return []
