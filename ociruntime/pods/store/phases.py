"""Finding pods, and the ways from phase to phase; ``pod.py`` has the table of phases.

Each way is one rename, so a crash leaves a pod in one phase or the other.  Of several processes
that try the same, one succeeds.
"""

from __future__ import annotations

import posix
import time

from ociruntime.base.errors import HostError, NoSuchPod, PodError
from ociruntime.base.fault import fault
from ociruntime.base.files import exists
from ociruntime.pods.store.lock import is_locked, make_directories, open_directory
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = (
    "Pod",
    "adopt",
    "each_pod",
    "find",
    "is_uuid",
    "list_pods",
    "lock_patiently",
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

PATIENCE = 1.0  # seconds that an observer's momentary lock is waited for

# What a beginning of a UUID may mean: embryos have no name yet, garbage has lost it.
_NAMED = (PREPARE, PREPARED, RUN, EXITED_GARBAGE)
_UUID_LENGTH = 36
_PAUSE = 0.01
_TRIES = 3


def open_in(directory: str, phase: str, uuid: str) -> Pod | None:
    """The pod if it is in that phase, opened, its lock not looked at.  Raises HostError."""
    try:
        fd = open_directory(phase_path(directory, phase, uuid))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f"open pod {uuid}", error) from None
    return Pod(directory, uuid, phase, fd)


def find(directory: str, uuid: str) -> Pod | None:
    """The pod with the full ``uuid``, opened and looked at; None if there is none.

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
    """The running pod whose lock another program has handed to us as a descriptor."""
    posix.set_inheritable(lock_fd, False)
    pod = Pod(directory, uuid, RUN, lock_fd)
    pod.lock = lock_fd
    pod.state = STATES[RUN][0]
    return pod


def open_pod(directory: str, uuid: str) -> Pod:
    """The pod that ``uuid``, in full or its beginning, means.  Raises NoSuchPod, HostError."""
    text = uuid.lower()
    if not is_uuid(text):
        text = _only_match(directory, text, uuid)
    pod = find(directory, text)
    if pod is None:
        raise NoSuchPod(f"there is no pod {text}", "ocipod list shows all")
    return pod


def _only_match(directory: str, text: str, given: str) -> str:
    if not text or text.strip("0123456789abcdef-") or len(text) > _UUID_LENGTH:
        raise NoSuchPod(
            f'"{given}" is no UUID and no beginning of one', "hexadecimal digits and dashes"
        )
    matches = [name for name in names(directory, _NAMED, []) if name.startswith(text)]
    if not matches:
        raise NoSuchPod(f'no pod has a UUID that begins with "{given}"', "ocipod list shows all")
    if len(matches) > 1:
        raise NoSuchPod(
            f'{len(matches)} pods have a UUID that begins with "{given}"', "say more of it"
        )
    return matches[0]


def is_uuid(text: str) -> bool:
    """Whether it has the form of a pod's name: lower case, 8-4-4-4-12 digits."""
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and not text.strip("0123456789abcdef-")


def names(directory: str, phases: Collection[str], problems: list[str]) -> list[str]:
    """UUIDs of the pods in these phases, sorted; what is no pod gets a line in ``problems``.

    Raises HostError.
    """
    found: set[str] = set()
    for phase in PHASES:
        if phase not in phases:
            continue
        path = phase_path(directory, phase)
        try:
            entries = posix.listdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f"list {path}", error) from None
        for entry in entries:
            if is_uuid(entry):
                found.add(entry)
            else:
                problems.append(f'{path}: "{entry}" is no pod')
    return sorted(found)


def each_pod(
    directory: str, phases: Collection[str] = PHASES, problems: list[str] | None = None
) -> Iterator[Pod]:
    """One pod after another, looked at; whoever asks closes them.

    Those that vanish meanwhile, or go on to a phase that was not asked for, are left out; one
    that cannot be opened gets a line in ``problems``.  Raises HostError.
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
                f"{path} is no directory" for path in _other_kinds(directory, phases, uuid)
            ]
        elif pod.phase in phases:
            yield pod
        else:
            pod.close()


def _other_kinds(directory: str, phases: Collection[str], uuid: str) -> list[str]:
    paths = [phase_path(directory, phase, uuid) for phase in phases]
    return [path for path in paths if exists(path)]


def list_pods(directory: str, states: Collection[str] | None = None) -> tuple[list[Pod], list[str]]:
    """Pods in these states, or all, opened, by UUID; and what could not be read.

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
    """A pod of a new UUID in phase prepare, locked by us.  Raises HostError, PodError."""
    for _ in range(_TRIES):
        pod = _embryo(directory)
        if pod is None:
            continue
        try:
            # Whoever collects old embryos may have been quicker: then there is none any more.
            if lock_patiently(pod, EMBRYO):
                _write_marks(pod)
                if pod.move(PREPARE, lasting=False):
                    return pod
        except BaseException:
            if pod.lock >= 0:
                from ociruntime.pods.store.removal import discard

                discard(pod)
            pod.close()
            raise
        pod.close()
    raise PodError("the new pod was taken for an abandoned one", "a longer --grace-period of gc")


