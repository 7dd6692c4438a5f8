"""Make, check and remove snapshots of warm interpreters, from which programs start faster.

Starting an interpreter and loading a hundred modules takes 10 ms, which is most of the time of
``create`` and ``exec``.  A snapshot is the memory of an interpreter that has done both, written to
a file.  The launcher maps it back and jumps into it (``csrc/snapshot/``; its ``format.h`` describes
the file).

There is one snapshot for each program and user, valid until the next boot.  If ``create``, ``run``
or a command of another program finds no snapshot, it makes one in the background.  ``ociruntime
snapshot make|refresh`` makes it in the foreground.  The files are:

    /run/ociruntime/.snapshot, .snapshot-ocipod, ...       for root
    $XDG_RUNTIME_DIR/ociruntime/.snapshot, ...             for other users

``snapshot_modules.py`` lists the modules of each snapshot.  ``saved_process.py`` writes the
snapshot, which includes a list of files: if one of them changes, the snapshot becomes invalid.  It
also initialises the processes that are started from the snapshot.

A snapshot contains modules and nothing else.  The process that writes it has an empty environment,
no arguments from the user and no open file.  It has never read the state of a container or of the
host.

A snapshot is code.  Therefore the launcher accepts it only if it belongs to the launcher's own
user, and no one else may write to its directory.  If the snapshot, the interpreter, a library or a
module has changed, the launcher starts the interpreter instead, with the same result.  The file
``/etc/ociruntime/no-snapshot`` disables snapshots.
"""

from __future__ import annotations

import errno
import posix
import sys
from _struct import Struct
from collections.abc import Iterator, Mapping

from ociruntime.base.errors import HostError, InternalError
from ociruntime.base.files import exists
from ociruntime.base.trusted_directories import make_directory
from ociruntime.startup.snapshot_modules import FIRST, file_name, main_file, program_of

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SWITCH = "/etc/ociruntime/no-snapshot"
DIRECTORY_MODE = 0o700
OTHERS_WRITE = 0o022
OTHERS = 0o077

# struct snapshot_head begins with magic, format, head_size, checksum and file_size.  Six counts
# follow the registers and addresses.  freeze.c asserts these offsets.
BEGINNING = Struct("=QIIQQ")
MAGIC, FORMAT = 0x31504E5349434F, 9
COUNTS = Struct("=IIIIII")
COUNTS_AT, BOOT_AT, MAPPED_AT, WATCHED_AT, PATHS_AT = 144, 168, 17008, 20848, 41328
BOOT_SIZE = 40
CHECKSUM_WORD, FULL = 2, (1 << 64) - 1
DAMAGED = "damaged, or of another version"
MOST_MAPPED, MOST_WATCHED = 96, 512
LONGEST_HEAD = 1 << 17
FILE = Struct("=QQQQII")

# csrc/snapshot/format.h: SNAPSHOT_HUGE; SNAPSHOT_TAIL is the maximum kept outside huge pages.
HUGE_PAGE, TAIL = 2 << 20, 512 << 10
INTERPRETER = (sys.executable, "-I", "-S", "-B", "-X", "utf8")
# The kernel places a program's heap at a random address.  If the heap spans one huge page more than
# necessary, each command copies and clears more memory.  Therefore the child re-executes itself
# until its heap begins within the first `room` bytes of a huge page.
CHILD = """
import posix, sys
directory, program, fd, room, tries = sys.argv[1:]
with open("/proc/self/maps", "rb") as maps:
    starts = [int(line.partition(b"-")[0], 16) for line in maps if line.endswith(b"[heap]\\n")]
if int(tries) > 0 and starts and starts[0] % HUGE_PAGE > int(room):
    posix.execv(sys.executable, [*sys.orig_argv[:-1], str(int(tries) - 1)])
sys.path.insert(0, directory)
from ociruntime.startup.archive import find_packages, use_archive
find_packages()
archive = use_archive(directory, "")
from ociruntime.startup.saved_process import adopt, end_interrupted, freeze, main_of
try:
    try:
        thawed = freeze(directory, archive, program, int(fd), int(room))
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        sys.exit(error.errno)
    if thawed:
        adopt(program)
        posix._exit(main_of(program)())
except KeyboardInterrupt:
    end_interrupted()
""".replace("HUGE_PAGE", str(HUGE_PAGE))
# rseq off: the kernel would write to an area that the next process has not registered. BIND_NOW:
# each symbol bound later would make a page differ from the file. PYTHONMALLOC: one heap with all
# objects fits into a few huge pages (csrc/snapshot/format.h).
CHILD_ENVIRONMENT = {
    "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
    "LD_BIND_NOW": "1",
    "PYTHONMALLOC": "malloc",
}
# Isolated like INTERPRETER, but the interpreter reads the variables above.
CHILD_INTERPRETER = (sys.executable, "-P", "-s", "-S", "-B", "-X", "utf8")

