"""Find pods, and move them from phase to phase; ``pod.py`` describes the phases.

Each move is a single rename: after a crash a pod is in exactly one phase, and of several concurrent
processes only one succeeds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator

from ociruntime.base.errors import HostError, NoSuchPod, PodError
from ociruntime.base.fault_injection import fault
from ociruntime.base.files import exists
from ociruntime.pods.store.lock import is_locked, make_directories, open_directory
from ociruntime.pods.store.manifest_file import sync_files
from ociruntime.pods.store.pod import (
    EMBRYO,
    EXITED_GARBAGE,
    GARBAGE,
    GONE,
    PHASES,
    PREPARE,
    PREPARED,
    RUN,
    STATES,
    Pod,
    phase_path,
)
from ociruntime.pods.store.remove_tree import discard

__all__ = (
    "Pod",
    "adopt",
    "each_pod",
    "find",
    "is_uuid",
    "list_pods",
    "lock_exited",
    "lock_within",
    "mark_aborted",
    "mark_exited",
    "names",
    "new_pod",
    "new_uuid",
    "open_in",
    "open_pod",
    "require_prepared",
    "to_prepared",
    "to_run",
)

TIMEOUT = 1.0  # seconds to wait for a lock that another process holds briefly, in ``is_locked``

# Phases whose pods users can name by a prefix of the UUID; embryos and garbage are internal.
_NAMED = (PREPARE, PREPARED, RUN, EXITED_GARBAGE)
_UUID_LENGTH = 36
_POLL_INTERVAL = 0.01  # seconds
_TRIES = 3


def open_in(directory: str, phase: str, uuid: str) -> Pod | None:
    """Open the pod ``uuid`` if it is in ``phase``; otherwise return None.

    Does not check whether the pod is locked; so the pod's ``state`` is "".  Raises HostError if the
    pod's directory cannot be opened.
    """
    try:
        fd = open_directory(phase_path(directory, phase, uuid))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f"open pod {uuid}", error) from None
    return Pod(directory, uuid, phase, fd)


def find(directory: str, uuid: str) -> Pod | None:
    """Open the pod with the full ``uuid``, in any phase, or return None if it does not exist.

    Determines the pod's state.  Raises HostError if the pod cannot be opened.
    """
    for phase in PHASES:
        pod = open_in(directory, phase, uuid)
        if pod is None:
            continue
        try:
            if pod.refresh() != GONE:
                return pod
        except BaseException:
            pod.close()
            raise
        pod.close()
        return None
    return None


def adopt(directory: str, uuid: str, lock_fd: int) -> Pod:
    """Return the running pod ``uuid``, whose lock this process has inherited.

    ``lock_fd`` is a descriptor of the pod's directory, inherited from the process that locked the
    pod; it holds the lock.
    """
    os.set_inheritable(lock_fd, False)
    pod = Pod(directory, uuid, RUN, lock_fd)
    pod.lock = lock_fd
    pod.state = STATES[RUN][0]
    return pod


def open_pod(directory: str, uuid: str) -> Pod:
    """Open the pod with the given UUID or unique prefix of a UUID, and determine its state.

    Raises NoSuchPod if no pod or several pods match, HostError if the pod cannot be opened.
    """
    text = uuid.lower()
    if not is_uuid(text):
        text = _only_match(directory, text, uuid)
    pod = find(directory, text)
    if pod is None:
        raise NoSuchPod(f"pod {text} not found", "list the pods with: ocipod list")
    return pod


def _only_match(directory: str, prefix: str, argument: str) -> str:
    if not prefix or prefix.strip("0123456789abcdef-") or len(prefix) > _UUID_LENGTH:
        raise NoSuchPod(
            f'find pod "{argument}": neither a UUID nor a prefix of one',
            "use hexadecimal digits and dashes",
        )
    matches = [name for name in names(directory, _NAMED, []) if name.startswith(prefix)]
    if not matches:
        raise NoSuchPod(
            f'no pod with UUID prefix "{argument}" found', "list the pods with: ocipod list"
        )
    if len(matches) > 1:
        raise NoSuchPod(
            f'UUID prefix "{argument}" is ambiguous: {len(matches)} pods match',
            "use more characters",
        )
    return matches[0]


def is_uuid(text: str) -> bool:
    """Return whether ``text`` has the form of a UUID: 8-4-4-4-12 lower-case hexadecimal digits."""
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and not text.strip("0123456789abcdef-")


def names(directory: str, phases: Collection[str], problems: list[str]) -> list[str]:
    """Return the sorted UUIDs of the pods in ``phases``.

    Appends a message to ``problems`` for each file in the phases' directories whose name is not a
    UUID.  Raises HostError if a directory cannot be listed.
    """
    uuids: set[str] = set()
    for phase in PHASES:
        if phase not in phases:
            continue
        path = phase_path(directory, phase)
        try:
            entries = os.listdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f'list the directory "{path}"', error) from None
        for entry in entries:
            if is_uuid(entry):
                uuids.add(entry)
            else:
                problems.append(f'"{path}/{entry}" is not a pod: its name is not a UUID')
    return sorted(uuids)


def each_pod(
    directory: str, phases: Collection[str] = PHASES, problems: list[str] | None = None
) -> Iterator[Pod]:
    """Open each pod in ``phases``, determine its state, and yield it; the caller closes it.

    Skips pods that another process removes, or moves to a phase that is not in ``phases``.  Appends
    a message to ``problems`` for each pod that cannot be opened and for each file that is not a
    pod.  Raises HostError if a directory cannot be listed.
    """
    problems = problems if problems is not None else []
    for uuid in names(directory, phases, problems):
        try:
            pod = find(directory, uuid)
        except HostError as error:
            problems.append(str(error))
            continue
        if pod is None:
            problems += [
                f'"{path}" is not a pod: not a directory'
                for path in _existing_paths(directory, phases, uuid)
            ]
        elif pod.phase in phases:
            yield pod
        else:
            pod.close()


def _existing_paths(directory: str, phases: Collection[str], uuid: str) -> list[str]:
    paths = [phase_path(directory, phase, uuid) for phase in phases]
    return [path for path in paths if exists(path)]


def list_pods(directory: str, states: Collection[str] | None = None) -> tuple[list[Pod], list[str]]:
    """Return (list of the pods in ``states``, list of error messages).

    The pods are open and sorted by UUID; the caller closes them.  If ``states`` is None, returns
    pods in all states.  The messages are about pods that cannot be opened and files that are not
    pods.  Raises HostError if a directory cannot be listed.
    """
    pods: list[Pod] = []
    problems: list[str] = []
    for pod in each_pod(directory, PHASES, problems):
        if states is None or pod.state in states:
            pods.append(pod)
        else:
            pod.close()
    return pods, problems


def new_pod(directory: str) -> Pod:
    """Create an empty pod in the phase prepare, locked by this process.

    Raises HostError if it cannot be created, PodError if gc repeatedly removes it before this
    process can lock it.
    """
    for _ in range(_TRIES):
        pod = _embryo(directory)
        if pod is None:
            continue
        try:
            # gc may have removed the embryo before we locked it: then retry with a new one.
            if lock_within(pod, EMBRYO):
                _write_marks(pod)
                if pod.move(PREPARE, lasting=False):
                    return pod
        except BaseException:
            if pod.lock >= 0:
                from ociruntime.pods.store.remove_tree import discard

                discard(pod)
            pod.close()
            raise
        pod.close()
    raise PodError(
        f'create a pod in "{directory}": gc removed the new pod before it was locked',
        "run ocipod gc with a longer --grace-period",
    )


def _embryo(directory: str) -> Pod | None:
    uuid = new_uuid()
    path = phase_path(directory, EMBRYO, uuid)
    try:
        make_directories(phase_path(directory, EMBRYO))
        os.mkdir(path, 0o750)
        fault("newpod.after-mkdir")
    except OSError as error:
        raise HostError(f'create the pod\'s directory "{path}"', error) from None
    return open_in(directory, EMBRYO, uuid)


def _write_marks(pod: Pod) -> None:
    try:
        for name in ("pod.lck", "pod-created"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o600, dir_fd=pod.fd))
    except OSError as error:
        raise HostError(f"create the lock file of pod {pod.uuid}", error) from None


def new_uuid() -> str:
    """Return a random UUID (RFC 9562, version 4)."""
    data = bytearray(os.urandom(16))
    data[6] = data[6] & 0x0F | 0x40
    data[8] = data[8] & 0x3F | 0x80
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def to_prepared(pod: Pod) -> None:
    """Sync the pod's files to disk, move it to the phase prepared, and release its lock.

    Raises HostError if a step fails, PodError if another process has removed the pod.
    """
    from ociruntime._system_calls import lib

    result = lib.oci_syncfs(pod.fd)
    if result < 0:
        raise HostError(f"sync the files of pod {pod.uuid}", OSError(-result, os.strerror(-result)))
    # Move before unlocking: an unlocked pod in the phase prepare counts as aborted.
    if not pod.move(PREPARED):
        raise PodError(f"move pod {pod.uuid} to the phase prepared: another process has removed it")
    pod.release()


def to_run(pod: Pod) -> None:
    """Move the pod to the phase run, and hold its lock.

    The pod must be in the phase prepare and locked by this process, or in the phase prepared.
    For a prepared pod, waits up to a second for the lock.  Raises PodError if the pod is in another
    phase or another process has locked it, HostError if it cannot be locked or moved.
    """
    if pod.lock >= 0:
        sync_files(pod)
        # The move need not be durable: after a power failure, a pod in either phase counts as
        # ended.  The move from prepared, below, must be: otherwise the pod could appear prepared
        # although it has run.
        if not pod.move(RUN, lasting=False):
            raise PodError(f"move pod {pod.uuid} to the phase run: another process has removed it")
        return
    require_prepared(pod)
    if not lock_within(pod, PREPARED):
        if pod.refresh() == STATES[PREPARED][0]:
            raise PodError(f"run pod {pod.uuid}: it is locked by another process", "try again")
        raise _not_prepared(pod)
    try:
        fault("runprepared.after-lock")
        moved = pod.move(RUN)
    except BaseException:
        pod.release()
        raise
    if not moved:
        pod.release()
        pod.refresh()
        raise _not_prepared(pod)


def require_prepared(pod: Pod) -> None:
    """Raise PodError, with the pod's state in the message, unless the pod is in the phase prepared.

    Raises HostError if the state cannot be determined.
    """
    if pod.refresh() != STATES[PREPARED][0]:
        raise _not_prepared(pod)


def _not_prepared(pod: Pod) -> PodError:
    return PodError(f'run pod {pod.uuid}: its state is "{pod.state}", not "prepared"')


def lock_within(pod: Pod, phase: str, timeout: float = TIMEOUT) -> bool:
    """Lock the pod if it is in ``phase``; return whether this process holds the lock now.

    If another process holds the lock, wait up to ``timeout`` seconds: that process may only be
    checking whether the pod is locked.  Raises HostError if flock(2) fails.
    """
    deadline = time.monotonic() + timeout
    # Check the phase before locking, too: in a later phase, our lock would change the pod's state.
    while pod.is_in(phase):
        if pod.try_lock():
            if pod.is_in(phase):
                return True
            pod.release()
            return False
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_INTERVAL)
    return False


def mark_exited(pod: Pod) -> bool:
    """Move an exited pod from the phase run to exited-garbage; return whether it was moved.

    Running pods, and pods that another process has moved, are left alone.  Raises HostError if the
    rename fails, PodError if the phase exited-garbage has a pod with the same UUID.
    """
    # Check the lock first: waiting for the lock of a running pod would take a second.
    if pod.phase != RUN or (pod.state != STATES[RUN][1] and is_locked(pod.fd)):
        return False
    # Hold the lock, so that ``lock_exited`` cannot take it between our check and the move.
    if not lock_within(pod, RUN):
        return False
    try:
        return pod.move(EXITED_GARBAGE)
    finally:
        pod.release()


def lock_exited(pod: Pod) -> None:
    """Lock an exited pod, so that it can be run again; the lock changes its state to running.

    Raises PodError if the pod has not exited or another process has locked it, HostError if it
    cannot be locked.
    """
    exited = STATES[RUN][1]
    if pod.refresh() == exited and lock_within(pod, RUN):
        return
    if pod.refresh() == exited:
        raise PodError(f"run pod {pod.uuid} again: it is locked by another process", "try again")
    raise PodError(f'run pod {pod.uuid} again: its state is "{pod.state}", not "exited"')


def mark_aborted(pod: Pod) -> bool:
    """Move a pod whose creation was aborted from the phase prepare to garbage.

    Returns whether it was moved.  Locked pods, which are still being created, and pods that another
    process has moved, are left alone.  Raises HostError if the rename fails, PodError if the phase
    garbage has a pod with the same UUID.
    """
    return pod.phase == PREPARE and not is_locked(pod.fd) and pod.move(GARBAGE)


PARTS = ("apps", "logs", "volumes")


def make_pod(directory: str, fill: Callable[[Pod], None]) -> Pod:
    """Create a pod and call ``fill`` to write its files; return it, locked by this process.

    The pod is in the phase prepare.  If ``fill`` raises an exception, the pod is removed and the
    exception is raised again; an OSError becomes a HostError.  Raises HostError if the pod's
    directory cannot be created, PodError if gc repeatedly removes it before this process can lock
    it.
    """
    pod = new_pod(directory)
    try:
        for part in PARTS:
            os.mkdir(f"{pod.path()}/{part}", 0o750)
        fill(pod)
    except BaseException as error:
        discard(pod)
        if isinstance(error, OSError):
            raise HostError(f"prepare pod {pod.uuid}", error) from error
        raise
    return pod