def _embryo(directory: str) -> Pod | None:
    uuid = new_uuid()
    path = phase_path(directory, EMBRYO, uuid)
    try:
        make_directories(phase_path(directory, EMBRYO))
        posix.mkdir(path, 0o750)
        fault("newpod.after-mkdir")
    except OSError as error:
        raise HostError(f"make the pod {path}", error) from None
    return open_in(directory, EMBRYO, uuid)


def _write_marks(pod: Pod) -> None:
    try:
        for name in ("pod.lck", "pod-created"):
            flags = posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC
            posix.close(posix.open(name, flags, 0o600, dir_fd=pod.fd))
    except OSError as error:
        raise HostError(f"write into pod {pod.uuid}", error) from None


def new_uuid() -> str:
    """A random UUID (RFC 9562, version 4)."""
    data = bytearray(posix.urandom(16))
    data[6] = data[6] & 0x0F | 0x40
    data[8] = data[8] & 0x3F | 0x80
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def to_prepared(pod: Pod) -> None:
    """From prepare, with all its files on the disk; drops the lock.  Raises HostError, PodError."""
    from ociruntime._shim import lib

    result = lib.oci_syncfs(pod.fd)
    if result < 0:
        raise HostError(f"sync pod {pod.uuid}", OSError(-result, posix.strerror(-result)))
    # The other way round it would be an aborted prepare for a moment.
    if not pod.move(PREPARED):
        raise PodError(f"pod {pod.uuid} has vanished while it was prepared")
    pod.release()


def to_run(pod: Pod) -> None:
    """From prepare, where we hold the lock, or from prepared, where it is taken first.

    Of several who try at once one succeeds; the others get PodError, which names the state, at
    once or after a second at most.  Raises HostError as well.
    """
    if pod.lock >= 0:
        # After a power failure both are pods that have ended; one that was prepared must not
        # seem to be prepared still.
        if not pod.move(RUN, lasting=False):
            raise PodError(f"pod {pod.uuid} has vanished while it was prepared")
        return
    require_prepared(pod)
    if not lock_patiently(pod, PREPARED):
        if pod.refresh() == STATES[PREPARED][0]:
            raise PodError(f"pod {pod.uuid} is held by another process", "try again")
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
    """Raises PodError, which names the state, if it is not prepared; HostError."""
    if pod.refresh() != STATES[PREPARED][0]:
        raise _not_prepared(pod)


def _not_prepared(pod: Pod) -> PodError:
    early = pod.phase in (EMBRYO, PREPARE) and pod.state != GONE
    return PodError(f"pod {pod.uuid} is {'' if early else 'already '}{pod.state}, not prepared")


def lock_patiently(pod: Pod, phase: str, patience: float = PATIENCE) -> bool:
    """Takes the lock while the pod is in ``phase``; waits for an observer, not for an owner.

    False if it is held for longer than ``patience`` seconds, or the pod is not there (any more).
    Raises HostError.
    """
    deadline = time.monotonic() + patience
    # Looked for before as well: the lock of a pod that has gone on means something to others.
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
    """From run to exited-garbage; False if it runs, or another has done it.

    Raises HostError, PodError.
    """
    # Who is in run has been locked since before: once free, it stays so.
    return pod.phase == RUN and not is_locked(pod.fd) and pod.move(EXITED_GARBAGE)


def mark_aborted(pod: Pod) -> bool:
    """From prepare to garbage; False if it is being prepared, or another has done it.

    Raises HostError, PodError.
    """
    return pod.phase == PREPARE and not is_locked(pod.fd) and pod.move(GARBAGE)
