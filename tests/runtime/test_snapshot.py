"""The snapshot of the interpreter: its use, when it is ignored, and what it must not contain."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime.startup import snapshot
from tests.support import isolation, processes, project
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime
from tests.support.snapshot_regions import CONTENT_AT, COPIED, SNAPSHOT, regions

pytestmark = judge_by("ociruntime")

PATH = Path(snapshot.location({}, 0))
NAMES = (PATH.name, f"{PATH.name}.new")  # other programs may have theirs beside it
FROM_SNAPSHOT = "from the snapshot"
FROM_INTERPRETER = "started the interpreter"
SECRET = "a-word-that-nobody-else-writes"

CHECKSUM_AT, FORMAT_AT, VDSO_AT = 16, 8, 136
HEAD_SIZE_AT = 12
THREAD_POINTER_AT = 96
PR_GET_TID_ADDRESS, PR_SET_THP_DISABLE = 40, 41  # linux/prctl.h
FIRST_BASIS, PRIME = 0xCBF29CE484222325, 0x100000001B3


@pytest.fixture
def made(runtime: Runtime, isolated: None) -> Iterator[Path]:
    """A snapshot that commands start from."""
    was_there = PATH.parent.exists()
    runtime("snapshot", "make", "ociruntime").ok()
    yield PATH
    PATH.unlink(missing_ok=True)
    if not was_there and not os.listdir(PATH.parent):
        PATH.parent.rmdir()


def way(runtime: Runtime) -> str:
    """Return how a command was started, by its own report."""
    return runtime("--debug", "features").ok().err


def whole_life(container: MakeContainer, runtime: Runtime) -> None:
    one = container().started()
    assert one.status == "running"
    assert runtime("exec", one.id, "echo", "hi").ok().out == "hi\n"
    one.delete("--force").silent()


def test_a_command_starts_from_it(made: Path, runtime: Runtime, container: MakeContainer) -> None:
    assert FROM_SNAPSHOT in way(runtime)
    assert "used" in runtime("snapshot", "status", "ociruntime").ok().out
    whole_life(container, runtime)
    assert made.stat().st_mode & 0o777 == 0o600
    assert runtime("snapshot", "remove", "ociruntime").ok().out == f"{made}: removed\n"
    assert FROM_INTERPRETER in way(runtime)
    status = runtime("snapshot", "status", "ociruntime")
    assert status.status == 1
    assert status.out.startswith(f"{made}: not used: ")
    assert runtime("snapshot", "remove", "ociruntime").ok().out == f"{made}: not found\n"


def test_the_first_create_makes_it(runtime: Runtime, container: MakeContainer) -> None:
    PATH.unlink(missing_ok=True)
    container().created()
    try:
        assert processes.until(PATH.exists, 20)
        assert processes.until(lambda: FROM_SNAPSHOT in way(runtime))
    finally:
        PATH.unlink(missing_ok=True)


def test_an_unknown_argument_is_refused(runtime: Runtime) -> None:
    runtime("snapshot", "melt").failed("snapshot: unknown action", "melt", "(use status, make,")


def test_without_a_runtime_directory(runtime: Runtime) -> None:
    program = [
        "setpriv",
        "--reuid=65534",
        "--clear-groups",
        str(runtime.path),
        "snapshot",
        "make",
        "ociruntime",
    ]
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "snapshot: XDG_RUNTIME_DIR" in done.stderr


def checksum(head: bytes) -> int:
    total = FIRST_BASIS
    for (word,) in struct.iter_unpack("=Q", head):
        total = (total ^ word) * PRIME % (1 << 64)
    return total


def rewrite(at: int, form: str, change: Callable[[int], int]) -> None:
    """Change one number of the head, and update the head's checksum."""
    content = bytearray(PATH.read_bytes())
    (size,) = struct.unpack_from("=I", content, HEAD_SIZE_AT)
    (number,) = struct.unpack_from(form, content, at)
    struct.pack_into(form, content, at, change(number))
    struct.pack_into("=Q", content, CHECKSUM_AT, 0)
    struct.pack_into("=Q", content, CHECKSUM_AT, checksum(bytes(content[:size])))
    PATH.write_bytes(content)


