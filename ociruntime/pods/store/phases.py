"""Find pods, and move them from phase to phase; ``pod.py`` has the table of phases.

Each move is a single rename, so that after a crash a pod is in exactly one phase, and only one of
several concurrent processes succeeds.
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

TIMEOUT = 1.0  # seconds to wait for an observer's momentary lock

# Phases whose pods can be abbreviated: embryos have no name yet, garbage no longer has one.
_NAMED = (PREPARE, PREPARED, RUN, EXITED_GARBAGE)
_UUID_LENGTH = 36
_PAUSE = 0.01
_TRIES = 3


def open_in(directory: str, phase: str, uuid: str) -> Pod | None:
    """Open the pod if it is in that phase, without checking its lock.  Raises HostError."""
    try:
        fd = open_directory(phase_path(directory, phase, uuid))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f"open pod {uuid}", error) from None
    return Pod(directory, uuid, phase, fd)


def find(directory: str, uuid: str) -> Pod | None:
    """Open the pod with the full ``uuid`` and determine its state; None if there is none.

    Raises HostError.
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
    """Return the running pod whose lock another program has passed to us as a descriptor."""
    os.set_inheritable(lock_fd, False)
    pod = Pod(directory, uuid, RUN, lock_fd)
    pod.lock = lock_fd
    pod.state = STATES[RUN][0]
    return pod


def open_pod(directory: str, uuid: str) -> Pod:
    """Open the pod by its UUID or a unique prefix of it.  Raises NoSuchPod, HostError."""
    text = uuid.lower()
    if not is_uuid(text):
        text = _only_match(directory, text, uuid)
    pod = find(directory, text)
    if pod is None:
        raise NoSuchPod(f"pod {text} not found", "ocipod list shows all")
    return pod


def _only_match(directory: str, text: str, given: str) -> str:
    if not text or text.strip("0123456789abcdef-") or len(text) > _UUID_LENGTH:
        raise NoSuchPod(
            f'"{given}" is neither a UUID nor a prefix of one', "hexadecimal digits and dashes"
        )
    matches = [name for name in names(directory, _NAMED, []) if name.startswith(text)]
    if not matches:
        raise NoSuchPod(f'no pod with UUID prefix "{given}" found', "ocipod list shows all")
    if len(matches) > 1:
        raise NoSuchPod(
            f'UUID prefix "{given}" is ambiguous: {len(matches)} pods', "give more characters"
        )
    return matches[0]


def is_uuid(text: str) -> bool:
    """Return whether ``text`` has the form of a UUID: lower case, 8-4-4-4-12 digits."""
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and not text.strip("0123456789abcdef-")


def names(directory: str, phases: Collection[str], problems: list[str]) -> list[str]:
    """Return the sorted UUIDs of the pods in these phases; report other files in ``problems``.

    Raises HostError.
    """
    found: set[str] = set()
    for phase in PHASES:
        if phase not in phases:
            continue
        path = phase_path(directory, phase)
        try:
            entries = os.listdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f"list {path}", error) from None
        for entry in entries:
            if is_uuid(entry):
                found.add(entry)
            else:
                problems.append(f'{path}: "{entry}" is not a pod')
    return sorted(found)


def each_pod(
    directory: str, phases: Collection[str] = PHASES, problems: list[str] | None = None
) -> Iterator[Pod]:
    """Yield the pods, opened and refreshed; the caller closes them.

    Pods that vanish meanwhile, or move to a phase that was not asked for, are skipped; one that
    cannot be opened is reported in ``problems``.  Raises HostError.
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
                f"{path} is not a directory" for path in _other_kinds(directory, phases, uuid)
            ]
        elif pod.phase in phases:
            yield pod
        else:
            pod.close()


def _other_kinds(directory: str, phases: Collection[str], uuid: str) -> list[str]:
    paths = [phase_path(directory, phase, uuid) for phase in phases]
    return [path for path in paths if exists(path)]


def list_pods(directory: str, states: Collection[str] | None = None) -> tuple[list[Pod], list[str]]:
    """Return the pods in these states (None: all), opened, sorted by UUID; and problems as lines.

    Raises HostError.
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
    """Create a pod in phase prepare, locked by us.  Raises HostError, PodError."""
    for _ in range(_TRIES):
        pod = _embryo(directory)
        if pod is None:
            continue
        try:
            # gc may have collected the embryo before we locked it: then try with a new one.
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
        "the new pod was garbage-collected before it was locked",
        "use a longer --grace-period of gc",
    )


def _embryo(directory: str) -> Pod | None:
    uuid = new_uuid()
    path = phase_path(directory, EMBRYO, uuid)
    try:
        make_directories(phase_path(directory, EMBRYO))
        os.mkdir(path, 0o750)
        fault("newpod.after-mkdir")
    except OSError as error:
        raise HostError(f"make the pod {path}", error) from None
    return open_in(directory, EMBRYO, uuid)


