"""containerd, whose shim creates the containers with the runtime under test."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tests.engines.containerd import Containerd
from tests.engines.scripts import MIB, WAITS_FOR_TERM, converse
from tests.support import cgroupfs, processes
from tests.support.runtime import Runtime


def await_log(containerd: Containerd, name: str, text: str) -> None:
    """Wait until the container has printed the text."""
    assert processes.until(lambda: text in containerd.log_of(name)), containerd.log_of(name)


def test_streams_are_the_container_s(containerd: Containerd) -> None:
    # ctr stops copying when it hears of the exit: it drops what a short program wrote just before.
    script = "echo out; echo error >&2; sleep 0.5"
    result = containerd.run("one", "--rm", "sh", "-c", script).ok()
    assert (result.out, result.err) == ("out\n", "error\n")


@pytest.mark.parametrize("status", [1, 42, 255])
def test_exit_status(containerd: Containerd, status: int) -> None:
    assert containerd.run("one", "--rm", "sh", "-c", f"exit {status}").status == status


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("no-such-program", "executable file not found in $PATH"),
        ("/no/such/program", "no such file or directory"),
        ("/etc/plain", "permission denied"),
    ],
)
def test_program_that_cannot_start(containerd: Containerd, program: str, words: str) -> None:
    """The shim takes the message from the runtime's log."""
    result = containerd.run("one", "--rm", program)
    assert result.status == 1
    assert "OCI runtime create failed" in result.err
    assert words in result.err
    assert "unable to retrieve" not in result.err


def test_states(containerd: Containerd) -> None:
    containerd.background("one", "sh", "-c", WAITS_FOR_TERM)
    await_log(containerd, "one", "ready")
    pid, state = containerd.tasks()["one"]
    assert state == "RUNNING"
    assert processes.alive(pid)
    containerd("task", "kill", "one").ok()
    containerd.await_state("one", "STOPPED")
    result = containerd("task", "delete", "one")
    assert "exit with non-zero exit code 3" in result.err
    assert containerd.tasks() == {}
    containerd("container", "delete", "one").ok()


def test_runtime_lists_them(containerd: Containerd) -> None:
    """The containers of a namespace have a state root of their own."""
    containerd.background("one", "sleep", "100")
    runtime = Runtime(containerd.runtime, containerd.home / "runtime/default")
    fields = runtime("list").ok().out.splitlines()[1].split()
    assert fields[:3] == ["one", str(containerd.tasks()["one"][0]), "running"]


@pytest.mark.parametrize("flags", [(), ("--all",)])
def test_kill(containerd: Containerd, flags: tuple[str, ...]) -> None:
    containerd.background("one", "sleep", "100")
    containerd("task", "kill", *flags, "--signal", "KILL", "one").ok()
    containerd.await_state("one", "STOPPED")
    assert "code 137" in containerd("task", "delete", "one").err


def test_kill_of_what_has_ended(containerd: Containerd) -> None:
    """The shim recognises this case by the runtime's message."""
    containerd.background("one", "true")
    containerd.await_state("one", "STOPPED")
    assert "not found" in containerd("task", "kill", "--signal", "KILL", "one").err


def test_delete_by_force(containerd: Containerd) -> None:
    containerd.background("one", "sleep", "100")
    pid, _ = containerd.tasks()["one"]
    containerd("task", "delete", "--force", "one")
    assert not processes.alive(pid)


def test_killed_shim(containerd: Containerd) -> None:
    """Without its shim, containerd deletes the container with the runtime's --force."""
    sockets = Path("/run/containerd/s")
    before = set(sockets.iterdir())
    containerd.background("one", "sleep", "100")
    pid, _ = containerd.tasks()["one"]
    shim = processes.parent(pid)
    assert "containerd-shim" in processes.describe(shim)
    processes.end({shim})
    processes.reap_orphans()
    assert processes.until(lambda: not processes.alive(pid))
    assert processes.until(lambda: "one" not in containerd.tasks())
    for left in set(sockets.iterdir()) - before:
        left.unlink()  # the dead shim's own


def test_limits(containerd: Containerd) -> None:
    flags = (f"--memory-limit={64 * MIB}", "--cpus=0.5", "--cpu-shares=512")
    containerd.background("one", *flags, "sleep", "100")
    pid, _ = containerd.tasks()["one"]
    limit = cgroupfs.setting(pid, "memory", "memory.limit_in_bytes", "memory.max")
    assert limit == str(64 * MIB)
    quota = cgroupfs.setting(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
    assert quota in ("50000", "50000 100000")


def test_seccomp(containerd: Containerd) -> None:
    filtered = containerd.probe("--seccomp")
    assert (filtered["seccomp"], filtered["fixed_addresses"]) == (2, errno.EPERM)
    free = containerd.probe()
    assert (free["seccomp"], free["fixed_addresses"]) == (0, 0)


def test_seccomp_profile(containerd: Containerd, work: Path) -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    }
    (work / "profile.json").write_text(json.dumps(profile))
    flags = ("--seccomp", f"--seccomp-profile={work}/profile.json")
    # Not what it prints: under load, ctr loses the output of a program that exits at once.
    assert containerd.run("one", "--rm", *flags, "mkdir", "/new").status == 1
    assert containerd.run("two", "--rm", "mkdir", "/new").status == 0