def without_huge_pages(command: list[str]) -> list[str]:
    """Return a command that runs ``command`` without huge pages."""
    program = (
        "import ctypes, os, sys;"
        f"ctypes.CDLL(None).prctl({PR_SET_THP_DISABLE}, 1, 0, 0, 0);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", program, *command]


def flip(at: int) -> None:
    content = bytearray(PATH.read_bytes())
    content[at] ^= 1
    PATH.write_bytes(content)


def as_link() -> None:
    PATH.rename(f"{PATH}.elsewhere")
    PATH.symlink_to(f"{PATH}.elsewhere")


def as_another_kind(make: Callable[[Path], None]) -> Callable[[], None]:
    def replace() -> None:
        PATH.unlink()
        make(PATH)

    return replace


def truncated() -> None:
    os.truncate(PATH, PATH.stat().st_size // 2)


DAMAGE: dict[str, Callable[[], object]] = {
    "truncated": truncated,
    "empty": lambda: os.truncate(PATH, 0),
    "another user's": lambda: os.chown(PATH, 65534, 65534),
    "writable by its group": lambda: PATH.chmod(0o620),
    "readable by others": lambda: PATH.chmod(0o604),
    "in a directory writable by a group": lambda: PATH.parent.chmod(0o770),
    "in another user's directory": lambda: os.chown(PATH.parent, 65534, 65534),
    "a link": as_link,
    "a FIFO": as_another_kind(os.mkfifo),
    "a directory": as_another_kind(os.mkdir),
    "with a damaged head": lambda: flip(300),
    "with a damaged checksum": lambda: flip(CHECKSUM_AT),
    "of another format": lambda: rewrite(FORMAT_AT, "=I", lambda number: number + 1),
    "of another kernel": lambda: rewrite(VDSO_AT, "=Q", lambda number: number + 1),
    "of another boot": lambda: rewrite(snapshot.BOOT_AT, "=B", lambda number: number ^ 1),
    "of another interpreter": lambda: rewrite(
        snapshot.MAPPED_AT + 8, "=Q", lambda number: number + 1
    ),
    "of other modules": lambda: rewrite(
        snapshot.WATCHED_AT + 24, "=Q", lambda number: number - 10**9
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_what_does_not_fit_is_not_used(
    made: Path, runtime: Runtime, container: MakeContainer, damage: Callable[[], object]
) -> None:
    mode, owner = made.parent.stat().st_mode & 0o7777, made.parent.stat().st_uid
    try:
        damage()
        assert FROM_INTERPRETER in way(runtime)
        whole_life(container, runtime)
    finally:
        os.chown(made.parent, owner, 0)
        made.parent.chmod(mode)
        if made.is_dir():
            made.rmdir()
        made.unlink(missing_ok=True)
        Path(f"{made}.elsewhere").unlink(missing_ok=True)
        # A create makes a new one in the background of what has only become stale.
        assert processes.until(lambda: not processes.descendants(), 20)


def test_a_file_switches_it_off(made: Path, runtime: Runtime, work: Path) -> None:
    upper, spare = work / "upper", work / "spare"
    (upper / "ociruntime").mkdir(parents=True)
    spare.mkdir()
    options = f"lowerdir=/etc,upperdir={upper},workdir={spare}"
    isolation.mount("overlay", "/etc", "overlay", data=options)
    try:
        Path(snapshot.SWITCH).touch()
        assert f"disabled by {snapshot.SWITCH}" in way(runtime)
        assert runtime("snapshot", "status", "ociruntime").status == 1
    finally:
        isolation.unmount("/etc")


def test_replaced_by_many_while_it_is_used(made: Path, runtime: Runtime) -> None:
    makers = [
        threading.Thread(target=lambda: runtime("snapshot", "make", "ociruntime").ok())
        for _ in range(20)
    ]
    for maker in makers:
        maker.start()
    while any(maker.is_alive() for maker in makers):
        assert "started" in way(runtime)
    for maker in makers:
        maker.join()
    assert FROM_SNAPSHOT in way(runtime)
    assert [name for name in os.listdir(made.parent) if name in NAMES] == [made.name]


def test_without_huge_pages(made: Path, runtime: Runtime, container: MakeContainer) -> None:
    """If the kernel has none available, small ones are mapped from the file."""
    one = container().started()
    command = without_huge_pages(runtime.command("--debug", "exec", one.id, "echo", "hi"))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "hi\n"
    assert FROM_SNAPSHOT in done.stderr


@pytest.mark.parametrize("huge", [True, False])
def test_copied_where_faults_are_slow(
    huge: bool, made: Path, runtime: Runtime, container: MakeContainer
) -> None:
    """Writable regions are then copied from the file, as in User-Mode Linux."""
    for one in regions(made.read_bytes()):
        if one.content == SNAPSHOT and one.writable:
            rewrite(one.place + CONTENT_AT, "=i", lambda _: COPIED)
    command = runtime.command("--debug", "exec", container().started().id, "echo", "hi")
    if not huge:
        command = without_huge_pages(command)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "hi\n"
    assert FROM_SNAPSHOT in done.stderr


def test_no_region_is_half_in_huge_pages(made: Path) -> None:
    """If the end of the heap is behind them, it is mapped like all else."""
    data = made.read_bytes()
    heap, size = struct.unpack_from("=QQ", data, snapshot.BOOT_AT + snapshot.BOOT_SIZE)
    assert size > 0
    assert heap % snapshot.HUGE_PAGE == size % snapshot.HUGE_PAGE == 0
    inside = 0
    for one in regions(data):
        end = one.address + one.size
        assert end <= heap or one.address >= heap + size or (
            heap <= one.address and end <= heap + size
        )  # fmt: skip
        inside += heap <= one.address < heap + size
    assert inside


def test_on_a_kernel_without_checkpoint_restore(made: Path, runtime: Runtime) -> None:
    """Such a kernel does not report where the C library keeps the thread id."""
    by_kernel = thread_id_place(made)
    made.unlink()
    command = runtime.command("snapshot", "make", "ociruntime")
    code = "import os, sys; from tests.support.refusal import refuse_prctl; "
    code += (
        f"refuse_prctl({errno.EINVAL}, {PR_GET_TID_ADDRESS}); os.execv(sys.argv[1], sys.argv[1:])"
    )
    subprocess.run([sys.executable, "-c", code, *command], cwd=project.ROOT, check=True)
    assert thread_id_place(made) == by_kernel
    assert FROM_SNAPSHOT in way(runtime)


EXECUTABLE_HEAP = """
import ctypes
with open("/proc/self/maps") as maps:
    found = next(line.split()[0].split("-") for line in maps if line.endswith("[heap]\\n"))
first, last = (int(address, 16) for address in found)
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(first), ctypes.c_size_t(last - first), 7) == 0
"""


def test_made_where_the_heap_is_executable(made: Path, runtime: Runtime) -> None:
    """It is on the kernel of User-Mode Linux."""
    made.unlink()
    library = runtime.path.parent.parent / f"lib/python3.{sys.version_info.minor}/site-packages"
    code = f"import sys; sys.path.insert(0, {str(library)!r})\n"
    code += "from ociruntime.startup import snapshot\n"
    code += f"snapshot.CHILD = {EXECUTABLE_HEAP!r} + snapshot.CHILD; snapshot.make({str(made)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert FROM_SNAPSHOT in way(runtime)


def thread_id_place(path: Path) -> int:
    """Return the offset of the thread id from the thread pointer in a snapshot."""
    pointer, place = struct.unpack_from("=QQ", path.read_bytes(), THREAD_POINTER_AT)
    return int(place - pointer)


def test_nothing_of_its_makers_is_in_it(made: Path, runtime: Runtime, work: Path) -> None:
    environment = {**os.environ, "TOKEN": SECRET}
    with (work / SECRET).open("w") as held:
        command = [str(runtime.path), "--log", str(work / SECRET), "snapshot", "make", "ociruntime"]
        fds = (held.fileno(),)
        subprocess.run(command, env=environment, cwd=work, pass_fds=fds, check=True)
    content = made.read_bytes()
    assert SECRET.encode() not in content
    assert os.uname().release.encode() not in content, "a fact of the host"


def test_environment_and_arguments_are_the_new_process_s(
    made: Path, runtime: Runtime, container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """A hook without `env` gets the environment of the command."""
    one = container(bundle())
    script = f'echo "$WORD" >{work}/told'
    one.bundle.config["hooks"] = {
        "createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", script]}]
    }
    one.bundle.save()
    environment = {"PATH": "/usr/bin:/bin", "WORD": "of this call"}
    runtime("create", "--bundle", str(one.bundle.path), one.id, env=environment).silent()
    one.exists = True
    assert (work / "told").read_text() == "of this call\n"


def is_interpreter(pid: int) -> bool:
    """Return whether the process has become an interpreter, which ignores SIGPIPE."""
    return signal.SIGPIPE in signals(pid, "SigIgn")


@pytest.mark.parametrize("ignored", [False, True])
def test_a_signal_that_the_caller_ignores_stays_ignored(
    made: Path, runtime: Runtime, container: MakeContainer, ignored: bool
) -> None:
    one = container().started()
    command = [str(runtime.path), "--root", str(runtime.root), "events", one.id]
    word = "''" if ignored else "-"
    shell = ["sh", "-c", f'trap {word} INT; exec "$@"', "sh", *command]
    child = subprocess.Popen(shell, stdout=subprocess.DEVNULL)
    try:
        assert processes.until(lambda: is_interpreter(child.pid))
        assert processes.until(lambda: (signal.SIGINT in signals(child.pid, "SigIgn")) == ignored)
    finally:
        child.kill()
        child.wait()


def test_what_its_maker_ignores_is_not_in_it(
    made: Path, runtime: Runtime, container: MakeContainer
) -> None:
    """nohup, or a shell's background job, may call the first `create` of a boot."""
    one = container().started()
    shell = ["sh", "-c", 'trap "" INT HUP TERM CHLD; exec "$@"', "sh"]
    subprocess.run([*shell, str(runtime.path), "snapshot", "make", "ociruntime"], check=True)
    command = [str(runtime.path), "--root", str(runtime.root), "events", one.id]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        assert processes.until(lambda: is_interpreter(child.pid))
        ignored = signals(child.pid, "SigIgn")
        assert not ignored & {signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD}
    finally:
        child.kill()
        child.wait()


def test_refresh_leaves_a_fitting_one_alone(made: Path, runtime: Runtime) -> None:
    inode = made.stat().st_ino
    assert runtime("snapshot", "refresh", "ociruntime").ok().out == f"{made}: unchanged\n"
    assert made.stat().st_ino == inode
    rewrite(snapshot.BOOT_AT, "=B", lambda number: number ^ 1)
    assert runtime("snapshot", "refresh", "ociruntime").ok().out == f"{made}: made\n"
    assert FROM_SNAPSHOT in way(runtime)


@pytest.mark.parametrize("damage", ["truncated", "of another format", "with a damaged head"])
def test_a_damaged_one_is_made_anew(made: Path, runtime: Runtime, damage: str) -> None:
    """A package upgrade may change the format within one boot."""
    DAMAGE[damage]()
    assert "damaged, or" in runtime("snapshot", "status", "ociruntime").out
    assert runtime("snapshot", "refresh", "ociruntime").ok().out == f"{made}: made\n"
    assert FROM_SNAPSHOT in way(runtime)


@pytest.mark.parametrize(
    ("main_file", "outcome"), [("etc/passwd", "unchanged"), ("etc/no-such-file", "made")]
)
def test_another_installation_s_is_replaced_once_that_is_removed(
    made: Path, runtime: Runtime, main_file: str, outcome: str
) -> None:
    """Otherwise all commands would start cold until the next boot."""
    content = bytearray(made.read_bytes())
    place = snapshot.PATHS_AT + snapshot.COUNTS.unpack_from(content, snapshot.COUNTS_AT)[5]
    end = content.index(0, place)
    content[place:end] = main_file.encode().rjust(end - place, b"/")
    made.write_bytes(content)
    rewrite(place, "=B", lambda slash: slash)  # for the checksum
    assert "another installation" in runtime("snapshot", "status", "ociruntime").out
    assert runtime("snapshot", "refresh", "ociruntime").ok().out == f"{made}: {outcome}\n"
    if outcome == "made":
        assert FROM_SNAPSHOT in way(runtime)


def test_refresh_does_not_wait_for_another_maker(made: Path, runtime: Runtime) -> None:
    """100 creates at once after a boot must not queue up 100 makers."""
    made.unlink()
    unfinished = Path(f"{made}.new")
    with unfinished.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert runtime("snapshot", "refresh", "ociruntime").ok().out == f"{made}: unchanged\n"
        assert unfinished.exists()
    assert not made.exists()
    assert runtime("snapshot", "refresh", "ociruntime").ok().out == f"{made}: made\n"


def test_remove_waits_for_another_maker(made: Path, runtime: Runtime) -> None:
    """Uninstalling right after the first command leaves no snapshot behind."""
    unfinished = made.rename(f"{made}.new")
    with unfinished.open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        argv = [str(runtime.path), "snapshot", "remove", "ociruntime"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as remover:
            with pytest.raises(subprocess.TimeoutExpired):
                remover.wait(0.5)
            unfinished.rename(made)
            other.close()
            assert remover.stdout is not None
            assert remover.stdout.read() == f"{made}: removed\n"
    assert not made.exists()
    assert not unfinished.exists()


def test_a_locked_directory_does_not_prevent_making_it(made: Path, runtime: Runtime) -> None:
    """Any user who can open a directory can lock it."""
    directory = os.open(made.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        runtime("snapshot", "make", "ociruntime").ok()
    finally:
        os.close(directory)


def test_a_passing_failure_leaves_nothing(made: Path, runtime: Runtime) -> None:
    made.unlink()
    command = ["prlimit", "--fsize=65536", str(runtime.path), "snapshot", "make", "ociruntime"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "write the snapshot: File too large" in done.stderr
    assert [name for name in os.listdir(made.parent) if name in NAMES] == []
    runtime("snapshot", "make", "ociruntime").ok()


def test_a_file_that_changes_meanwhile_is_noticed(made: Path, runtime: Runtime) -> None:
    """The loaded modules may be older than the files recorded with them."""
    made.unlink()
    program = f"""
from ociruntime.startup import snapshot
files = snapshot._sources()
snapshot._sources = lambda: {{path: (0, 0, 0, 0) for path in files}}
snapshot.make({str(made)!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "InternalError" in done.stderr
    assert "has changed since" in done.stderr
    assert [name for name in os.listdir(made.parent) if name in NAMES] == []


def test_the_caller_s_umask_does_not_matter(made: Path, runtime: Runtime) -> None:
    made.unlink()
    command = [
        "sh",
        "-c",
        'umask 777; exec "$@"',
        "sh",
        str(runtime.path),
        "snapshot",
        "make",
        "ociruntime",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert made.stat().st_mode & 0o777 == 0o600
    assert FROM_SNAPSHOT in way(runtime)


def test_root_of_a_user_namespace_starts_no_maker(made: Path, runtime: Runtime) -> None:
    """It cannot write below /run, and each of its creates would try again."""
    directory = str(made.parent)
    program = "from ociruntime.startup import snapshot; "
    program += f"print(snapshot._is_possible({directory!r}))"
    shell = ["unshare", "--user", "--map-root-user", "setpriv", "--bounding-set=-all"]
    python = [sys.executable, "-c", program]
    os.chown(made.parent, 65534, 65534)
    try:
        done = subprocess.run([*shell, *python], capture_output=True, text=True, check=True)
    finally:
        os.chown(made.parent, 0, 0)
    assert done.stdout == "False\n"


def test_an_unfinished_one_is_not_shared(made: Path, runtime: Runtime) -> None:
    """A killed maker's child may still write to it: the next maker uses another file."""
    unfinished = Path(f"{made}.new")
    with unfinished.open("w") as orphan:
        runtime("snapshot", "make", "ociruntime").ok()
        orphan.write("of another process")
    assert b"of another process" not in made.read_bytes()
    assert FROM_SNAPSHOT in way(runtime)
    assert not unfinished.exists()


def signals(pid: int, mask: str) -> set[int]:
    """Return the signals in one line of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (word,) = [line.split()[1] for line in lines if line.startswith(mask)]
    return {number for number in range(1, 65) if int(word, 16) & 1 << (number - 1)}


def test_nothing_stays_open(made: Path, runtime: Runtime, container: MakeContainer) -> None:
    """The fast path falls back while the container's directory is open and locked."""
    one = container().started()
    command = [str(runtime.path), "--root", str(runtime.root), "events", one.id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            place = f"/proc/{child.pid}/fd"
            links = [os.readlink(f"{place}/{fd}") for fd in os.listdir(place)]
            assert not any("snapshot" in link or "state" in link for link in links), links
        finally:
            child.kill()
