"""Find, signal and wait for processes of the host, identified by pid and start time.

A pid alone does not identify a process, because the kernel reuses pids.  A pid and a start time do:
the kernel reuses no pid within one clock tick (a hundredth of a second), unless root requests a
particular pid (ns_last_pid, clone3).  Start times are in clock ticks since boot (proc_pid_stat(5),
field 22).

In a time namespace (time_namespaces(7)), procfs adds the namespace's offset to start times.  This
module subtracts it, so that commands in different time namespaces agree.
"""

from __future__ import annotations

import posix
from errno import EINVAL, EMFILE, ENFILE, ENOENT, ESRCH

from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterable
else:
    import _signal

SIGKILL = 9
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
DEAD_STATES = b"ZXx"
_ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
_NOTHING: dict[int, object] = {}
TICKS = 100  # USER_HZ, clock ticks per second
PF_EXITING = 4  # in field 9 of proc_pid_stat(5), the flags


def working_directory() -> str:
    """Return the path of the working directory.  Raises HostError."""
    try:
        return posix.getcwd()
    except OSError as error:
        raise HostError("find the working directory", error) from None


def start_time(pid: int) -> int:
    """Return the start time of process ``pid`` in clock ticks since boot; 0 if it has exited.

    A zombie counts as exited.  Raises HostError.
    """
    ended, _, started = process_stat(pid)
    return 0 if ended else started - _boot_offset()


def process_stat(pid: int) -> tuple[bool, int, int]:
    """Return (has exited, parent's pid, start time) of a process, from proc_pid_stat(5).

    A zombie has exited, but still has a parent and a start time.  For a process that does not
    exist, returns (True, 0, 0).  The start time includes the offset of our time namespace, unlike
    the result of ``start_time``.  Raises HostError.
    """
    fields = _stat_fields(pid)
    if fields is None:
        return True, 0, 0
    # A main thread that has exited is a zombie as long as other threads of the process run.
    ended = fields[0] in DEAD_STATES and int(fields[17]) < 2
    return ended, int(fields[1]), int(fields[19])


def is_exiting(pid: int) -> bool:
    """Return whether the process has exited or is exiting.  Raises HostError.

    A process that is exiting has already closed its files.  The init of a pid namespace then waits
    for the namespace's other processes before it becomes a zombie.
    """
    fields = _stat_fields(pid)
    return fields is None or int(fields[6]) & PF_EXITING != 0