# Errors after which this interpreter can never be saved on this machine: not supported by the
# build, restartable sequences in use, too many files or regions, no vdso, shared memory. Other
# errors (out of memory, no space, limits of the caller) may be temporary.
LASTING = frozenset(
    (errno.ENOSYS, errno.EBUSY, errno.E2BIG, errno.ENAMETOOLONG, errno.ENODEV, errno.EINVAL)
)
MAKING_TIMEOUT = 60.0  # seconds to wait for another process's lock, and for our own interpreter
POLL = 0.02  # seconds between two attempts to take the lock

thawed = False  # True in a process that was started from a snapshot


class Unusable(Exception):
    """Raised if the launcher would not start a program from the snapshot.

    ``str()`` gives the reason.  ``outdated`` is True if a new snapshot would be usable.
    """

    def __init__(self, reason: str, *, outdated: bool = False) -> None:
        super().__init__(reason)
        self.outdated = outdated


def location(environ: Mapping[bytes, bytes], euid: int, program: str = FIRST) -> str:
    """Return the path of a program's snapshot for user ``euid``.

    For users other than root, returns "" if XDG_RUNTIME_DIR is not an absolute path.
    """
    name = file_name(program)
    if euid == 0:
        return f"/run/ociruntime/{name}"
    directory = environ.get(b"XDG_RUNTIME_DIR", b"").decode("utf-8", "surrogateescape")
    return f"{directory}/ociruntime/{name}" if directory.startswith("/") else ""


def own_program(program: str = FIRST) -> str:
    """Return the path of a program's main file, spelled exactly as the launcher spells it."""
    return f"{__file__.rpartition('/startup/')[0]}/{main_file(program)}"


def inspect(path: str) -> int:
    """Check a snapshot as the launcher does; return its size in bytes, or raise Unusable."""
    if exists(SWITCH):
        raise Unusable(f"snapshots are disabled by {SWITCH}")
    if not path:
        raise Unusable("XDG_RUNTIME_DIR is not set")
    head = _read_head(path)
    program = _text(head, COUNTS.unpack_from(head, COUNTS_AT)[5])
    if program != own_program(program_of(path)):
        reason = f"the snapshot belongs to another installation: {program}"
        raise Unusable(reason, outdated=not exists(program))
    if head[BOOT_AT : BOOT_AT + BOOT_SIZE].rstrip(b"\0") != _boot_id():
        raise Unusable("the snapshot was made before the last boot", outdated=True)
    for name, expected in _files(head):
        if _identity(name) != expected:
            raise Unusable(f"{name} has changed since the snapshot was made", outdated=True)
    return int(BEGINNING.unpack_from(head)[4])


def _read_head(path: str) -> bytes:
    """Check a snapshot's owner, mode and checksum, and return its head.

    Raises Unusable if there is no snapshot, or if a check fails.
    """
    flags = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_NONBLOCK
    directory, _, name = path.rpartition("/")
    try:
        parent = _open_directory(directory)
        try:
            fd = posix.open(name, flags, dir_fd=parent)
        finally:
            posix.close(parent)
    except FileNotFoundError:
        raise Unusable("the snapshot does not exist yet", outdated=True) from None
    except OSError as error:
        raise Unusable(
            f"the snapshot cannot be opened: {posix.strerror(error.errno or 0)}"
        ) from None
    try:
        file = posix.fstat(fd)
        if file.st_mode & 0o170000 != 0o100000:
            raise Unusable("the snapshot is not a regular file")
        head = posix.read(fd, LONGEST_HEAD)
    finally:
        posix.close(fd)
    if file.st_uid != posix.geteuid() or file.st_mode & OTHERS:
        raise Unusable("the snapshot belongs to another user, or others have access to it")
    if not head:
        raise Unusable("this interpreter cannot be saved: an attempt since the last boot failed")
    if len(head) < PATHS_AT or BEGINNING.unpack_from(head)[:2] != (MAGIC, FORMAT):
        raise Unusable(DAMAGED, outdated=True)
    _, _, head_size, checksum, file_size = BEGINNING.unpack_from(head)
    if file_size != file.st_size or checksum != _checksum(head[:head_size]):
        raise Unusable(DAMAGED, outdated=True)
    return head