def test_capabilities(containerd: Containerd) -> None:
    before = containerd.probe()["capabilities"]["effective"]
    flags = ("--cap-drop=CAP_CHOWN", "--cap-add=CAP_SYS_ADMIN")
    after = containerd.probe(*flags)["capabilities"]["effective"]
    assert after == (before & ~1) | 1 << 21


def test_no_new_privileges(containerd: Containerd) -> None:
    assert containerd.probe()["no_new_privs"] == 1
    assert containerd.probe("--allow-new-privs")["no_new_privs"] == 0


def test_process(containerd: Containerd) -> None:
    facts = containerd.probe("--cwd=/tmp", "--env=WORD=a b")
    assert facts["cwd"] == "/tmp"
    assert "WORD=a b" in facts["env"]
    assert facts["rlimits"]["RLIMIT_NOFILE"] == [1024, 1024]


def test_read_only(containerd: Containerd) -> None:
    result = containerd.run("one", "--rm", "--read-only", "touch", "/etc/new")
    assert result.status == 1
    assert "Read-only" in result.err


def test_mounts(containerd: Containerd, work: Path) -> None:
    for name in ("open", "closed"):
        (work / name).mkdir()
        (work / name / "greeting").write_text(f"{name}\n")
    flags = (
        f"--mount=type=bind,src={work}/open,dst=/a,options=rbind:rw",
        f"--mount=type=bind,src={work}/closed,dst=/b,options=rbind:ro",
        "--mount=type=tmpfs,src=tmpfs,dst=/c,options=size=1m:mode=700",
    )
    script = "cat /a/* /b/*; stat -c %a /c; echo new >/a/file; echo new >/b/file || echo refused"
    result = containerd.run("one", "--rm", *flags, "sh", "-c", script).ok()
    assert result.out == "open\nclosed\n700\nrefused\n"
    assert (work / "open/file").read_text() == "new\n"


def test_namespaces(containerd: Containerd) -> None:
    own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "ipc", "uts")}
    assert not own.items() & containerd.probe()["namespaces"].items()
    assert containerd.probe("--net-host")["namespaces"]["net"] == own["net"]


def test_namespaces_of_another_container(containerd: Containerd) -> None:
    """The containers of a pod join those of the first."""
    containerd.background("one", "sleep", "100")
    pid, _ = containerd.tasks()["one"]
    kinds = {"network": "net", "ipc": "ipc", "uts": "uts"}
    flags = [f"--with-ns={kind}:/proc/{pid}/ns/{name}" for kind, name in kinds.items()]
    there = containerd.probe(*flags)["namespaces"]
    assert {name: there[name] for name in kinds.values()} == {
        name: os.readlink(f"/proc/{pid}/ns/{name}") for name in kinds.values()
    }


def test_privileged(containerd: Containerd) -> None:
    facts = containerd.probe("--privileged")
    assert facts["capabilities"]["effective"] & 1 << 21


def test_user_namespace(containerd: Containerd) -> None:
    flags = ("--uidmap=0:100000:5000", "--gidmap=0:200000:5000")
    facts = containerd.probe(*flags)
    assert facts["uid"] == 0
    assert facts["uid_map"].split() == ["0", "100000", "5000"]
    assert facts["gid_map"].split() == ["0", "200000", "5000"]


def test_terminal(containerd: Containerd) -> None:
    converse(containerd.terminal("one", "--rm", "--tty", "sh"))


def test_exec(containerd: Containerd) -> None:
    containerd.background("one", "sleep", "100")
    execute = ("task", "exec", "--exec-id", "x", "--cwd", "/proc", "one")
    result = containerd(*execute, "sh", "-c", "pwd; exit 7")
    assert (result.status, result.out) == (7, "/proc\n")
    missing = containerd(*execute, "no-such-program")
    assert missing.status != 0
    assert "executable file not found in $PATH" in missing.err


def test_pause(containerd: Containerd) -> None:
    containerd.background("one", "sleep", "100")
    containerd("task", "pause", "one").ok()
    containerd.await_state("one", "PAUSED")
    containerd("task", "resume", "one").ok()
    containerd.await_state("one", "RUNNING")


def test_processes_and_metrics(containerd: Containerd) -> None:
    containerd.background("one", "sh", "-c", "sleep 1001 & sleep 1002; :")
    pid, _ = containerd.tasks()["one"]
    assert processes.until(lambda: containerd("task", "ps", "one").ok().out.count("\n") == 4)
    assert str(pid) in containerd("task", "ps", "one").ok().out.split()
    assert "memory" in containerd("task", "metrics", "one").ok().out
