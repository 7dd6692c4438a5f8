"""The snapshots of ocipod, ocictl and ocid: used, replaced, refused, and free of process state."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.startup import snapshot
from ociruntime.startup.snapshot_modules import PROGRAMS
from tests.support import ordinary_user, processes
from tests.support.peers import judge_by
from tests.support.runtime import Result, Runtime, execute

pytestmark = judge_by("ociruntime")

OTHERS = ("ocipod", "ocictl", "ocid")
FROM_SNAPSHOT = "from the snapshot"
FROM_INTERPRETER = "started the interpreter"
SECRET = "a-word-that-nobody-else-writes"
FORMAT_AT = 8

# A command of each program that says how it was started, and then fails or ends.
COMMANDS = {
    "ociruntime": ["--debug", "features"],
    "ocipod": ["--debug", "--dir=/run/nobody", "list"],
    "ocictl": ["--debug", "--socket=/run/nobody/s", "version"],
    "ocid": ["--debug", "--allow-insecure=nothing"],
}

# Prints what an interpreter takes from its caller. It runs in an interpreter that was started, or
# behind `freeze` in one that was thawed.
PROBE = """
import sys
sys.modules["ssl"] = None  # the modules of these facts would make what no snapshot may hold
import gc, json, locale, logging, os, posix, resource, signal, sys, threading, time
import asyncio, random, uuid
def facts():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {
        "arguments": sys.argv[1:],
        "orig_argv": sys.orig_argv[:6] + sys.orig_argv[7:],
        "executable": sys.executable,
        "path": sys.path,
        "environ": sorted(os.environ.items()),
        "posix": sorted(map(repr, posix.environ.items())),
        "flags": {name: getattr(sys.flags, name) for name in dir(sys.flags)
                  if name[:2] not in ("__", "n_") and name not in ("count", "index")},
        "debug": asyncio.new_event_loop().get_debug(),
        "options": [sys._xoptions, sys.warnoptions],
        "cwd": os.getcwd(),
        "umask": os.umask(0o77),
        "streams": [
            [s.encoding, s.errors, s.line_buffering, s.write_through, s.name, s.mode, s.newlines,
             s.fileno(), s.isatty(), s.buffer.raw.closefd, s.buffer.raw.name, s is kept]
            for s, kept in ((sys.stdin, sys.__stdin__), (sys.stdout, sys.__stdout__),
                            (sys.stderr, sys.__stderr__))
        ],
        "zone": [time.tzname, time.timezone, time.localtime(0).tm_hour],
        "locale": locale.setlocale(locale.LC_CTYPE),
        "handlers": {n: str(signal.getsignal(n)) for n in signal.valid_signals()},
        "signals": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd")],
        "pid": [os.getpid() == int(os.readlink("/proc/self")), os.getpid() == int(status["Pid"])],
        "threads": [threading.active_count(), status["Threads"].strip(),
                    threading.main_thread().ident == threading.get_ident(),
                    threading.main_thread().native_id == threading.get_native_id()],
        "loop": asyncio._get_running_loop() is None,
        "log": [logging.root.handlers, logging.root.level],
        "gc": [gc.isenabled(), gc.get_threshold()],
        "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:4],
        "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
        "line": sys.stdin.readline(),
        "random": [random.random(), str(uuid.uuid4())],
    }
"""
STARTED = """
import sys
sys.path.insert(0, {library!r})
from ociruntime.startup.archive import find_packages
find_packages()
exec({probe!r})
print(json.dumps(facts()))
"""
FROZEN = """
import sys
sys.path.insert(0, {library!r})
from ociruntime.startup.archive import find_packages
find_packages()
exec({probe!r})
from ociruntime.startup import saved_process
if saved_process.freeze({library!r}, None, "ocid", {fd}, 0):
    saved_process.adopt("ocid")
    print(json.dumps(facts()), flush=True)
    posix._exit(0)
"""


# Memory as the C library asks for it since glibc 2.41, to keep the state of getrandom(3) in.
WIPED = """
import sys
sys.path.insert(0, {library!r})
from ociruntime.startup.archive import find_packages
find_packages()
import mmap, os
state = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
state.madvise(18)  # MADV_WIPEONFORK
state[:4] = b"made"
from ociruntime.startup import saved_process
if saved_process.freeze({library!r}, None, "ocid", {fd}, 0):
    print(state[:4] == bytes(4), flush=True)
    state[:4] = b"used"
    if os.fork() == 0:
        print(state[:4] == bytes(4), flush=True)
        os._exit(0)
    os.wait()
    print(state[:4] == b"used", flush=True)
    os._exit(0)