def _checksum(head: bytes) -> int:
    """Return the checksum of ``head``: FNV-1a over its 64-bit words.

    Counts the field that holds the checksum as 0.
    """
    total = 0xCBF29CE484222325
    size = len(head) & ~7
    words = Struct(f"={size // 8}Q").unpack_from(head)
    for index, word in enumerate(words):
        total = (total ^ (word if index != CHECKSUM_WORD else 0)) * 0x100000001B3 & FULL
    return total


def _open_directory(directory: str) -> int:
    """Open the snapshot's directory, and return its descriptor if only this user can write to it.

    Raises OSError, and Unusable if another user owns it or may write to it.
    """
    flags = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
    fd = posix.open(directory, flags)
    status = posix.fstat(fd)
    if status.st_uid == posix.geteuid() and not status.st_mode & OTHERS_WRITE:
        return fd
    posix.close(fd)
    if status.st_uid != posix.geteuid():
        raise Unusable(f"{directory} belongs to uid {status.st_uid}")
    raise Unusable(f"other users may write to {directory}")


def _text(head: bytes, offset: int) -> str:
    """Return the path that begins ``offset`` bytes into the paths in ``head``.

    Raises Unusable if the path does not end with NUL.
    """
    start = PATHS_AT + offset
    end = head.find(b"\0", start)
    if end < 0:
        raise Unusable(DAMAGED, outdated=True)
    return head[start:end].decode("utf-8", "surrogateescape")


def _files(head: bytes) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    """Yield (path, (device, inode, size, mtime in ns)) for each file that a snapshot depends on.

    ``head`` is the snapshot's head.  The numbers are from the time when the snapshot was made.
    Raises Unusable if the head is damaged.
    """
    _, _, _, mapped, watched, _ = COUNTS.unpack_from(head, COUNTS_AT)
    if mapped > MOST_MAPPED or watched > MOST_WATCHED:
        raise Unusable(DAMAGED, outdated=True)
    for at, count in ((MAPPED_AT, mapped), (WATCHED_AT, watched)):
        for index in range(count):
            entry = FILE.unpack_from(head, at + index * FILE.size)
            yield _text(head, entry[4]), entry[:4]


def _identity(path: str) -> tuple[int, int, int, int] | None:
    """Return (device, inode, size, mtime in ns) of a file, or None if it is not accessible."""
    try:
        status = posix.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _boot_id() -> bytes:
    """Return the id of this boot.  Raises Unusable if the id cannot be read."""
    try:
        with open(BOOT_ID, "rb") as file:
            return file.read().strip()
    except OSError as error:
        why = posix.strerror(error.errno or 0)
        raise Unusable(f"{BOOT_ID} cannot be read: {why}") from None


def how_started(program: str = FIRST) -> str:
    """Return a line for the debug log that says how this process started.

    If it did not start from a snapshot, the line also says why.
    """
    if thawed:
        return "started from the snapshot of the interpreter"
    path = location(posix.environ, posix.geteuid(), program)
    try:
        inspect(path)
    except Unusable as reason:
        return f"started the interpreter: snapshot {path}: {reason}"
    return f"started the interpreter: the snapshot {path} could not be mapped"


def refresh(path: str) -> bool:
    """Make the snapshot at ``path`` unless a valid one exists or another process is making it.

    Returns True if it was made.  Raises the errors of ``make``.
    """
    return _make(path, only_if_outdated=True) > 0


