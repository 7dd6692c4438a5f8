"""Inside a snapshot: the process that is saved, and how a command starts in a copy of it.

A snapshot holds modules only, which must have no thread, open file, event loop, TLS context or
seeded random number generator. What an interpreter reads from its environment when it starts
(arguments, variables, ignored signals, streams, time zone) was read once when the snapshot was
made, and is read again in each process.
"""

from __future__ import annotations

import _locale
import errno
import posix
import sys
import time

from ociruntime.startup import snapshot
from ociruntime.startup.snapshot_modules import PROGRAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterator
    from typing import Any

    from ociruntime.startup.archive import Archive
else:
    import _signal

# Settings that OpenSSL reads when it is loaded, by distribution.
OPENSSL_SETTINGS = ("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/usr/lib/ssl/openssl.cnf")
# (module, type): objects that would be shared by all processes, or belong to one.
UNFIT = (
    ("ssl", "SSLContext"),
    ("asyncio", "AbstractEventLoop"),
)
STREAMS = 3
HEAP_SLACK = 32768  # bytes by which the heap's size differs between two processes
PLACING_TRIES = 32
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # locales that the interpreter takes for C

_generators: list[Any] = []  # each random.Random that a module has made, random's own among them


def freeze(directory: str, archive: Archive | None, program: str, fd: int, room: int) -> bool:
    """Load what ``program`` needs and write this process to ``fd``.

    The heap may begin in the first ``room`` bytes of a huge page; if it may begin anywhere, this
    process re-executes itself in case another address takes fewer huge pages.
    Return False here, and True in each process that is started from the snapshot, which must then
    call ``adopt``. Raises OSError.
    """
    import gc

    began = time.time_ns()
    _load(program)
    sys.flags = _isolated_flags()  # type: ignore[assignment]
    watched = _watched(directory, archive, began)
    if archive is not None:
        archive.close()
    from ociruntime._shim import ffi, lib

    texts = [ffi.new("char[]", path.encode("utf-8", "surrogateescape")) for path in watched]
    main = ffi.new("char[]", snapshot.own_program(program).encode("utf-8", "surrogateescape"))
    paths = ffi.new("const char *[]", [*texts, ffi.NULL])
    gc.collect()
    _refuse_unfit(fd)
    if room == snapshot.HUGE_PAGE:
        _place_heap()
    if "random" in sys.modules:
        kind = sys.modules["random"].Random
        _generators[:] = [each for each in gc.get_objects() if isinstance(each, kind)]
    gc.freeze()  # otherwise the first collection would write to, and copy, the pages of all objects
    gc.disable()
    result = lib.oci_freeze(fd, main, paths)
    if result < 0:
        raise OSError(-result, posix.strerror(-result))
    return bool(result)


