"""The snapshot of a warm interpreter: commands that need Python start from it in a millisecond.

Starting an interpreter and loading a hundred modules takes 10 ms, most of what ``create`` and
``exec`` cost. A snapshot is the memory of an interpreter that has done both, written to one file.
The launcher maps it back and jumps into it (``csrc/snapshot/``; its ``format.h`` describes the
file).

There is one for each user and boot, made in the background by the first ``create`` or ``run``
that had to do without, or by ``ociruntime snapshot make``:

    /run/ociruntime/.snapshot                  for root
    $XDG_RUNTIME_DIR/ociruntime/.snapshot      for everybody else

It holds modules and nothing else: the process that writes it has an empty environment, no
arguments of a user's, no open file, and has never looked at a container or at the host. Since it
is code, the launcher takes it only from its own user, out of a directory that nobody else may
write to. If it, the interpreter, a library or a module has changed, the launcher starts the
interpreter instead, with the same result. The file ``/etc/ociruntime/no-snapshot`` switches all
of it off.
"""

from __future__ import annotations

import posix
import sys
from _struct import Struct

from ociruntime.errors import HostError, InternalError
from ociruntime.host.files import exists
from ociruntime.trusted import make_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ociruntime.archive import Archive

SWITCH = "/etc/ociruntime/no-snapshot"
NAME = ".snapshot"
DIRECTORY_MODE = 0o700
OTHERS_WRITE = 0o022
OTHERS = 0o077

# The beginning of struct snapshot_head: magic, format, head_size, checksum, file_size; then, behind
# the registers and addresses, six counts. freeze.c asserts these places.
BEGINNING = Struct("=QIIQQ")
MAGIC, FORMAT = 0x31504E5349434F, 1
COUNTS = Struct("=IIIIII")
COUNTS_AT, MAPPED_AT, WATCHED_AT, PATHS_AT = 144, 8744, 10664, 23464
FILE = Struct("=QQQQII")

# What the commands of a container's life load, whatever the configuration asks for.
MODULES = """
    cli.main cli.create cli.run cli.exec cli.start cli.state cli.kill cli.delete cli.list cli.ps
    cli.pause cli.resume cli.update cli.events cli.output spec.check spec.shape
    spec.validate_resources cgroups.resources cgroups.devices cgroups.device_rules
    cgroups.settings_v1 cgroups.settings_v2 cgroups.device_program cgroups.statistics
    host.seccomp_cache host.foreground host.hooks host.idmap plan.cgroup_owner plan.further_mounts
"""
INTERPRETER = (sys.executable, "-I", "-S", "-B", "-X", "utf8")
CHILD = """
import sys
directory, fd = sys.argv[1:]
sys.path.insert(0, directory)
from ociruntime.archive import find_packages, use_archive
find_packages()
archive = use_archive(directory, "create")
from ociruntime.snapshot import freeze
if freeze(directory, archive, int(fd)):
    import posix
    from ociruntime.__main__ import run
    posix._exit(run())
"""
# rseq: the kernel would write to an area that the next process has not registered. BIND_NOW:
# symbols that are bound later would each make a page different from its file's.
CHILD_ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0", "LD_BIND_NOW": "1"}

thawed = False  # whether this process was made of a snapshot


class Unusable(Exception):
    """Why the launcher would not start from a snapshot: ``str()`` says it.

    ``outdated``: another one would do.
    """

    def __init__(self, reason: str, *, outdated: bool = False) -> None:
        super().__init__(reason)
        self.outdated = outdated


def location(environ: Mapping[bytes, bytes], euid: int) -> str:
    """Return the snapshot's path for a user, "" without a runtime directory."""
    if euid == 0:
        return f"/run/ociruntime/{NAME}"
    directory = environ.get(b"XDG_RUNTIME_DIR", b"").decode("utf-8", "surrogateescape")
    return f"{directory}/ociruntime/{NAME}" if directory.startswith("/") else ""


def own_program() -> str:
    """Return the package's ``__main__.py`` as the launcher names it."""
    return __file__.rpartition("/")[0] + "/__main__.py"


