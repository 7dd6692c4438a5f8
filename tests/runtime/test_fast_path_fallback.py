"""Cases that the fast path leaves to Python, which continues where it stopped."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ociruntime.runtime.cgroups import freezer
from tests.support import cgroupfs, processes
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.fast_path import LEFT_TO_PYTHON, Alone, after, plain
from tests.support.plugin import TAG, MakeBundle, MakeContainer
from tests.support.runtime import Result, Runtime, execute

pytestmark = pytest.mark.judge_by("ociruntime")


@pytest.mark.parametrize("kind", ["poststart", "poststop"])
def test_hooks_are_left_to_python(
    container: MakeContainer, bundle: MakeBundle, alone: Alone, work: Path, kind: str
) -> None:
    one = bundle()
    one.hooks[kind] = [{"path": "/bin/touch", "args": ["touch", str(work / "ran")]}]
    made = container(one).created()
    if kind == "poststart":
        alone("start", made.id).failed(LEFT_TO_PYTHON)
        assert '"created"' in alone("state", made.id).ok().out
        made.start().silent()
    else:
        alone("start", made.id).silent()
        alone("delete", "--force", made.id).failed(LEFT_TO_PYTHON)
        assert processes.alive(made.pid)
        made.delete("--force").silent()
    assert (work / "ran").exists()


def wait_for_end(pid: int) -> bool:
    return processes.until(lambda: not processes.alive(pid))


def failing_hook(bundle: Bundle) -> None:
    bundle.hooks["startContainer"] = [
        {"path": "/bin/sh", "args": ["sh", "-c", "echo no >&2; exit 7"], "env": ["PATH=/bin"]}
    ]


def no_loader(bundle: Bundle) -> None:
    """A program that is found and executable, but whose interpreter is missing."""
    script = bundle.rootfs / "script"
    script.write_text("#!/nowhere\n")
    script.chmod(0o755)
    bundle.process["args"] = ["/script"]


def no_process(bundle: Bundle) -> None:
    del bundle.config["process"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (failing_hook, "startContainer[0]"),
        (no_loader, "/script"),
        (no_process, "has no process"),
    ],
)
def test_failing_start(
    container: MakeContainer,
    bundle: MakeBundle,
    runtime: Runtime,
    python: Runtime,
    change: Callable[[Bundle], None],
    words: str,
) -> None:
    """The container reports it once; message and consequences are those of Python."""
    ends = []
    for how in (runtime, python):
        one = bundle()
        change(one)
        made = container(one).created()
        result = how("start", made.id).failed(words)
        if change is not no_process:
            assert wait_for_end(made.pid)
        ends.append((plain(result, made.id), *after(made, python)))
        made.exists = made.id in os.listdir(runtime.root)
    assert ends[0] == ends[1]


def test_killed_while_starting(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, python: Runtime
) -> None:
    ends = []
    for how in (runtime, python):
        one = bundle()
        wait = "echo >> /waiting; sleep 50"
        one.hooks["startContainer"] = [
            {"path": "/bin/sh", "args": ["sh", "-c", wait], "env": ["PATH=/bin"]}
        ]
        made = container(one).created()
        with (one.path / "err").open("wb") as err:
            starting = how.popen("start", made.id, stderr=err)
            assert processes.until((one.rootfs / "waiting").exists)
            os.kill(made.pid, 9)
            status = starting.wait(20)
        message = Result([], status, "", (one.path / "err").read_text())
        message.failed("was killed")
        ends.append((plain(message, made.id), *after(made, python)))
    assert ends[0] == ends[1]


def test_unknown_container(
    runtime: Runtime, alone: Alone, python: Runtime, state_root: Path
) -> None:
    state_root.mkdir(exist_ok=True)
    nobody = f"{TAG}nobody"
    for verb in ("state", "start", "kill", "delete"):
        result = runtime(verb, nobody)
        assert plain(result, nobody) == plain(python(verb, nobody), nobody)
        result.failed("does not exist")
    alone("delete", "--force", nobody).silent()


@pytest.mark.parametrize("prefix", [".creating-", ".deleting-"])
def test_leftovers_are_cleared(
    runtime: Runtime, alone: Alone, state_root: Path, prefix: str
) -> None:
    left = state_root / f"{prefix}{TAG}left"
    left.mkdir(parents=True)
    (left / "config.json").write_text("{}")
    alone("delete", "--force", f"{TAG}left").failed(LEFT_TO_PYTHON)
    runtime("delete", "--force", f"{TAG}left").silent()
    assert not left.exists()


@pytest.mark.parametrize("verb", ["start", "delete"])
def test_somebody_else_at_work(container: MakeContainer, alone: Alone, verb: str) -> None:
    one = container().created()
    held = os.open(one.runtime.root / one.id, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        alone(verb, one.id).failed(LEFT_TO_PYTHON)
        assert '"created"' in alone("state", one.id).ok().out
    finally:
        os.close(held)
    alone(verb, one.id).silent()
    one.exists = verb != "delete"


def members_without_init(one: Container) -> list[int]:
    place = cgroupfs.directory(one.pid, "pids")
    return [int(word) for word in (place / "cgroup.procs").read_text().split()]


@pytest.mark.parametrize("command", ["kill KILL", "delete --force"])
def test_shared_pid_namespace(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, command: str
) -> None:
    """The other processes outlive the init."""
    one = bundle("sh", "-c", "sleep 100 & echo ready; wait")
    spaces = one.linux["namespaces"]
    one.linux["namespaces"] = [space for space in spaces if space["type"] != "pid"]
    made = container(one).started()
    made.wait_output("ready")
    members = members_without_init(made)
    assert len(members) == 2
    verb, word = command.split()
    runtime(verb, made.id, word).silent()
    processes.until(lambda: not any(map(processes.alive, members)))
    assert not any(map(processes.alive, members))
    made.exists = verb == "kill"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "version": lambda data: data.replace(b"ociruntime-entry 1\n", b"ociruntime-entry 2\n"),
    "truncated": lambda data: data[:60],
    "empty": lambda data: b"",
    "long": lambda data: data + b"x" * 65536,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_unreadable_entry(
    container: MakeContainer, runtime: Runtime, alone: Alone, damage: str
) -> None:
    one = container().created()
    entry = runtime.root / one.id / "entry"
    before = one.state()
    entry.write_bytes(DAMAGES[damage](entry.read_bytes()))
    for verb in ("state", "start", "kill", "delete"):
        alone(verb, one.id).failed(LEFT_TO_PYTHON)
    assert one.state() == before


WRONG_VALUES = {
    "pid": ("0", "4294967295"),
    "started": ("0",),
    "owner": ("4294967295",),
    "cgroup": ("\ncgroup ".join(["/a"] * 40), "a"),
    "parent": ("\nparent ".join(["/a"] * 200), "a"),
}


def damaged_lines(entry: bytes) -> dict[str, bytes]:
    """Return damaged versions of an entry by description: lines missing or with other values."""
    facts, blank, rest = entry.partition(b"\n\n")
    lines = facts.decode().split("\n")
    found = {}
    for number, line in enumerate(lines[1:], 1):
        name = line.split(" ")[0]
        values = ("x", "1x", "9" * 30, "\0", *WRONG_VALUES.get(name, ()))
        for change in ([], [name], *([f"{name} {value}"] for value in values)):
            damaged = "\n".join([*lines[:number], *change, *lines[number + 1 :]])
            found[f"{line} -> {change}"] = damaged.encode() + blank + rest
    for count in range(len(lines)):
        found[f"{count} lines"] = "\n".join(lines[:count]).encode()
    pieces = rest.split(b"\0")
    for count in range(len(pieces)):
        found[f"{count} pieces"] = facts + blank + b"\0".join(pieces[:count])
    found["one piece more"] = entry + b"\0"
    return found


def test_damaged_lines(container: MakeContainer, runtime: Runtime, alone: Alone) -> None:
    """Whatever the entry contains, the answer is that of Python, or none without Python."""
    one = container().created()
    entry = runtime.root / one.id / "entry"
    before, whole = one.state(), entry.read_bytes()
    for damage, data in damaged_lines(whole).items():
        entry.write_bytes(data)
        result = alone("state", one.id)
        if result.status:
            result.failed(LEFT_TO_PYTHON)
        else:
            assert json.loads(result.out) == before, damage
    entry.write_bytes(whole)
    assert json.loads(alone("state", one.id).ok().out) == before


def test_entry_of_an_older_version(container: MakeContainer, runtime: Runtime) -> None:
    """The container was created before this file existed."""
    one = container().created()
    (runtime.root / one.id / "entry").unlink()
    one.start().silent()
    assert one.status == "running"
    one.kill("KILL").silent()
    one.wait()
    one.delete().silent()


# System calls, and which one behind those that remove cgroups (csrc/libc does it by unlinkat, too).
INSTANTS = {
    "before the signal": "pidfd_send_signal",
    "before the cgroups": "unlinkat,rmdir",
    "before the renaming": "renameat,renameat2",
    "before the files": "unlinkat@1",
    "among the files": "unlinkat@2",
}


@pytest.mark.parametrize("instant", INSTANTS)
def test_delete_killed_on_its_way(container: MakeContainer, runtime: Runtime, instant: str) -> None:
    """Wherever it is killed, the next one completes it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    one = container().started()
    kept = (runtime.root / one.id / "entry").read_bytes().splitlines()
    cgroups = sum(line.startswith((b"cgroup ", b"parent ")) for line in kept)
    name, _, number = INSTANTS[instant].partition("@")
    inject = f"inject={name}:signal=KILL" + (f":when={cgroups + int(number)}" if number else "")
    command = runtime.command("delete", "--force", one.id)
    done = execute([strace, "-qq", "-o", "/dev/null", "-e", inject, *command])
    assert done.status == -9
    runtime("delete", "--force", one.id).silent()
    assert not [name for name in os.listdir(runtime.root) if one.id in name]
    one.exists = False


