"""Save this process as a snapshot, and initialise each process that is started from one.

A snapshot contains loaded modules only: no thread, open file, event loop, TLS context or seeded
random number generator.  An interpreter reads arguments, environment variables, ignored signals,
streams and time zone when it starts; a process started from a snapshot must read them again.
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

# Environment variables and files that OpenSSL reads when it is loaded; they depend on the
# distribution.
OPENSSL_SETTINGS = ("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/usr/lib/ssl/openssl.cnf")
# (module, type) of objects that must not be in a snapshot: all processes would share their state.
UNFIT = (
    ("ssl", "SSLContext"),
    ("asyncio", "AbstractEventLoop"),
)
STREAMS = 3
HEAP_SLACK = 32768  # bytes by which the heap's size differs between two processes
PLACING_TRIES = 32
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # locales that the interpreter uses instead of C

_generators: list[Any] = []  # all random.Random objects of loaded modules, to be seeded again


def freeze(directory: str, archive: Archive | None, program: str, fd: int, room: int) -> bool:
    """Load the modules of ``program``, and write this process's memory to ``fd`` as a snapshot.

    Returns twice, like fork(2): False in this process, and True in each process started from the
    snapshot.  A process that gets True must call ``adopt``.  Raises OSError.

    ``room``: the heap of this process begins in the first ``room`` bytes of a huge page.  If
    ``room`` is the size of a huge page, the heap may begin anywhere.  This process may then
    re-execute itself once, to get a heap that spans fewer huge pages.
    """
    import gc

    began = time.time_ns()
    _load(program)
    sys.flags = _isolated_flags()  # type: ignore[assignment]
    watched = _watched(directory, archive, began)
    if archive is not None:
        archive.close()
    from ociruntime._system_calls import ffi, lib

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
    gc.freeze()  # else the first collection would write to every object, copying all pages
    gc.disable()
    result = lib.oci_freeze(fd, main, paths)
    if result < 0:
        raise OSError(-result, posix.strerror(-result))
    return bool(result)


def _place_heap() -> None:
    """Re-execute this process if its heap would span fewer huge pages at another address.

    The new process gets the suitable ``room`` as its argument.
    """
    page = snapshot.HUGE_PAGE
    with open("/proc/self/maps", "rb") as maps:
        ranges = [line.split()[0].split(b"-") for line in maps if line.endswith(b"[heap]\n")]
    for start, end in ((int(first, 16), int(last, 16)) for first, last in ranges):
        size = end - start + HEAP_SLACK
        tail = snapshot.TAIL
        needed = max(1, -((tail - size) // page))
        if -((tail - end) // page) - start // page > needed:
            room = needed * page + tail - size
            argv = [*sys.orig_argv[:-2], str(room), str(PLACING_TRIES)]
            posix.execv(sys.executable, argv)


def main_of(program: str) -> Callable[[], int]:
    """Return the function ``run`` of a program's main module; the module must be loaded.

    The function takes its arguments from ``sys.argv``.
    """
    run: Callable[[], int] = sys.modules[f"ociruntime.{PROGRAMS[program].main}"].run
    return run


def _load(program: str) -> None:
    """Import all modules that the snapshot of a program contains."""
    from ociruntime import _system_calls  # noqa: F401 - adopt() needs it

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
            pass  # not installed: only commands that use the module fail


def _isolated_flags() -> object:
    """Return ``sys.flags`` with the values that they have with ``python -I``.

    This interpreter runs without ``-I``, because it had to read PYTHONMALLOC.  A process started
    from the snapshot must ignore its caller's PYTHON* variables, and modules check these flags
    before they read one (asyncio: PYTHONASYNCIODEBUG).
    """
    names = [name for name in dir(sys.flags) if not name.startswith(("_", "n_"))]
    flags = {name: getattr(sys.flags, name) for name in names if name not in ("count", "index")}
    return type(sys.implementation)(**{**flags, "isolated": 1, "ignore_environment": 1})


def _watched(directory: str, archive: Archive | None, began: int) -> list[str]:
    """Return the paths of the files that make the snapshot stale when they change.

    Mapped files are left out, because the launcher checks them in any case.  The standard library
    is left out, because it changes only together with the interpreter, which is a mapped file.

    Raises OSError if a file outside this package has changed after the time ``began`` (in
    nanoseconds), because its old content may have been loaded.
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
        # Paths without symbolic links are looked up faster.  The archive's path keeps its links, to
        # detect that the whole package has been replaced.
        watched += [os.path.realpath(files[name]) for name in archive.to_watch(own)]
    if "_hashlib" in sys.modules:
        watched += [path for path in OPENSSL_SETTINGS if posix.access(path, posix.R_OK)]
    return watched + foreign