def inspect(path: str) -> int:
    """Return the size of a snapshot that a command would start from.  Raises Unusable."""
    if exists(SWITCH):
        raise Unusable(f"switched off by {SWITCH}")
    if not path:
        raise Unusable("XDG_RUNTIME_DIR is not set")
    if not exists(path):
        raise Unusable("not made yet", outdated=True)
    head = _read_head(path)
    offset = COUNTS.unpack_from(head, COUNTS_AT)[5]
    program = _text(head, offset)
    if program != own_program():
        raise Unusable(f"it belongs to the installation of {program}")
    for name, expected in _files(head):
        if _identity(name) != expected:
            raise Unusable(f"{name} has changed since it was made", outdated=True)
    return int(BEGINNING.unpack_from(head)[4])


def _read_head(path: str) -> bytes:
    flags = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_NONBLOCK
    directory = path.rpartition("/")[0]
    try:
        above = posix.lstat(directory)
        fd = posix.open(path, flags)
    except OSError as error:
        raise Unusable(f"cannot be opened: {posix.strerror(error.errno or 0)}") from None
    try:
        file = posix.fstat(fd)
        head = posix.read(fd, 1 << 17) if file.st_mode & 0o170000 == 0o100000 else b""
    finally:
        posix.close(fd)
    me = posix.geteuid()
    if (above.st_uid, file.st_uid) != (me, me) or file.st_mode & OTHERS:
        raise Unusable("it is not this user's alone")
    if above.st_mode & OTHERS_WRITE:
        raise Unusable(f"others may write to {directory}")
    if len(head) < PATHS_AT or BEGINNING.unpack_from(head)[:2] != (MAGIC, FORMAT):
        raise Unusable("damaged, or of another version")
    return head


def _text(head: bytes, offset: int) -> str:
    start = PATHS_AT + offset
    return head[start : head.find(b"\0", start)].decode("utf-8", "surrogateescape")


def _files(head: bytes) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    """Each file that the snapshot depends on, and what it was when that was made."""
    _, _, _, mapped, watched, _ = COUNTS.unpack_from(head, COUNTS_AT)
    for at, count in ((MAPPED_AT, mapped), (WATCHED_AT, watched)):
        for index in range(count):
            entry = FILE.unpack_from(head, at + index * FILE.size)
            yield _text(head, entry[4]), entry[:4]


def _identity(path: str) -> tuple[int, int, int, int] | None:
    try:
        status = posix.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def how_started() -> str:
    """Return a line for ``--debug``: from what this process was made, and if not, why."""
    if thawed:
        return "started from the snapshot of the interpreter"
    path = location(posix.environ, posix.geteuid())
    try:
        inspect(path)
    except Unusable as reason:
        return f"started the interpreter: snapshot {path}: {reason}"
    return f"started the interpreter: the snapshot {path} could not be mapped"


