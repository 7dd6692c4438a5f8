"""Write the hosts files of running pods, in helper processes that cannot block the caller.

A pod's hosts file is bind-mounted as its apps' ``/etc/hosts``.  The apps can do to it whatever root
can do to a file: fill it, lock it, make it immutable.  So it is opened without waiting and without
following links, and read up to a limit.  It is written in place, because a rename would not change
the bind-mounted inode.  Text outside our own block is kept.  A file that cannot be written is
skipped: an app that makes its hosts file unwritable harms only itself.

An app can also hold the kernel's inode lock for ever, with a write(2) from memory whose page fault
it never answers (userfaultfd(2)).  A process that writes the file then waits in the kernel and
cannot be killed.  So helper processes write the files.  They are orphans and hold nothing but
the lock ``FILE.lock``, which is beside the hosts file and out of the app's reach.  So at most one
helper waits for each hosts file, and other helpers skip it.  A helper that has released the lock
checks whether the lines have changed since it wrote them; if so, it writes the new lines.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence

from ociruntime.base.errors import HostError
from ociruntime.base.fault_injection import fault
from ociruntime.base.linux import CLONE_NEWNS

BEGIN = b"# ocipod: pods on the same networks\n"
END = b"# ocipod: end of the pods on the same networks\n"
LARGEST_FILE = 256 << 10  # bytes; a larger hosts file is not updated
LOCK_SUFFIX = ".lock"
ONE_BY_ONE_TIMEOUT = 0.5  # seconds for a single helper, before each file gets its own
TIMEOUT = 2.0  # seconds until the caller stops waiting for the helpers
LIFETIME = 30  # seconds until SIGALRM kills a helper; one that waits in the kernel dies later
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_INDEX = 4  # bytes of a file's index, which a helper sends when it has finished the file

Newest = Callable[[str], bytes | None]


def create_lock(path: str) -> None:
    """Create the lock file for the hosts file ``path``; raise OSError if this fails.

    A hosts file without a lock file is never updated.
    """
    os.close(os.open(path + LOCK_SUFFIX, _FLAGS | os.O_CREAT, 0o600))


def write_all(state: str, files: Mapping[str, str], newest: Newest) -> None:
    """Update the hosts files of pods: ``files`` maps each pod's UUID to the path of its file.

    ``newest(uuid)`` returns the lines to write to a pod's file, or None to skip the file.  It must
    read only files below ``state``, because a helper process may call it in another mount
    namespace.  Returns after 2 seconds at the latest; helper processes that have not finished by
    then go on working.  Raises HostError if no helper can be started.
    """
    pending = dict(enumerate(files.items()))
    if not pending:
        return
    started = time.monotonic()
    _run_helpers(state, [pending], newest, pending, started + ONE_BY_ONE_TIMEOUT)
    if pending:
        batches = [{index: file} for index, file in pending.items()]
        _run_helpers(state, batches, newest, pending, started + TIMEOUT)


Batch = Mapping[int, tuple[str, str]]


def _run_helpers(
    state: str,
    batches: Sequence[Batch],
    newest: Newest,
    pending: dict[int, tuple[str, str]],
    deadline: float,
) -> None:
    """Start a helper process for each batch of files, and wait for them until ``deadline``.

    Each batch and ``pending`` are {index of a hosts file: (UUID of its pod, path)}.  Files that the
    helpers have finished are removed from ``pending``.  Raises HostError if no helper can be
    started.
    """
    batches = [dict(batch) for batch in batches]
    read = write = -1
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        starter = os.fork()
        if starter == 0:
            _start_helpers(state, batches, newest, write)
        os.close(write)
        write = -1
        try:
            os.waitpid(starter, 0)
        except ChildProcessError:
            pass  # the caller ignores SIGCHLD
    except OSError as error:
        _close(read, write)
        raise HostError("start a process that updates hosts files", error) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        _collect(read, pending, deadline)
    finally:
        os.close(read)


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def _collect(read: int, pending: dict[int, tuple[str, str]], deadline: float) -> None:
    """Remove from ``pending`` the files that helper processes report as finished.

    ``read`` is the read end of the helpers' pipe.  Returns when the last helper has exited, or at
    ``deadline``.
    """
    poll = select.poll()
    poll.register(read, select.POLLIN)
    while (remaining_seconds := deadline - time.monotonic()) > 0:
        if not poll.poll(int(remaining_seconds * 1000) + 1):
            continue
        data = os.read(read, 1024 * _INDEX)
        if not data:
            return
        for start in range(0, len(data), _INDEX):
            pending.pop(int.from_bytes(data[start : start + _INDEX], "little"), None)


def _start_helpers(state: str, batches: Sequence[Batch], newest: Newest, report: int) -> None:
    """Fork a helper process for each batch of files, then exit, which orphans the helpers.

    Called in a forked child.  The helpers write the index of each finished file to the pipe
    ``report``.
    """
    try:
        report = _detach(report)
        _leave_own_mounts(state)
        for batch in batches:
            if os.fork() == 0:
                signal.alarm(LIFETIME)
                for index, (uuid, path) in batch.items():
                    _write_newest(path, uuid, newest)
                    _report(report, index)
                break
    except BaseException:  # noqa: BLE001, S110 - the child must not return into the caller
        pass
    finally:
        os._exit(0)


def _report(report: int, index: int) -> None:
    try:
        os.write(report, index.to_bytes(_INDEX, "little"))
    except OSError:
        pass  # EPIPE: the caller no longer waits


def _detach(report: int) -> int:
    """Detach this process from its parent; return the new number of the descriptor ``report``.

    Starts a session, closes all descriptors but ``report``, and resets signal handlers.
    """
    os.setsid()
    report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, 3)
    for name in os.listdir("/proc/self/fd"):
        if int(name) != report:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself, which is closed already
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for fd in range(3):
        if fd != null:
            os.dup2(null, fd)
    os.chdir("/")
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return report


def _leave_own_mounts(state: str) -> None:
    """Enter the mount namespace of PID 1, if the directory ``state`` is the same there.

    If this process stayed in the mount namespace of a pod's monitor, it would keep the pod's mounts
    busy.
    """
    from ociruntime._system_calls import lib

    try:
        before = os.stat(state)
        ours = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        theirs = os.open("/proc/1/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # the exit of this process closes the descriptors
    if lib.oci_setns(theirs, CLONE_NEWNS) >= 0:
        try:
            is_same = os.path.samestat(os.stat(state), before)
        except OSError:
            is_same = False
        if not is_same:
            lib.oci_setns(ours, CLONE_NEWNS)
    os.close(ours)
    os.close(theirs)


def _write_newest(path: str, uuid: str, newest: Newest) -> None:
    """Update a pod's hosts file ``path`` with the lines that ``newest(uuid)`` returns.

    Does nothing if another helper process holds the file's lock.
    """
    try:
        lock = os.open(path + LOCK_SUFFIX, _FLAGS)
    except OSError:
        return  # the pod has just been removed
    try:
        while True:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            block = newest(uuid)
            if block is None:
                return
            fault("names.before-write")
            try:
                update(path, block)
            except OSError:
                pass  # the pod has just ended, or its app has made the file unwritable
            fcntl.flock(lock, fcntl.LOCK_UN)
            # A helper with newer lines may have found the file locked and skipped it: then the
            # lines have changed, and this helper writes them.
            if newest(uuid) == block:
                return
    except OSError:
        pass  # another helper has the lock
    finally:
        os.close(lock)


def update(path: str, block: bytes) -> None:
    """Replace ocipod's lines in the hosts file ``path`` with ``block``.

    The file is written in place, not replaced by a rename, because it is bind-mounted in the app.
    A concurrent reader may see the beginning of the new text, followed by the end of the old text
    or by NUL bytes.  Does nothing if the file is not a regular file or is larger than 256 KiB.
    Raises OSError if it cannot be opened or written.
    """
    fd = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        before = os.pread(fd, LARGEST_FILE + 1, 0)
        if len(before) > LARGEST_FILE:
            return
        after = with_block(before, block)
        if after == before:
            return
        # Grow the file by empty lines first, so that a concurrent reader which stops at the old
        # size does not see half a line at the end.
        _pwrite(fd, b"\n" * (len(after) - len(before)), len(before))
        whole = after.ljust(len(before), b"\n")
        _pwrite(fd, whole, 0)
        if len(whole) > len(after):
            os.ftruncate(fd, len(after))
    finally:
        os.close(fd)


def _pwrite(fd: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``.  Raises OSError if only a part could be written."""
    if os.pwrite(fd, data, offset) != len(data):
        raise OSError(28, "no space left on device")


def with_block(text: bytes, block: bytes) -> bytes:
    """Return ``text``, the content of a hosts file, with ocipod's lines replaced by ``block``.

    If ``text`` has no lines of ocipod, ``block`` is appended.
    """
    head, begin, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2] if begin else b""
    if head and not head.endswith(b"\n"):
        head += b"\n"
    return head + BEGIN + block + END + tail
