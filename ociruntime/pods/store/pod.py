"""A pod: which directory it is in, and who holds its lock.

A pod is one directory, ``pods/PHASE/UUID``.  The phase and whether the directory is locked
exclusively make the state:

    phase           locked              not locked
    embryo          embryo              embryo            a directory that was just made
    prepare         preparing           aborted prepare
    prepared        prepared            prepared          waits for run-prepared, for days maybe
    run             running             exited
    exited-garbage  exited deleting     exited garbage    has run; kept for a grace period
    garbage         deleting            garbage           has never run; nothing to keep it for

Pods move forward only, by a rename that replaces nothing, so whoever looks through the phases in
this order misses none that moves meanwhile.  Nobody but its creator, ``run-prepared`` and whoever
throws it away locks a pod in embryo or prepared, where a lock says nothing: an observer's would
be in the way of one that is taken without waiting.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import exists, read_file
from ociruntime.pods.store.lock import is_locked, make_directories, open_directory, try_lock, unlock

EMBRYO = "embryo"
PREPARE = "prepare"
PREPARED = "prepared"
RUN = "run"
EXITED_GARBAGE = "exited-garbage"
GARBAGE = "garbage"
PHASES = (EMBRYO, PREPARE, PREPARED, RUN, EXITED_GARBAGE, GARBAGE)
MARKED = (EXITED_GARBAGE, GARBAGE)

# Phase -> state when somebody holds the lock, and when nobody does.
STATES = {
    EMBRYO: ("embryo", "embryo"),
    PREPARE: ("preparing", "aborted prepare"),
    PREPARED: ("prepared", "prepared"),
    RUN: ("running", "exited"),
    EXITED_GARBAGE: ("exited deleting", "exited garbage"),
    GARBAGE: ("deleting", "garbage"),
}
GONE = "gone"

AT_FDCWD = -100


class Pod:
    """An opened pod; ``fd`` keeps meaning it wherever it is moved.

    ``phase`` and ``state`` are those of the last look.  ``lock`` is the descriptor that holds
    the pod's lock for us (``fd`` itself), or -1.
    """

    __slots__ = ("directory", "fd", "lock", "phase", "state", "uuid")

    def __init__(self, directory: str, uuid: str, phase: str, fd: int) -> None:
        self.directory = directory
        self.uuid = uuid
        self.phase = phase
        self.fd = fd
        self.lock = -1
        self.state = ""

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def path(self) -> str:
        """Where it was at the last look."""
        return phase_path(self.directory, self.phase, self.uuid)

    def read(self, name: str) -> bytes:
        """The whole file ``name`` of the pod.  Raises OSError."""
        return read_file(f"/proc/self/fd/{self.fd}/{name}")

    def close(self) -> None:
        """Drops the lock as well, unless another process has a copy of the descriptor."""
        fd, self.fd, self.lock = self.fd, -1, -1
        if fd >= 0:
            posix.close(fd)

    def release(self) -> None:
        """Drops the lock and keeps the pod open.  Raises HostError."""
        if self.lock >= 0:
            unlock(self.fd)
            self.lock = -1
            self.state = STATES[self.phase][1]

    def try_lock(self) -> bool:
        """Takes the lock for ourselves; False if it is held.  Raises HostError."""
        if try_lock(self.fd, exclusive=True):
            self.lock = self.fd
            self.state = STATES[self.phase][0]
            return True
        return False

    def is_in(self, phase: str) -> bool:
        """Whether it is in that phase right now.  Raises HostError."""
        try:
            there = posix.lstat(phase_path(self.directory, phase, self.uuid))
            ours = posix.fstat(self.fd)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise HostError(f"look for pod {self.uuid}", error) from None
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def refresh(self) -> str:
        """Looks again where it is and whether it is locked; the state.  Raises HostError."""
        # Forward from where it was; a state counts if it was there before and after the look at
        # the lock, else it has moved on in between.
        for phase in PHASES[PHASES.index(self.phase) :]:
            if not self.is_in(phase):
                continue
            meaningless = phase in (EMBRYO, PREPARED)
            locked = self.lock >= 0 or (not meaningless and is_locked(self.fd))
            if self.is_in(phase):
                self.phase = phase
                self.state = STATES[phase][0 if locked else 1]
                return self.state
        self.state = GONE
        return self.state

    def move(self, phase: str, *, lasting: bool = True) -> bool:
        """Renames it into ``phase``; False if it is not any more where it was.

        A power failure may take back what is not ``lasting``.  Raises HostError, and PodError if
        something else is in its way.
        """
        if not rename(self.directory, self.uuid, self.phase, phase, lasting=lasting):
            return False
        self.phase = phase
        self.state = STATES[phase][0 if self.lock >= 0 else 1]
        return True


def phase_path(directory: str, phase: str, uuid: str = "") -> str:
    """The directory of a phase, or of a pod in it."""
    path = f"{directory}/pods/{phase}"
    return f"{path}/{uuid}" if uuid else path


def rename(directory: str, uuid: str, before: str, after: str, *, lasting: bool) -> bool:
    """``before/UUID`` becomes ``after/UUID``, if ``lasting`` for good; False if it is not there.

    Raises HostError, and PodError if ``after/UUID`` exists: an empty directory there would
    be replaced by a plain rename.
    """
    from ociruntime._shim import ffi, lib

    old, new = phase_path(directory, before, uuid), phase_path(directory, after, uuid)
    try:
        make_directories(phase_path(directory, after))
        c_old, c_new = (
            ffi.new("char[]", name.encode("utf-8", "surrogateescape")) for name in (old, new)
        )
        result = lib.oci_rename_noreplace(AT_FDCWD, c_old, AT_FDCWD, c_new)
        if result < 0:
            raise OSError(-result, posix.strerror(-result))
        if lasting:
            sync_directory(phase_path(directory, after))
            sync_directory(phase_path(directory, before))
    except FileNotFoundError:
        return False
    except FileExistsError:
        if not exists(old):
            return False
        raise PodError(f"move pod {uuid} to {after}: there is something of that name") from None
    except OSError as error:
        raise HostError(f"move pod {uuid} from {before} to {after}", error) from None
    return True


def sync_directory(path: str) -> None:
    """What was renamed or removed in it stays so after a power failure.  Raises OSError."""
    fd = open_directory(path)
    try:
        posix.fsync(fd)
    finally:
        posix.close(fd)