def make(path: str) -> int:
    """Write the snapshot and return its size in bytes.

    It appears by one rename; of several makers at once one works and the others wait for it.
    Raises HostError, or InternalError if the interpreter cannot be frozen here: then an empty file
    stands in the snapshot's place, and nobody tries again in this boot.
    """
    from fcntl import LOCK_EX, flock

    directory = path.rpartition("/")[0]
    make_directory(directory, DIRECTORY_MODE, "directory of the snapshot")
    unfinished = f"{path}.new"
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
    lock = fd = -1
    try:
        lock = posix.open(directory, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
        flock(lock, LOCK_EX)
        # The child of a maker that was killed may still be writing to its own.
        if exists(unfinished):
            posix.unlink(unfinished)
        fd = posix.open(unfinished, flags, 0o600)
        problem = _write(fd)
        if problem:
            posix.ftruncate(fd, 0)
        size = posix.fstat(fd).st_size
        posix.rename(unfinished, path)
    except OSError as error:
        raise HostError(f'write the snapshot "{path}"', error) from None
    finally:
        for each in (fd, lock):
            if each >= 0:
                posix.close(each)
    if problem:
        raise InternalError(f'write the snapshot "{path}": {problem}')
    return size


def _write(fd: int) -> str:
    """Have a fresh interpreter write itself to ``fd``; return why it could not, or ""."""
    import subprocess

    _reset_signals()
    directory = own_program().rpartition("/ociruntime/")[0]
    child = subprocess.run(
        [*INTERPRETER, "-c", CHILD, directory, str(fd)],
        env=CHILD_ENVIRONMENT,
        cwd="/",
        pass_fds=(fd,),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if child.returncode == 0:
        return ""
    lines = child.stderr.decode("utf-8", "replace").splitlines()
    return lines[-1] if lines else f"the interpreter ended with status {child.returncode}"


def _reset_signals() -> None:
    """Give the interpreter to be frozen the usual signals, whatever our caller ignores or blocks.

    It would hand them on to every command until the next boot. All of them are set: a command that
    was itself made of a snapshot does not know what its caller ignores.
    """
    import signal

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def make_in_background() -> None:
    """Have the snapshot made while this command goes on, if there is none that fits.

    One of another installation is left alone: two of them would replace each other's for ever.
    """
    if thawed:
        return
    path = location(posix.environ, posix.geteuid())
    try:
        inspect(path)
        return
    except Unusable as reason:
        if not reason.outdated:
            return
    from ociruntime.host.hooks import inheritable_descriptors

    actions: list[tuple[object, ...]] = [
        (posix.POSIX_SPAWN_OPEN, fd, "/dev/null", posix.O_RDWR, 0) for fd in (0, 1, 2)
    ]
    # A caller that reads a pipe to its end must not wait for this process.
    actions += [(posix.POSIX_SPAWN_CLOSE, fd) for fd in inheritable_descriptors()]
    words = [*INTERPRETER, own_program(), "snapshot", "make"]
    environ = {"XDG_RUNTIME_DIR": path.rpartition("/ociruntime/")[0]}
    try:
        # It goes on when this command has ended, without a parent that waits.
        posix.posix_spawn(sys.executable, words, environ, file_actions=actions, setsid=True)
    except OSError:
        return  # the next command tries again


def remove(path: str) -> bool:
    """Remove the snapshot; return whether there was one.  Raises HostError."""
    try:
        posix.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HostError(f'remove the snapshot "{path}"', error) from None
    return True


def freeze(directory: str, archive: Archive | None, fd: int) -> bool:
    """Load what commands need and write this process to ``fd``.

    Returns False; and True once more in each process that is made of the snapshot, with the
    arguments and the environment of that. Raises OSError.
    """
    import gc

    for name in MODULES.split():
        __import__(f"ociruntime.{name}")
    from ociruntime import _seccomp, _shim  # noqa: F401 - to have it loaded

    watched = [f"{directory}/ociruntime/modules.bin"]
    if archive is not None:
        watched += archive.sources_to_watch(list(sys.modules))
        archive.close()
    ffi, lib = _shim.ffi, _shim.lib
    texts = [ffi.new("char[]", path.encode("utf-8", "surrogateescape")) for path in watched]
    program = ffi.new("char[]", own_program().encode("utf-8", "surrogateescape"))
    paths = ffi.new("const char *[]", [*texts, ffi.NULL])
    gc.collect()
    gc.freeze()  # what is older than this would be copied by the first look for garbage
    gc.disable()
    result = lib.oci_freeze(fd, program, paths)
    if result < 0:
        raise OSError(-result, posix.strerror(-result))
    if result == 1:
        _adopt()
    return bool(result)


def _adopt() -> None:
    """Take over the arguments and the environment of the new process."""
    global thawed
    from ociruntime import _shim

    thawed = True
    sys.argv[:] = [_decoded(word) for word in _strings(_shim.lib.oci_thawed_arguments())]
    environ: dict[bytes, bytes] = {}
    for entry in _strings(_shim.lib.oci_thawed_environment()):
        name, equals, value = entry.partition(b"=")
        if equals:
            environ.setdefault(name, value)
    # In place: modules keep references to both. os.environ is a view of a dictionary of its own.
    copies = [posix.environ]
    if "os" in sys.modules:
        copies.append(sys.modules["os"].environ._data)
    for copy in copies:
        copy.clear()
        copy.update(environ)


def _decoded(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def _strings(array: object) -> Iterator[bytes]:
    from ociruntime import _shim

    index = 0
    while array[index]:  # type: ignore[index]
        yield _shim.ffi.string(array[index])  # type: ignore[index]
        index += 1