"""


def path_of(program: str) -> Path:
    return Path(snapshot.location({}, 0, program))


@pytest.fixture
def made(runtime: Runtime, isolated: None) -> Iterator[Callable[..., Path]]:
    """Make snapshots of the given programs; they are removed after the test."""

    def make(*programs: str) -> Path:
        runtime("snapshot", "make", *programs).ok()
        return path_of(programs[0])

    yield make
    for program in PROGRAMS:
        path_of(program).unlink(missing_ok=True)


def run(runtime: Runtime, program: str, env: dict[str, str] | None = None) -> Result:
    command = [str(runtime.path.with_name(program)), *COMMANDS[program]]
    return execute(command, env=env)


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_starts_from_its_own(made: Callable[..., Path], runtime: Runtime, program: str) -> None:
    """The result is the same as without."""
    path = made(program)
    with_it = run(runtime, program)
    assert FROM_SNAPSHOT in with_it.err
    assert path.stat().st_mode & 0o777 == 0o600
    status = runtime("snapshot", "status", program).ok()
    assert status.out.startswith(f"{path}: used, ")
    runtime("snapshot", "remove", program).ok()
    without = run(runtime, program)
    assert FROM_INTERPRETER in without.err
    assert (without.status, without.out) == (with_it.status, with_it.out)
    assert without.err.splitlines()[1:] == with_it.err.splitlines()[1:]
    assert processes.until(lambda: not processes.descendants(), 20)


def test_it_is_spawned_by_the_c_library(made: Callable[..., Path], runtime: Runtime) -> None:
    """posix_spawn(3) ignores two signals whose actions cannot be set."""
    made("ocictl")
    program = str(runtime.path.with_name("ocictl"))
    words = [program, *COMMANDS["ocictl"]]
    with tempfile.TemporaryFile() as output:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), fd) for fd in (1, 2)]
        child = os.posix_spawn(program, words, {}, file_actions=actions)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        output.seek(0)
        assert FROM_SNAPSHOT.encode() in output.read()


def test_status_and_remove_cover_all(made: Callable[..., Path], runtime: Runtime) -> None:
    made("ocictl")
    status = runtime("snapshot", "status")
    assert status.status == 1
    lines = status.out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [str(path_of(each)) for each in PROGRAMS]
    assert [": used, " in line for line in lines] == [each == "ocictl" for each in PROGRAMS]
    removed = runtime("snapshot", "remove").ok().out.splitlines()
    assert [line.endswith(": removed") for line in removed] == [
        each == "ocictl" for each in PROGRAMS
    ]


def test_an_unknown_program_is_refused(runtime: Runtime) -> None:
    refused = runtime("snapshot", "make", "ocid", "ocirun")
    refused.failed("unknown program", "ocirun", "ociruntime, ocipod, ocictl, ocid")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def exchange_for_another_program_s(path: Path) -> None:
    path.write_bytes(path_of("ociruntime").read_bytes())


@pytest.mark.parametrize("program", OTHERS)
@pytest.mark.parametrize("damage", [truncate, exchange_for_another_program_s])
def test_what_does_not_fit_is_not_used(
    made: Callable[..., Path], runtime: Runtime, program: str, damage: Callable[[Path], None]
) -> None:
    path = made(program, "ociruntime")
    inode = path.stat().st_ino
    damage(path)
    assert FROM_INTERPRETER in run(runtime, program).err
    assert processes.until(lambda: not processes.descendants(), 20)
    if damage is truncate:  # what belongs to another program may be a future one's
        assert path.stat().st_ino != inode, "it has been made again"
        assert FROM_SNAPSHOT in run(runtime, program).err


@pytest.mark.parametrize("program", OTHERS)
def test_the_first_command_makes_it(
    made: Callable[..., Path], runtime: Runtime, program: str
) -> None:
    run(runtime, program)
    assert processes.until(path_of(program).exists, 20)
    assert processes.until(lambda: FROM_SNAPSHOT in run(runtime, program).err)
    assert [each for each in PROGRAMS if path_of(each).exists()] == [program]


def test_a_client_without_privileges(
    made: Callable[..., Path], runtime: Runtime, tmp_path: Path
) -> None:
    """It has a snapshot in its own runtime directory, and never uses root's."""
    made("ocictl")
    home = Path("/run/octester")
    home.mkdir()
    os.chown(home, ordinary_user.UID, ordinary_user.UID)
    user = ordinary_user.OrdinaryUser(runtime.path, home)
    if not user.may_run_it():
        pytest.skip("an ordinary user may not execute the program where it lies")
    own = home / "run/ociruntime/.snapshot-ocictl"
    command = [str(runtime.path.with_name("ocictl")), *COMMANDS["ocictl"]]
    try:
        assert f"snapshot {own}: " in user.do(*command).err
        assert not own.exists(), "there is no runtime directory"
        (home / "run").mkdir(mode=0o700)
        os.chown(home / "run", ordinary_user.UID, ordinary_user.UID)
        user.do(*command)
        assert processes.until(lambda: FROM_SNAPSHOT in user.do(*command).err, 20)
        assert own.stat().st_uid == ordinary_user.UID
    finally:
        processes.until(lambda: not processes.descendants(), 20)
        subprocess.run(["rm", "-r", str(home)], check=True)