def make(path: str) -> int:
    """Make the snapshot at ``path`` and return its size in bytes.

    If another process is making the snapshot, waits until that process has finished.  The new file
    replaces the old one atomically.  If this machine does not support snapshots at all, an empty
    file replaces the snapshot, so that no command tries again until the next boot.  Raises
    HostError, and InternalError if the interpreter cannot be saved.
    """
    return _make(path, only_if_outdated=False)


def _make(path: str, *, only_if_outdated: bool) -> int:
    directory, _, name = path.rpartition("/")
    make_directory(directory, DIRECTORY_MODE, "snapshot directory")
    parent = fd = -1
    try:
        parent = _open_directory(directory)
        fd = _open_unfinished(parent, f"{name}.new", wait=not only_if_outdated)
        if fd < 0:
            return 0
        # Another process may have made the snapshot while we waited for the lock.
        if only_if_outdated and not _is_outdated(path):
            posix.unlink(f"{name}.new", dir_fd=parent)
            return 0
        return _fill(fd, parent, name)
    except Unusable as reason:
        refused = PermissionError(errno.EACCES, str(reason))
        raise HostError(f'write the snapshot "{path}"', refused) from None
    except OSError as error:
        raise HostError(f'write the snapshot "{path}"', error) from None
    finally:
        for each in (fd, parent):
            if each >= 0:
                posix.close(each)


def _is_outdated(path: str) -> bool:
    try:
        inspect(path)
    except Unusable as reason:
        return reason.outdated
    except OSError:
        pass  # the command has done its work, and does not need the snapshot
    return False


def _open_unfinished(parent: int, name: str, *, wait: bool) -> int:
    """Create and lock the file that will become the snapshot; return its descriptor.

    If a file of this name exists but is not locked, its writer was killed, and the file is removed.
    Returns -1 if another process holds the lock and ``wait`` is False.  Raises OSError (ETIMEDOUT
    after MAKING_TIMEOUT).

    Only the process that has locked the file removes or renames it.  The interpreter that writes
    the file inherits the lock, and holds it even if the process that started it is killed.
    """
    import fcntl
    import time

    end = time.monotonic() + MAKING_TIMEOUT
    create = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
    reopen = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
    while time.monotonic() < end:
        made = True
        try:
            fd = posix.open(name, create, 0o600, dir_fd=parent)
        except FileExistsError:
            made = False
            try:
                fd = posix.open(name, reopen, dir_fd=parent)
            except FileNotFoundError:
                continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(fd, parent, name):
                if made:
                    posix.fchmod(fd, 0o600)  # whatever the caller's umask
                    return fd
                posix.unlink(name, dir_fd=parent)
            posix.close(fd)
        except BlockingIOError:
            posix.close(fd)
            if not wait:
                return -1
            time.sleep(POLL)
    raise TimeoutError(errno.ETIMEDOUT, "timed out: another process is making the snapshot")


def _is_named(fd: int, parent: int, name: str) -> bool:
    """Return whether ``name`` in the directory ``parent`` still refers to the open file ``fd``."""
    try:
        named = posix.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    status = posix.fstat(fd)
    return (named.st_dev, named.st_ino) == (status.st_dev, status.st_ino)


def _fill(fd: int, parent: int, name: str) -> int:
    """Have a new interpreter write the snapshot to ``fd``; return its size in bytes.

    Renames the file from NAME.new to NAME in the directory ``parent``, a descriptor.  On failure,
    removes NAME.new.  If this interpreter can never be saved, leaves an empty file NAME, so that no
    command tries again.  Raises OSError, and InternalError if the new interpreter fails.
    """
    unfinished = f"{name}.new"
    try:
        before = _sources()
        status, problem = _run_child(fd, program_of(name))
        size = posix.fstat(fd).st_size
        if status == 0:
            # Check the source files: they may have changed after their modules were loaded.
            head = posix.pread(fd, LONGEST_HEAD, 0)
            changed = [path for path, now in _files(head) if before.get(path, now) != now]
            if changed:
                problem = f"{changed[0]} has changed since its module was loaded; try again"
        elif status in LASTING:
            posix.ftruncate(fd, 0)
        if not problem or status in LASTING:
            posix.rename(unfinished, name, src_dir_fd=parent, dst_dir_fd=parent)
            unfinished = ""
    finally:
        if unfinished:
            posix.unlink(unfinished, dir_fd=parent)
    if problem:
        raise InternalError(f"write the snapshot: {problem}")
    return size