def _is_own(name: str) -> bool:
    return name.startswith("ociruntime.")


def _refuse_unfit(fd: int) -> None:
    """Raise OSError if a module has left a thread, an open file or an object listed in UNFIT."""
    import gc

    tasks = len(posix.listdir("/proc/self/task"))
    # Subtract the descriptor that listdir() itself opens.
    descriptors = {int(name) for name in posix.listdir("/proc/self/fd")} - {fd, *range(STREAMS)}
    if tasks > 1 or len(descriptors) > 1:
        text = f"loaded modules have left {tasks - 1} threads and {len(descriptors) - 1} open files"
        raise OSError(errno.EINVAL, text)
    kinds = tuple(
        getattr(sys.modules[module], name) for module, name in UNFIT if sys.modules.get(module)
    )
    for each in gc.get_objects():
        if isinstance(each, kinds):
            raise OSError(
                errno.EINVAL,
                f"loaded modules hold an object that cannot be saved: {type(each).__name__}",
            )


def end_interrupted() -> None:
    """End this process with SIGINT, without a traceback.

    Call it if SIGINT has arrived before the command could handle the signal.  Otherwise the
    interpreter would print a traceback and then end the process in the same way.
    """
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    posix.kill(posix.getpid(), _signal.SIGINT)


def adopt(program: str) -> None:
    """Give a process started from a snapshot its own arguments, environment and locale.

    Also sets the ignored signals, and seeds the random number generators.  Opens the standard
    streams if ``Program.streams`` says that the program uses them.
    """
    import gc

    from ociruntime._system_calls import lib

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
    """Replace the snapshot's environment variables with those of this process."""
    from ociruntime._system_calls import lib

    environ: dict[bytes, bytes] = {}
    for entry in _strings(lib.oci_thawed_environment()):
        name, equals, value = entry.partition(b"=")
        if equals:
            environ.setdefault(name, value)
    for copy in _environments():
        copy.clear()
        copy.update(environ)


def _environments() -> list[dict[bytes, bytes]]:
    """Return all dictionaries of environment variables.

    The dictionaries must be changed in place, because modules hold references to them.
    """
    copies = [posix.environ]
    if "os" in sys.modules:  # os.environ is a view of another dictionary
        copies.append(sys.modules["os"].environ._data)
    return copies


def _adopt_ignored_signals(ignored: int) -> None:
    """Tell the interpreter which signals the caller ignores.

    ``ignored`` is a bit mask; bit 0 stands for signal 1.
    """
    # Skip the two signals reserved by the C library, which are invalid here.  A caller started with
    # posix_spawn(3) may ignore them.
    for number in _signal.valid_signals() if ignored else ():
        if ignored & 1 << (number - 1):
            _signal.signal(number, _signal.SIG_IGN)


def _adopt_streams() -> None:
    """Open sys.stdin, stdout and stderr anew, as the interpreter does in UTF-8 mode."""
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
    """Set locale and time zone from the environment, as the interpreter does at its start."""
    time.tzset()
    try:
        name = _locale.setlocale(_locale.LC_CTYPE, "")
    except _locale.Error:  # type: ignore[attr-defined]
        name = _locale.setlocale(_locale.LC_CTYPE, "C")
    # PEP 538: child processes must use UTF-8 as well, unless the user has set LC_ALL.
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
    """Yield the strings of a C array that ends with a null pointer."""
    from ociruntime._system_calls import ffi

    index = 0
    while array[index]:  # type: ignore[index]
        yield ffi.string(array[index])  # type: ignore[index]
        index += 1