def _write_marks(pod: Pod) -> None:
    try:
        for name in ("pod.lck", "pod-created"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o600, dir_fd=pod.fd))
    except OSError as error:
        raise HostError(f"write into pod {pod.uuid}", error) from None


def new_uuid() -> str:
    """Return a random UUID (RFC 9562, version 4)."""
    data = bytearray(os.urandom(16))
    data[6] = data[6] & 0x0F | 0x40
    data[8] = data[8] & 0x3F | 0x80
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def to_prepared(pod: Pod) -> None:
    """Sync the pod's files, move it to prepared, and release the lock.

    Raises HostError, PodError.
    """
    from ociruntime._shim import lib

    result = lib.oci_syncfs(pod.fd)
    if result < 0:
        raise HostError(f"sync pod {pod.uuid}", OSError(-result, os.strerror(-result)))
    # Move first: unlocked in phase prepare, the pod would look like an aborted prepare.
    if not pod.move(PREPARED):
        raise PodError(f"move pod {pod.uuid} to prepared: it was removed meanwhile")
    pod.release()


def to_run(pod: Pod) -> None:
    """Move from prepare, where we hold the lock, or from prepared after taking the lock.

    Of several concurrent callers one succeeds; the others get PodError with the pod's state, within
    a second.  Raises HostError as well.
    """
    if pod.lock >= 0:
        sync_files(pod)
        # Not durable: after a power failure both phases count as an ended pod.  From prepared,
        # below, the move must be durable, or the pod would appear prepared although it has run.
        if not pod.move(RUN, lasting=False):
            raise PodError(f"move pod {pod.uuid} to run: it was removed meanwhile")
        return
    require_prepared(pod)
    if not lock_within(pod, PREPARED):
        if pod.refresh() == STATES[PREPARED][0]:
            raise PodError(f"pod {pod.uuid} is locked by another process", "try again")
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
    """Check that the pod is prepared.  Raises PodError with its state if not; HostError."""
    if pod.refresh() != STATES[PREPARED][0]:
        raise _not_prepared(pod)


def _not_prepared(pod: Pod) -> PodError:
    early = pod.phase in (EMBRYO, PREPARE) and pod.state != GONE
    return PodError(f"pod {pod.uuid} is {'' if early else 'already '}{pod.state}, not prepared")


def lock_within(pod: Pod, phase: str, timeout: float = TIMEOUT) -> bool:
    """Lock the pod while it is in ``phase``, waiting up to ``timeout`` seconds for an observer.

    Returns False if the lock stays held (by an owner), or the pod is not in that phase (any more).
    Raises HostError.
    """
    deadline = time.monotonic() + timeout
    # Check before locking, too: in later phases the lock has a meaning for others.
    while pod.is_in(phase):
        if pod.try_lock():
            if pod.is_in(phase):
                return True
            pod.release()
            return False
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE)
    return False


def mark_exited(pod: Pod) -> bool:
    """Move a dead pod from run to exited-garbage; False if it is running or was moved already.

    Raises HostError, PodError.
    """
    # Look first: waiting for the lock of a running pod would take a second.
    if pod.phase != RUN or (pod.state != STATES[RUN][1] and is_locked(pod.fd)):
        return False
    # Without the lock, ``lock_exited`` might take it between our look and the move.
    if not lock_within(pod, RUN):
        return False
    try:
        return pod.move(EXITED_GARBAGE)
    finally:
        pod.release()


def lock_exited(pod: Pod) -> None:
    """Take the lock of an exited pod, which counts as running from now on.

    Raises PodError with the pod's state if it has not exited, HostError.
    """
    exited = STATES[RUN][1]
    if pod.refresh() == exited and lock_within(pod, RUN):
        return
    if pod.refresh() == exited:
        raise PodError(f"pod {pod.uuid} is locked by another process", "try again")
    raise PodError(f"pod {pod.uuid} is {pod.state}, not exited")


def mark_aborted(pod: Pod) -> bool:
    """Move an aborted pod from prepare to garbage; False if it is locked or was moved already.

    Raises HostError, PodError.
    """
    return pod.phase == PREPARE and not is_locked(pod.fd) and pod.move(GARBAGE)


PARTS = ("apps", "logs", "volumes")


def make_pod(directory: str, fill: Callable[[Pod], None]) -> Pod:
    """Return a pod in phase ``prepare``, locked by us, with the files that ``fill`` creates.

    On failure the pod is removed again.  Raises HostError (also for an OSError of ``fill``),
    PodError, and what ``fill`` raises.
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