def _stat_fields(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat, starting with the third, the state.

    Returns None if the process does not exist.  Raises HostError.
    """
    path = f"/proc/{pid}/stat"
    try:
        stat = read_file(path)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    # The process's name may contain blanks and parentheses; after the last ")" follow the fields.
    return stat[stat.rfind(b")") + 2 :].split()


def _boot_offset() -> int:
    """Return the clock ticks that our time namespace adds to start times; 0 if it adds none."""
    try:
        offsets = read_file("/proc/self/timens_offsets")
    except OSError:
        return 0  # a kernel without time namespaces
    for line in offsets.splitlines():
        name, seconds, nanoseconds = line.split()
        if name == b"boottime":
            return int(seconds) * TICKS + int(nanoseconds) * TICKS // 10**9
    return 0


def is_alive(pid: int, started: int) -> bool:
    """Return whether the process with this pid and start time is running.  Raises HostError."""
    return pid > 0 and started > 0 and start_time(pid) == started


def open_process(pid: int, started: int) -> int:
    """Return a pidfd of the process with this pid and start time; -1 if it has exited.

    Raises HostError.
    """
    return _open(pid, lambda: is_alive(pid, started))


def open_child(pid: int, started: int) -> int:
    """Return a pidfd of the child with this pid and start time, even if it is a zombie.

    Returns -1 if the child was reaped.  Raises HostError.
    """
    return _open(pid, lambda: process_stat(pid)[2] == started + _boot_offset())


def open_pid(pid: int) -> int:
    """Return a pidfd of the process that now has this pid; -1 if there is none.  Raises OSError."""
    try:
        return posix.pidfd_open(pid)
    except OSError as error:
        # EINVAL, or ENOENT on newer kernels: meanwhile the pid is the id of another thread.
        if error.errno in (ESRCH, EINVAL, ENOENT):
            return -1
        raise


def _open(pid: int, is_it: Callable[[], bool]) -> int:
    try:
        fd = open_pid(pid)
    except OSError as error:
        raise HostError(f"open process {pid}", error) from None
    if fd < 0:
        return -1
    # Check the start time after opening: until then, the kernel may reuse the pid.
    try:
        if is_it():
            return fd
    except HostError:
        posix.close(fd)
        raise
    posix.close(fd)
    return -1


def signal_process(pid: int, started: int, number: int) -> bool:
    """Send a signal to the process with this pid and start time; return False if it has exited.

    ``number`` is the signal's number.  Raises HostError.
    """
    fd = open_process(pid, started)
    if fd < 0:
        return False
    try:
        return send_signal(fd, number, pid)
    finally:
        posix.close(fd)


def send_signal(pidfd: int, number: int, pid: int) -> bool:
    """Send signal ``number`` through a pidfd; return False if the process has exited.

    Raises HostError; its message quotes ``pid``.
    """
    try:
        _signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise HostError(f"send signal {number} to process {pid}", error) from None
    return True


def signal_pinned(
    pids: Iterable[int],
    listing: Callable[[], Iterable[int]],
    opener: Callable[[int], int],
    send: Callable[[int, int], object],
) -> None:
    """Call ``send(pidfd, pid)`` once for each pid in ``pids`` that ``listing()`` still returns.

    Opens each process with ``opener(pid)``, which returns a pidfd, or -1 if the process has exited.
    Calls ``listing`` after that: if the kernel reused a pid before it was opened, the new process
    is not in the list, and gets no signal.  Handles the processes in batches that are as large as
    the limit on open files permits.  Raises HostError.
    """
    waiting = list(pids)
    while waiting:
        held, waiting = _hold(waiting, opener)
        try:
            for pid in listing():
                if pid in held:
                    send(held[pid], pid)
        finally:
            for fd in held.values():
                posix.close(fd)


def _hold(pids: list[int], opener: Callable[[int], int]) -> tuple[dict[int, int], list[int]]:
    """Open a pidfd of each process; return ({pid: pidfd}, pids for the next call).

    The second list is empty unless this process runs out of descriptors.  Raises HostError.
    """
    held: dict[int, int] = {}
    for index, pid in enumerate(pids):
        try:
            fd = opener(pid)
        except HostError as error:
            held_count = len(held) // 2 if error.errno in (EMFILE, ENFILE) else 0
            spare = list(held)[held_count:]  # ``listing`` needs a few descriptors as well
            for each in spare:
                posix.close(held.pop(each))
            if not held:
                raise
            return held, pids[index:] + spare
        if fd >= 0:
            held[pid] = fd
    return held, []


def end_at_once_on_signals() -> None:
    """Give SIGINT its default action, for a command that has nothing to undo yet.

    A Python handler does not run while a system call waits for a filesystem that no longer
    responds, such as NFS or FUSE.  The default action ends the process even then.  The launcher
    (csrc/launcher) keeps SIGINT blocked while the interpreter starts.
    """
    if _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))


def end_on_signals() -> None:
    """Make SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, so that changes are undone.

    Only the first signal raises it: a second exception would interrupt the rollback.
    """
    for number in _ENDING:
        if number != _signal.SIGINT or _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _interrupt)


def no_longer_end_on_signals() -> None:
    """Ignore SIGINT, SIGTERM and SIGHUP from now on: the command has done its work."""
    # Not SIG_IGN: hooks and other programs would inherit it.  The handler is a method written in C,
    # so a storm of signals cannot nest handlers.
    for each in _ENDING:
        _signal.signal(each, _NOTHING.get)


class HeldSignals:
    """A context manager that blocks the signals that end a command, until ``release``.

    No KeyboardInterrupt can then arrive between a change and the record of how to undo it.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        try:
            _signal.pthread_sigmask(_signal.SIG_BLOCK, _ENDING)
        except BaseException:  # KeyboardInterrupt: a signal arrived just before the block
            self.release()
            raise

    def release(self) -> None:
        """Unblock the signals; pending signals arrive at once.  May be called more than once."""
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._before)

    def __enter__(self) -> None:
        """Do nothing: the constructor has blocked the signals already."""

    def __exit__(self, *_: object) -> None:
        self.release()