@pytest.mark.parametrize("program", OTHERS)
def test_nothing_of_its_maker_or_the_host_is_in_it(
    made: Callable[..., Path], runtime: Runtime, work: Path, program: str
) -> None:
    environment = {**os.environ, "TOKEN": SECRET, "TZ": "Asia/Tokyo"}
    with (work / SECRET).open("w") as held:
        fds = (held.fileno(),)
        shell = f'echo "host-{SECRET}" >/proc/sys/kernel/hostname; exec "$@"'
        command = ["unshare", "--uts", "sh", "-c", shell, "sh", str(runtime.path)]
        command += ["--log", str(work / SECRET), "snapshot", "make", program]
        subprocess.run(command, env=environment, cwd=work, pass_fds=fds, check=True)
    made("ociruntime")  # for the removal of all
    content = path_of(program).read_bytes()
    zone = Path("/etc/localtime").read_bytes().splitlines()[-1]
    for text in (SECRET, platform.release(), "-----BEGIN CERTIFICATE"):
        assert text.encode() not in content, text
    assert zone in (b"UTC0", b"") or zone not in content


LOCALES: tuple[dict[str, str], ...] = (
    {"LC_ALL": "C.UTF-8"},
    {"LC_ALL": "xx_YY.UTF-8"},
    {"LC_ALL": "C"},
    {"LANG": "C"},
    {"LC_CTYPE": "POSIX"},
    {},
)


def test_modules_of_others_are_watched(made: Callable[..., Path], isolated: None) -> None:
    """Other distributions are upgraded independently of this one."""
    head = snapshot._read_head(str(made("ocid")))
    files = {path for path, _ in snapshot._files(head)}
    for name in ("/aiohttp/web.py", "/yarl/__init__.py", "/ociruntime/modules.bin"):
        assert [path for path in files if path.endswith(name)], name


def probed(command: list[str], locale: dict[str, str]) -> dict[str, Any]:
    """Return the state of an interpreter whose caller has changed all that can be changed."""
    environment = {
        "TZ": "Asia/Tokyo",
        **locale,
        "PYTHONPATH": "/nowhere",
        "PYTHONHASHSEED": "0",
        "PYTHONASYNCIODEBUG": "1",
        "PYTHONIOENCODING": "latin-1",
        "WORD": "caf\udce9",
    }
    shell = 'umask 027; ulimit -n 512; trap "" INT HUP USR1; exec "$@"'
    words = ["sh", "-c", shell, "sh", *command, "one", "two words", "caf\udce9"]
    done = subprocess.run(
        words, env=environment, cwd="/tmp", capture_output=True, input=b"a line\nand more\n"
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def library_of(runtime: Runtime) -> str:
    """Return the directory of the imported package, as the launcher writes it."""
    return str(next(runtime.path.parent.parent.glob("lib/python3*/site-packages")))


def freeze(python: str, code: str, words: dict[str, str]) -> None:
    """Make the snapshot of ocid of an interpreter that runs ``code``."""
    path = path_of("ocid")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("wb") as file:
        path.chmod(0o600)
        subprocess.run(
            [python, *snapshot.CHILD_INTERPRETER[1:], "-c", code.format(**words, fd=file.fileno())],
            env=snapshot.CHILD_ENVIRONMENT,
            pass_fds=(file.fileno(),),
            stdin=subprocess.DEVNULL,
            check=True,
        )


def test_memory_that_no_child_may_have_is_in_no_snapshot(
    made: Callable[..., Path], runtime: Runtime
) -> None:
    """Otherwise processes and their children would draw the same random numbers."""
    freeze(os.path.realpath(sys.executable), WIPED, {"library": library_of(runtime)})
    done = execute([str(runtime.path.with_name("ocid")), "--version"])
    assert done.ok().out.split() == ["True"] * 3


def test_a_thawed_process_is_as_one_that_was_started(
    made: Callable[..., Path], runtime: Runtime, tmp_path: Path
) -> None:
    """The same arguments, environment, streams, signals, time zone; other random numbers."""
    words = {"library": library_of(runtime), "probe": PROBE}
    script = tmp_path / "started.py"
    script.write_text(STARTED.format(**words))
    python = [os.path.realpath(sys.executable), "-I", "-S", "-B", "-X", "utf8"]
    freeze(python[0], FROZEN, words)
    program = [str(runtime.path.with_name("ocid"))]
    numbers = []
    for locale in LOCALES:
        started = probed([*python, str(script)], locale)
        thawed = probed(program, locale)
        numbers += [*started.pop("random"), *thawed.pop("random")]
        assert thawed == started
        assert started["zone"][2] == 9
    assert len(set(map(str, numbers))) == 4 * len(LOCALES)
    assert started["threads"][2:] == [True, True]
