"""The order of system calls that safety depends on, in the life of a container like Docker's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import processes, strace
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.strace import Call

PROFILE = Path(__file__).resolve().parent.parent / "data" / "seccomp_profile.json"
OPENING = {"open", "openat", "openat2", "fsopen", "fsmount", "fspick", "open_tree", "memfd_create"}

pytestmark = [
    judge_by("ociruntime"),
    pytest.mark.skipif(strace.PROGRAM is None, reason="strace is not installed"),
]


@pytest.fixture
def docker_like(bundle: MakeBundle) -> Bundle:
    made = bundle()
    made.process["noNewPrivileges"] = False
    made.process["oomScoreAdj"] = 100
    made.linux["seccomp"] = json.loads(PROFILE.read_text())
    made.linux["sysctl"] = {"net.ipv4.ip_forward": "1", "kernel.shmmax": "1000000"}
    return made


def inside(calls: list[Call]) -> list[Call]:
    """Return the calls of the executor and its children, from its start to the program."""
    start = next(i for i, call in enumerate(calls) if call.name == "execveat")
    own = {calls[start].pid}
    found: list[Call] = []
    for call in calls[start + 1 :]:
        if call.pid not in own:
            continue
        if call.name in {"clone", "clone3", "fork"} and call.succeeded:
            own.add(int(call.text.rpartition(" = ")[2].split()[-1].split("<")[0]))
        if call.name == "execve" and call.succeeded:
            return found
        found.append(call)
    raise AssertionError("it has not become the program")


def created(container: Container, output: Path) -> tuple[subprocess.Popen[bytes], set[int]]:
    """Run ``create`` under strace, which stays attached.

    Also return the descriptors of the waiting process.
    """
    container.bundle.save()
    places = ("--bundle", str(container.bundle.path), "--pid-file", str(container.pid_file))
    command = strace.command(output, *container.runtime.command("create", *places), container.id)
    null = subprocess.DEVNULL
    tracing = subprocess.Popen(command, stdin=null, stdout=null, stderr=null)
    container.exists = True
    assert processes.until(
        lambda: container.runtime("state", container.id).out.find('"created"') > 0, 60
    )
    return tracing, {int(name) for name in os.listdir(f"/proc/{container.pid}/fd")}


def whole_life(container: Container, work: Path) -> tuple[list[Call], list[Call]]:
    """Return the calls of `create` and `start`, in one process, and those of `exec`."""
    created_by, executed_by = work / "create.strace", work / "exec.strace"
    tracing, held = created(container, created_by)
    foreign = {os.readlink(f"/proc/{container.pid}/fd/{fd}") for fd in held if fd > 2}
    assert all(name.startswith("socket:") for name in foreign), foreign
    container.start().silent()
    assert processes.until(lambda: os.listdir(f"/proc/{container.pid}/fd") == ["0", "1", "2"])
    words = container.runtime.command("exec", container.id, "true")
    subprocess.run(strace.command(executed_by, *words), check=True, stdin=subprocess.DEVNULL)
    container.delete("--force").ok()
    tracing.wait(60)
    return inside(strace.read(created_by)), inside(strace.read(executed_by))


def place(calls: list[Call], name: str, part: str = "") -> int:
    """Return the position of the last successful call of that name."""
    places = [
        index
        for index, call in enumerate(calls)
        if call.name == name and part in call.text and call.succeeded
    ]
    assert places, f"no {name}"
    return places[-1]


def test_order_of_system_calls(container: MakeContainer, docker_like: Bundle, work: Path) -> None:
    create, execute = whole_life(container(docker_like), work)
    # The filter, then the last capabilities, then the wait or the fork into the pid namespace.
    filters = [place(calls, "seccomp", "SET_MODE_FILTER") for calls in (create, execute)]
    drops = [place(calls, "capset") for calls in (create, execute)]
    assert filters[0] < drops[0] < place(create, "accept4")
    assert filters[1] < drops[1] < place(execute, "clone", "CLONE_PARENT")
    for calls, drop in zip((create, execute), drops, strict=True):
        assert "CAP_SYS_ADMIN" not in calls[drop].text
        assert not any(call.name in OPENING for call in calls[drop:])
    # In the container's root nothing is opened but the root itself and its passwd.
    entered = create[place(create, "pivot_root") :], execute[place(execute, "setns") :]
    for calls in entered:
        opened = [call for call in calls if call.name in OPENING and not is_probe(call)]
        assert [call for call in opened if not allowed_inside(call)] == []
    # Every write to procfs goes through one descriptor, and stays on its superblock.
    for calls in (create, execute):
        (proc,) = [call for call in calls if call.name == "openat" and '"/proc", ' in call.text]
        descriptor = proc.text.rpartition(" = ")[2]
        assert any("O_WRONLY" in call.text for call in calls) or calls is execute
        for call in calls:
            if call.name in OPENING and "O_WRONLY" in call.text:
                assert call.text.startswith(f"openat2({descriptor}, "), call
                assert "RESOLVE_NO_XDEV" in call.text, call
                assert "RESOLVE_NO_MAGICLINKS" in call.text, call
    # Nothing that is opened outlives the exec.
    for call in (*create, *execute):
        if call.name in OPENING and call.succeeded:
            assert "CLOEXEC" in call.text, call


def is_probe(call: Call) -> bool:
    """Return whether the call's only purpose is to test it: its result is not used."""
    return "(-1, " in call.text or "(0xffffffff" in call.text


def allowed_inside(call: Call) -> bool:
    return '"/", ' in call.text or ('"etc/passwd", ' in call.text and "IN_ROOT" in call.text)