def without_interruption(work: Callable[..., object], *arguments: object) -> None:
    """Call ``work(*arguments)``, the rollback of a failed command, with signals blocked.

    Discards a signal that arrives during the call: the command is about to fail anyway.
    """
    try:
        held = HeldSignals()
    except KeyboardInterrupt:
        work(*arguments)  # a signal arrived before the block; further signals cannot
        return
    try:
        with held:
            work(*arguments)
    except KeyboardInterrupt:
        pass  # raised by the release of the signals, after the work


def _interrupt(number: int, _frame: object) -> None:
    _signal.signal(number, _NOTHING.get)  # first, because more of them may be about to arrive
    no_longer_end_on_signals()
    raise KeyboardInterrupt


def heed_ignored_signals() -> None:
    """Restore the default actions of signals that the caller ignores, as under nohup(1).

    Programs that we start inherit ignored signals: without this, SIGHUP could not end them.
    SIGPIPE and SIGXFSZ are skipped: Python itself ignores them, and resets them for programs that
    it starts.
    """
    for number in _signal.valid_signals() - {_signal.SIGPIPE, _signal.SIGXFSZ}:
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)


def die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent exits, even after an execve(2).

    ``parent`` is the parent's pid; if the parent has exited already, this process exits at once.
    """
    from ociruntime._system_calls import lib

    lib.oci_prctl(PR_SET_PDEATHSIG, SIGKILL)
    if posix.getppid() != parent:
        posix._exit(254)


def become_subreaper() -> None:
    """Make this process a subreaper: orphaned descendants are reparented to it instead of pid 1.

    Raises HostError.  If the error were ignored, the caller would wait for ever for the exit of a
    process that is no longer its child.
    """
    from ociruntime._system_calls import lib

    if (result := lib.oci_prctl(PR_SET_CHILD_SUBREAPER, 1)) < 0:
        raise HostError("become a subreaper", OSError(-result, posix.strerror(-result)))


def is_dying(pid: int) -> bool:
    """Return whether the process was killed with SIGKILL, or is exiting.  Raises HostError.

    A process whose main thread has exited while other threads run does not count as exiting.  A
    pending SIGKILL shows in SigPnd or ShdPnd (proc_pid_status(5)).
    """
    fields = _stat_fields(pid)
    if fields is None or (int(fields[6]) & PF_EXITING and int(fields[17]) < 2):
        return True
    try:
        status = read_file(f"/proc/{pid}/status")
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has exited in the meantime
    except OSError as error:
        raise HostError(f'read "/proc/{pid}/status"', error) from None
    lines = dict(line.split(b":\t", 1) for line in status.splitlines() if b":\t" in line)
    pending = int(lines[b"SigPnd"], 16) | int(lines[b"ShdPnd"], 16)
    return bool(pending & 1 << (SIGKILL - 1))


def await_end(pidfd: int, seconds: float | None) -> bool:
    """Wait up to ``seconds`` (None: forever) for a process to exit; return False on timeout."""
    from select import POLLIN, poll

    poller = poll()
    poller.register(pidfd, POLLIN)
    return bool(poller.poll(None if seconds is None else int(seconds * 1000)))


def end_status(pidfd: int) -> int | None:
    """Reap the child ``pidfd``; return its exit status, or 128+n if signal n killed it.

    Returns None if the process is still running, is not our child or has been reaped already.
    """
    try:
        result = posix.waitid(posix.P_PIDFD, pidfd, posix.WEXITED | posix.WNOHANG)
    except ChildProcessError:
        return None
    if result is None:
        return None
    return result.si_status if result.si_code == posix.CLD_EXITED else 128 + result.si_status


def inheritable_descriptors() -> list[int]:
    """Return the descriptors above 2 that a program executed by this process would inherit."""
    descriptors = []
    for name in posix.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and posix.get_inheritable(fd):
                descriptors.append(fd)
        except OSError:
            pass  # the closed descriptor of the directory listing
    return descriptors


def close_inherited_on_exec() -> None:
    """Set close-on-exec on the descriptors that this process inherited from its caller."""
    for fd in inheritable_descriptors():
        posix.set_inheritable(fd, False)
