"""An open pod: its directory, phase, state and lock, and the rename that changes the phase.

A pod is a directory, ``pods/PHASE/UUID``.  Its state follows from the phase and from whether the
directory is locked exclusively:

    phase           locked              not locked
    embryo          embryo              embryo            directory just created
    prepare         preparing           aborted prepare
    prepared        prepared            prepared          waits for run-prepared, even for days
    run             running             exited
    exited-garbage  exited deleting     exited garbage    has run; kept for a grace period
    garbage         deleting            garbage           has never run; can be removed at once

Pods only move forward, by a rename that replaces nothing.  So a process that searches the phases in
this order finds every pod, even one that moves during the search.  A sandbox that has exited can be
locked and run again within its phase.

In the phases embryo and prepared, the state does not depend on the lock, and observers must not
test whether the pod is locked.  The test takes the lock for a moment.  During this moment, gc would
skip the pod, and the pod's creator or ``run-prepared`` would have to wait.
"""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import exists, read_file, sync_directory
from ociruntime.pods.store.lock import is_locked, make_directories, try_lock, unlock

EMBRYO = "embryo"
PREPARE = "prepare"
PREPARED = "prepared"
RUN = "run"
EXITED_GARBAGE = "exited-garbage"
GARBAGE = "garbage"
PHASES = (EMBRYO, PREPARE, PREPARED, RUN, EXITED_GARBAGE, GARBAGE)
MARKED = (EXITED_GARBAGE, GARBAGE)

# Phase -> (state while locked, state while not locked).
STATES = {
    EMBRYO: ("embryo", "embryo"),
    PREPARE: ("preparing", "aborted prepare"),
    PREPARED: ("prepared", "prepared"),
    RUN: ("running", "exited"),
    EXITED_GARBAGE: ("exited deleting", "exited garbage"),
    GARBAGE: ("deleting", "garbage"),
}
RUNNING, EXITED = STATES[RUN]
GONE = "gone"

AT_FDCWD = -100


class Pod:
    """An open pod; ``fd`` is a descriptor of its directory, valid even after the directory moves.

    ``phase`` and ``state`` are as of the last ``refresh``.  ``lock`` is the descriptor that holds
    the pod's lock, or -1 if this process does not hold it.
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
        """Return the path of the pod's directory as of the last ``refresh``."""
        return phase_path(self.directory, self.phase, self.uuid)

    def read(self, name: str) -> bytes:
        """Return the content of the pod's file ``name``; raise OSError if it cannot be read."""
        return read_file(f"/proc/self/fd/{self.fd}/{name}")

    def close(self) -> None:
        """Close the pod's descriptor, which releases the lock unless another process shares it."""
        fd, self.fd, self.lock = self.fd, -1, -1
        if fd >= 0:
            os.close(fd)

    def release(self) -> None:
        """Release the pod's lock, if this process holds it, without closing the pod.

        Raises HostError if flock(2) fails.
        """
        if self.lock >= 0:
            unlock(self.fd)
            self.lock = -1
            self.state = STATES[self.phase][1]

    def try_lock(self) -> bool:
        """Lock the pod; return False if another process holds the lock.

        Raises HostError if flock(2) fails.
        """
        if try_lock(self.fd, exclusive=True):
            self.lock = self.fd
            self.state = STATES[self.phase][0]
            return True
        return False

    def is_in(self, phase: str) -> bool:
        """Return whether the pod is in ``phase`` on disk now.

        Raises HostError if this cannot be determined.
        """
        try:
            current = os.lstat(phase_path(self.directory, phase, self.uuid))
            ours = os.fstat(self.fd)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise HostError(f"find pod {self.uuid}", error) from None
        return (current.st_dev, current.st_ino) == (ours.st_dev, ours.st_ino)

    def refresh(self) -> str:
        """Determine the pod's current phase and state, and return the state.

        The state is "gone" if the pod was removed.  Raises HostError if the state cannot be
        determined.
        """
        # Start at the last known phase, as pods only move forward.  Accept the state only if the
        # pod was in the phase before and after its lock was checked: otherwise it has moved.
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
        """Move the pod to ``phase``; return False if another process has moved or removed it.

        With ``lasting``, the move survives a power failure.  Raises HostError if the rename fails,
        PodError if ``phase`` has a pod with the same UUID.
        """
        if not rename(self.directory, self.uuid, self.phase, phase, lasting=lasting):
            return False
        self.phase = phase
        self.state = STATES[phase][0 if self.lock >= 0 else 1]
        return True


def phase_path(directory: str, phase: str, uuid: str = "") -> str:
    """Return the path of the directory of ``phase``, or of the pod ``uuid`` in this phase."""
    path = f"{directory}/pods/{phase}"
    return f"{path}/{uuid}" if uuid else path


def rename(directory: str, uuid: str, before: str, after: str, *, lasting: bool) -> bool:
    """Move the pod from the phase ``before`` to ``after``; return False if it is not in ``before``.

    With ``lasting``, the move survives a power failure.  Raises HostError if the rename fails,
    PodError if the phase ``after`` has a pod with the same UUID.
    """
    from ociruntime._system_calls import ffi, lib

    old, new = phase_path(directory, before, uuid), phase_path(directory, after, uuid)
    try:
        make_directories(phase_path(directory, after))
        c_old, c_new = (
            ffi.new("char[]", name.encode("utf-8", "surrogateescape")) for name in (old, new)
        )
        result = lib.oci_rename_noreplace(AT_FDCWD, c_old, AT_FDCWD, c_new)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        if lasting:
            sync_directory(phase_path(directory, after))
            sync_directory(phase_path(directory, before))
    except FileNotFoundError:
        return False
    except FileExistsError:
        if not exists(old):
            return False
        raise PodError(
            f"move pod {uuid} to the phase {after}: a pod with this UUID exists there"
        ) from None
    except OSError as error:
        raise HostError(f"move pod {uuid} from the phase {before} to {after}", error) from None
    return True