def test_output_that_nobody_takes(container: MakeContainer, runtime: Runtime) -> None:
    one = container().created()
    for target, words in (("/dev/full", "no space left"), ("|", "")):
        if target == "|":
            reader, writer = os.pipe()
            os.close(reader)
        else:
            writer = os.open(target, os.O_WRONLY)
        with (one.bundle.path / "err").open("w+b") as err:
            done = subprocess.run(runtime.command("state", one.id), stdout=writer, stderr=err)
            err.seek(0)
            said = err.read().decode()
        os.close(writer)
        assert done.returncode == 1
        assert words in said
        assert bool(said) == bool(words)


def test_resume_below_a_frozen_cgroup(
    container: MakeContainer, bundle: MakeBundle, alone: Alone
) -> None:
    """The message names the cgroup above, which stays frozen."""
    below = bundle()
    below.linux["cgroupsPath"] = f"/{TAG}above/below"
    one = container(below).started()
    above = cgroupfs.directory(one.pid, "freezer").parent
    version = 2 if cgroupfs.is_v2() else 1
    freezer.freeze(str(above), version)
    try:
        alone("resume", one.id).failed(LEFT_TO_PYTHON)
        one.runtime("resume", one.id).failed(one.id, str(above), "frozen")
    finally:
        freezer.thaw(str(above), version)


def test_pause_that_takes_long(container: MakeContainer, alone: Alone, work: Path) -> None:
    """Python waits longer.

    The freezer here is a file whose state never becomes FROZEN.
    """
    one = container().started()
    (work / "freezer").mkdir()
    state = work / "freezer" / "freezer.state"
    state.write_text("FREEZING\n")
    entry = one.runtime.root / one.id / "entry"
    lines = entry.read_bytes().split(b"\n")
    freezing = next(at for at, line in enumerate(lines) if line.startswith(b"freezer "))
    lines[freezing] = f"freezer {state}".encode()
    first = next(at for at, line in enumerate(lines) if line.startswith(b"cgroup "))
    lines[first] = f"cgroup {state.parent}".encode()
    entry.write_bytes(b"\n".join(lines))
    alone("pause", one.id).failed(LEFT_TO_PYTHON)
    assert state.read_text().startswith("FROZEN")
    one.runtime("pause", one.id).silent()
    state.write_text("THAWED\n")
    one.runtime("resume", one.id).silent()