def _place_heap() -> None:
    """Re-execute this process if its heap spans one huge page more than it needs."""
    page = snapshot.HUGE_PAGE
    with open("/proc/self/maps", "rb") as maps:
        ranges = [line.split()[0].split(b"-") for line in maps if line.endswith(b"[heap]\n")]
    for start, end in ((int(first, 16), int(last, 16)) for first, last in ranges):
        size = end - start + HEAP_SLACK
        needed = -(-size // page)
        if -(-end // page) - start // page > needed:
            room = needed * page - size
            words = [*sys.orig_argv[:-2], str(room), str(PLACING_TRIES)]
            posix.execv(sys.executable, words)


def main_of(program: str) -> Callable[[], int]:
    """Return the function that runs ``program`` with ``sys.argv``, from its loaded module."""
    run: Callable[[], int] = sys.modules[f"ociruntime.{PROGRAMS[program].main}"].run
    return run


def _load(program: str) -> None:
    from ociruntime import _shim  # noqa: F401 - for what follows the freezing

    chosen = PROGRAMS[program]
    if chosen.prepare:
        name = f"ociruntime.{chosen.prepare}"
        __import__(name)
        sys.modules[name].prepare()
    for name in (chosen.main, *chosen.modules):
        __import__(f"ociruntime.{name}")
    for name in chosen.others:
        try:
            __import__(name)
        except ImportError:
            pass  # not installed: nothing but the commands that want it needs it


def _isolated_flags() -> object:
    """Return ``sys.flags`` as ``-I`` sets them; this interpreter was started without ``-I``.

    It had to read PYTHONMALLOC. Processes started from the snapshot must ignore such variables of
    their callers; modules check these flags for that (asyncio for PYTHONASYNCIODEBUG).
    """
    names = [name for name in dir(sys.flags) if not name.startswith(("_", "n_"))]
    flags = {name: getattr(sys.flags, name) for name in names if name not in ("count", "index")}
    return type(sys.implementation)(**{**flags, "isolated": 1, "ignore_environment": 1})


def _watched(directory: str, archive: Archive | None, began: int) -> list[str]:
    """Return the files whose change makes the snapshot stale, besides those that are mapped.

    The standard library changes with the interpreter, which is mapped. Raises OSError if another
    distribution's module has changed since ``began`` and may have been loaded before that.
    """
    import os

    names = [name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names]
    files = {name: getattr(sys.modules[name], "__file__", None) or "" for name in names}
    foreign = [path for name, path in files.items() if not _is_own(name) and path.endswith(".py")]
    for path in foreign:
        if posix.stat(path).st_ctime_ns >= began:
            raise OSError(errno.EAGAIN, f"{path} changed while it was loaded")
    own = [name for name in names if _is_own(name) and files[name]]
    if archive is None:
        watched = [files[name] for name in own]
    else:
        watched = [f"{directory}/ociruntime/modules.bin"]
        # By paths without links, which are looked up faster; the archive's path shows whether the
        # package has been replaced.
        watched += [os.path.realpath(files[name]) for name in archive.to_watch(own)]
    if "_hashlib" in sys.modules:
        watched += [path for path in OPENSSL_SETTINGS if posix.access(path, posix.R_OK)]
    return watched + foreign


def _is_own(name: str) -> bool:
    return name.startswith("ociruntime.")


def _refuse_unfit(fd: int) -> None:
    """Raise OSError if a module has created something that processes cannot share."""
    import gc

    tasks = len(posix.listdir("/proc/self/task"))
    # One more is what lists them.
    descriptors = {int(name) for name in posix.listdir("/proc/self/fd")} - {fd, *range(STREAMS)}
    if tasks > 1 or len(descriptors) > 1:
        text = f"modules left {tasks - 1} threads and {len(descriptors) - 1} open files"
        raise OSError(errno.EINVAL, text)
    kinds = tuple(
        getattr(sys.modules[module], name) for module, name in UNFIT if sys.modules.get(module)
    )
    for each in gc.get_objects():
        if isinstance(each, kinds):
            raise OSError(errno.EINVAL, f"modules left an object of {type(each)}")


def adopt(program: str) -> None:
    """Read the new process's arguments, environment and streams, as a starting interpreter does."""
    import gc

    from ociruntime._shim import lib

    gc.enable()
    snapshot.thawed = True
    sys.argv[:] = [_decoded(word) for word in _strings(lib.oci_thawed_arguments())]
    sys.orig_argv[:] = [*snapshot.INTERPRETER, *sys.argv]
    _adopt_environment()
    _adopt_ignored_signals(lib.oci_thawed_ignored_signals())
    _adopt_locale()
    if PROGRAMS[program].streams:
        _adopt_streams()
    for generator in _generators:
        generator.seed()
    if "threading" in sys.modules:
        sys.modules["threading"].main_thread()._set_native_id()


def _adopt_environment() -> None:
    from ociruntime._shim import lib

    environ: dict[bytes, bytes] = {}
    for entry in _strings(lib.oci_thawed_environment()):
        name, equals, value = entry.partition(b"=")
        if equals:
            environ.setdefault(name, value)
    for copy in _environments():
        copy.clear()
        copy.update(environ)


def _environments() -> list[dict[bytes, bytes]]:
    """Return the dictionaries that hold the environment; modules keep references to them."""
    copies = [posix.environ]
    if "os" in sys.modules:  # os.environ is a view of a dictionary of its own
        copies.append(sys.modules["os"].environ._data)
    return copies


def _adopt_ignored_signals(ignored: int) -> None:
    """Update the interpreter's record of the signals that its caller ignores."""
    # What the C library keeps for itself is not valid: posix_spawn(3) starts programs that ignore
    # its two signals.
    for number in _signal.valid_signals() if ignored else ():
        if ignored & 1 << (number - 1):
            _signal.signal(number, _signal.SIG_IGN)


def _adopt_streams() -> None:
    """Open the standard streams as the interpreter does in UTF-8 mode: buffers fit the file."""
    for fd, name, mode, errors, buffering in (
        (0, "stdin", "r", "surrogateescape", -1),
        (1, "stdout", "w", "surrogateescape", -1),
        (2, "stderr", "w", "backslashreplace", 1),
    ):
        stream: Any = open(fd, mode, buffering, "utf-8", errors, "\n", closefd=False)
        stream.buffer.raw.name = f"<{name}>"
        stream.mode = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _adopt_locale() -> None:
    """Set locale and time zone from the environment, as the interpreter does when it starts."""
    time.tzset()
    try:
        name = _locale.setlocale(_locale.LC_CTYPE, "")
    except _locale.Error:  # type: ignore[attr-defined]
        name = _locale.setlocale(_locale.LC_CTYPE, "C")
    # PEP 538: children are to use UTF-8 as well, unless the user has said otherwise.
    if name == "C" and not posix.environ.get(b"LC_ALL"):
        for name in COERCED:
            try:
                _locale.setlocale(_locale.LC_CTYPE, name)
            except _locale.Error:  # type: ignore[attr-defined]
                continue
            for copy in _environments():
                copy[b"LC_CTYPE"] = name.encode()
            posix.putenv(b"LC_CTYPE", name.encode())
            return


def _decoded(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def _strings(array: object) -> Iterator[bytes]:
    from ociruntime._shim import ffi

    index = 0
    while array[index]:  # type: ignore[index]
        yield ffi.string(array[index])  # type: ignore[index]
        index += 1