def _sources() -> dict[str, tuple[int, int, int, int] | None]:
    """Return {path: (device, inode, size, mtime in ns)} for all files of the package."""
    import os

    package = os.path.realpath(own_program().rpartition("/")[0])
    paths = (f"{top}/{name}" for top, _, names in os.walk(package) for name in names)
    return {path: _identity(path) for path in paths}


def _run_child(fd: int, program: str) -> tuple[int, str]:
    """Run a new interpreter that writes its snapshot to ``fd``; return its exit status and error.

    The error is "" if the status is 0.
    """
    import subprocess

    _reset_signals()
    directory = own_program().rpartition("/ociruntime/")[0]
    try:
        child = subprocess.run(
            [*CHILD_INTERPRETER, "-c", CHILD, directory, program, str(fd), str(HUGE_PAGE), "0"],
            env=CHILD_ENVIRONMENT,
            pass_fds=(fd,),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=MAKING_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return -1, f"the interpreter timed out after {MAKING_TIMEOUT:.0f} seconds"
    if child.returncode == 0:
        return 0, ""
    lines = child.stderr.decode("utf-8", "replace").splitlines()
    status = f"the interpreter exited with status {child.returncode}"
    return child.returncode, lines[-1] if lines else status


def _reset_signals() -> None:
    """Unblock all signals and give them the default action, before the interpreter is started.

    Otherwise every command until the next boot would ignore the signals that our caller ignores.
    All signals are reset, because a process started from a snapshot does not know which signals are
    ignored.
    """
    import signal

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def make_in_background(program: str = FIRST) -> None:
    """Make a program's snapshot in the background if there is no valid one.

    Does not replace the snapshot of another installation that still exists: otherwise two
    installations would replace each other's snapshots again and again.
    """
    if thawed:
        return
    path = location(posix.environ, posix.geteuid(), program)
    if not path or not _is_outdated(path) or not _is_possible(path.rpartition("/")[0]):
        return
    from ociruntime.base.process import inheritable_descriptors

    actions: list[tuple[object, ...]] = [
        (posix.POSIX_SPAWN_OPEN, fd, "/dev/null", posix.O_RDWR, 0) for fd in (0, 1, 2)
    ]
    # Close inherited pipes: a caller that reads a pipe to its end must not wait for this process.
    actions += [(posix.POSIX_SPAWN_CLOSE, fd) for fd in inheritable_descriptors()]
    argv = [*INTERPRETER, own_program(), "snapshot", "refresh", program]
    environ = {"XDG_RUNTIME_DIR": path.rpartition("/ociruntime/")[0]}
    try:
        child = posix.fork()
    except OSError:
        return  # the next command tries again
    if child:
        posix.waitpid(child, 0)
        return
    # A grandchild makes the snapshot, and outlives this command.  This process may be a daemon or a
    # pod's monitor, which must not get an unknown child.
    try:
        posix.posix_spawn(sys.executable, argv, environ, file_actions=actions, setsid=True)
    except OSError:
        pass
    finally:
        posix._exit(0)


def _is_possible(directory: str) -> bool:
    """Return whether this user may create files in ``directory``, or create it if it is missing.

    The root user of a user namespace does not necessarily own /run.
    """
    existing = directory if exists(directory) else directory.rpartition("/")[0]
    return posix.access(existing, posix.W_OK | posix.X_OK)


def remove(path: str) -> bool:
    """Remove the snapshot at ``path``; return False if there is none.

    If another process is making the snapshot, waits until that process has finished.  Raises
    HostError.
    """
    directory, _, name = path.rpartition("/")
    parent = fd = -1
    try:
        parent = posix.open(directory, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
        # Otherwise its maker would rename the file later, when the program may be uninstalled.
        if exists(f"{path}.new"):
            fd = _open_unfinished(parent, f"{name}.new", wait=True)
            posix.unlink(f"{name}.new", dir_fd=parent)
        posix.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HostError(f'remove the snapshot "{path}"', error) from None
    finally:
        for each in (fd, parent):
            if each >= 0:
                posix.close(each)
    return True
