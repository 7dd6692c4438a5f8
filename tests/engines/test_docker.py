"""Docker, whose containerd creates the containers with the runtime under test."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tests.engines.docker import Docker
from tests.engines.image import NAME
from tests.engines.scripts import MIB, WAITS_FOR_TERM, WAITS_FOR_USR1, converse
from tests.support import cgroupfs, processes
from tests.support.peers import deviates


def test_runtime_is_known(docker: Docker) -> None:
    """``docker info`` reads the runtime's version."""
    assert docker("info", "--format", "{{.DefaultRuntime}}").ok().out == "tested\n"
    docker.run("--rm", "--runtime=tested", NAME, "true").ok()


@deviates(crun="has other words for a missing program")
def test_debug(docker: Docker) -> None:
    """The debug output of the runtime is in neither the container's output nor its errors."""
    result = docker.run("--rm", "--runtime=debugging", NAME, "echo", "hi").ok()
    assert (result.out, result.err) == ("hi\n", "")
    failed = docker.run("--rm", "--runtime=debugging", NAME, "no-such-program")
    assert failed.status == 127
    assert "executable file not found in $PATH" in failed.err


def test_streams_are_the_container_s(docker: Docker) -> None:
    result = docker.run("--rm", NAME, "sh", "-c", "echo out; echo error >&2").ok()
    assert (result.out, result.err) == ("out\n", "error\n")


def test_input(docker: Docker, work: Path) -> None:
    (work / "words").write_text("one\ntwo\n")
    with (work / "words").open("rb") as words:
        assert docker.run("--rm", "-i", NAME, "sort", "-r", stdin=words).ok().out == "two\none\n"


@pytest.mark.parametrize("status", [1, 42, 255])
def test_exit_status(docker: Docker, status: int) -> None:
    assert docker.run("--rm", NAME, "sh", "-c", f"exit {status}").status == status


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("no-such-program", 127, "executable file not found in $PATH"),
        ("/no/such/program", 127, "no such file or directory"),
        ("/etc/plain", 126, "permission denied"),
    ],
)
def test_program_that_cannot_start(docker: Docker, program: str, status: int, words: str) -> None:
    """Docker derives the exit status from the message in the runtime's log."""
    result = docker.run("--rm", NAME, program)
    assert (result.status, result.out) == (status, "")
    assert words in result.err
    assert "unable to retrieve" not in result.err


def test_log(docker: Docker) -> None:
    docker.background("one", NAME, "sh", "-c", "echo first; echo second >&2; exit 7")
    assert docker("wait", "one").ok().out == "7\n"
    result = docker("logs", "one").ok()
    assert (result.out, result.err) == ("first\n", "second\n")


def test_states(docker: Docker) -> None:
    docker("create", "--name=one", "--network=none", NAME, "sh", "-c", WAITS_FOR_TERM).ok()
    assert docker.inspect("one", ".State.Status") == "created"
    for _ in range(2):
        docker("start", "one").ok()
        assert docker.inspect("one", ".State.Status") == "running"
        assert docker("ps", "--format", "{{.Names}} {{.Status}}").ok().out[:6] == "one Up"
        docker("stop", "--time", "1", "one").ok()
        assert docker.inspect("one", ".State.Status") == "exited"
        assert docker("ps", "--format", "{{.Names}}").ok().out == ""
    docker("rm", "one").ok()


def test_stop_with_a_handler(docker: Docker) -> None:
    docker.background("one", NAME, "sh", "-c", WAITS_FOR_TERM)
    docker.await_log("one", "ready")
    docker("stop", "one").ok()
    assert docker.inspect("one", ".State.ExitCode") == "3"


def test_stop_without_a_handler(docker: Docker) -> None:
    """The init of a pid namespace ignores TERM; KILL follows."""
    docker.background("one", NAME, "sleep", "100")
    docker("stop", "--time", "1", "one").ok()
    assert docker.inspect("one", ".State.ExitCode") == "137"


@pytest.mark.parametrize(("signal", "status"), [("USR1", "9"), ("KILL", "137")])
def test_kill(docker: Docker, signal: str, status: str) -> None:
    docker.background("one", NAME, "sh", "-c", WAITS_FOR_USR1)
    docker.await_log("one", "ready")
    docker("kill", "--signal", signal, "one").ok()
    assert docker("wait", "one").ok().out == f"{status}\n"


def test_remove_by_force(docker: Docker) -> None:
    docker.background("one", NAME, "sleep", "100")
    pid = docker.pid("one")
    docker("rm", "--force", "one").ok()
    assert not processes.alive(pid)


def test_restart_policy(docker: Docker) -> None:
    docker.run("--detach", "--name=one", "--restart=on-failure:2", NAME, "false").ok()
    assert processes.until(lambda: docker.inspect("one", ".State.Status") == "exited")
    assert docker.inspect("one", ".RestartCount") == "2"


def test_limits(docker: Docker) -> None:
    flags = ("--memory=64m", "--memory-reservation=32m", "--pids-limit=33", "--cpus=0.5")
    docker.background("one", *flags, "--cpu-shares=512", "--cpuset-cpus=0", NAME, "sleep", "100")
    pid = docker.pid("one")
    found = [
        cgroupfs.setting(pid, "memory", "memory.limit_in_bytes", "memory.max"),
        cgroupfs.setting(pid, "memory", "memory.soft_limit_in_bytes", "memory.low"),
        cgroupfs.setting(pid, "pids", "pids.max", "pids.max"),
        cgroupfs.setting(pid, "cpuset", "cpuset.cpus", "cpuset.cpus"),
    ]
    assert found == [str(64 * MIB), str(32 * MIB), "33", "0"]
    quota = cgroupfs.setting(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
    assert quota in ("50000", "50000 100000")


def test_memory_limit_holds(docker: Docker) -> None:
    program = ("dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1")
    assert docker.run("--rm", "--memory=16m", "--memory-swap=16m", NAME, *program).status == 137


def test_capabilities(docker: Docker) -> None:
    assert docker.probe("--cap-drop=all")["capabilities"]["bounding"] == 0
    kept = docker.probe("--cap-drop=all", "--cap-add=net_raw")["capabilities"]
    assert kept["bounding"] == kept["effective"] == kept["permitted"] == 1 << 13


def test_user(docker: Docker) -> None:
    facts = docker.probe("--user=1000:50", "--group-add=7", "--workdir=/tmp", "--env=WORD=a b")
    assert (facts["uid"], facts["gid"], facts["cwd"]) == (1000, 50, "/tmp")
    assert set(facts["groups"]) == {7, 50}
    assert "WORD=a b" in facts["env"]
    assert facts["capabilities"]["effective"] == 0


def test_namespaces(docker: Docker) -> None:
    own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "ipc", "uts")}
    facts = docker.probe("--hostname=ship")
    assert facts["hostname"] == "ship"
    assert not own.items() & facts["namespaces"].items()
    shared = docker.probe("--network=host", "--pid=host", "--ipc=host", "--uts=host")
    assert own.items() <= shared["namespaces"].items()


def test_namespaces_of_another_container(docker: Docker) -> None:
    docker.background("one", "--ipc=shareable", NAME, "sleep", "100")
    flags = (f"--{kind}=container:one" for kind in ("network", "pid", "ipc"))
    there = docker.probe(*flags)["namespaces"]
    pid = docker.pid("one")
    for kind in ("net", "pid", "ipc"):
        assert there[kind] == os.readlink(f"/proc/{pid}/ns/{kind}")


def test_loopback(docker: Docker) -> None:
    """The network namespace is docker's: created by a hook, or joined by path."""
    assert "LOOPBACK,UP" in docker.run("--rm", NAME, "ip", "link").ok().out


def test_read_only(docker: Docker) -> None:
    script = "touch /etc/new || echo refused; touch /scratch/new && df /scratch"
    flags = ("--read-only", "--tmpfs=/scratch:size=1m,mode=700")
    out = docker.run("--rm", *flags, NAME, "sh", "-c", script).ok().out
    assert "refused" in out
    assert " 1024 " in out


def test_volumes(docker: Docker, work: Path) -> None:
    for name in ("open", "closed"):
        (work / name).mkdir()
        (work / name / "greeting").write_text(f"{name}\n")
    script = "cat /a/* /b/*; echo new >/a/file; echo new >/b/file || echo refused"
    flags = ("-v", f"{work}/open:/a", "-v", f"{work}/closed:/b:ro", "-v", "kept:/kept")
    result = docker.run("--rm", *flags, NAME, "sh", "-c", script).ok()
    assert result.out == "open\nclosed\nrefused\n"
    assert (work / "open/file").read_text() == "new\n"
    docker("volume", "rm", "kept").ok()


def test_device(docker: Docker) -> None:
    facts = docker.probe("--device=/dev/null:/dev/other:r")
    assert facts["devices"]["other"]["kind"] == "c"


def test_init(docker: Docker) -> None:
    """docker-init is bind-mounted into the container and is its init."""
    assert docker.run("--rm", "--init", NAME, "cat", "/proc/1/comm").ok().out == "docker-init\n"


def test_no_new_privileges(docker: Docker) -> None:
    assert docker.probe()["no_new_privs"] == 0
    assert docker.probe("--security-opt=no-new-privileges")["no_new_privs"] == 1


def test_seccomp(docker: Docker) -> None:
    """Without options, docker's own profile is in force."""
    filtered = docker.probe()
    assert filtered["seccomp"] == 2
    assert filtered["fixed_addresses"] in (errno.EPERM, errno.ENOSYS)
    free = docker.probe("--security-opt=seccomp=unconfined")
    assert (free["seccomp"], free["fixed_addresses"]) == (0, 0)


def test_seccomp_profile(docker: Docker, work: Path) -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    }
    (work / "profile.json").write_text(json.dumps(profile))
    result = docker.run("--rm", f"--security-opt=seccomp={work}/profile.json", NAME, "mkdir", "/a")
    assert result.status == 1
    assert "not permitted" in result.err


@deviates(runc="1.1 wants every capability that the kernel knows")
def test_privileged(docker: Docker) -> None:
    facts = docker.probe("--privileged")
    assert facts["seccomp"] == 0
    assert facts["capabilities"]["effective"] & 1 << 21
    script = "mount -t tmpfs none /mnt && echo 1 >/proc/sys/net/ipv4/ip_forward"
    docker.run("--rm", "--privileged", "--tmpfs=/mnt", NAME, "sh", "-c", script).ok()


def test_settings(docker: Docker) -> None:
    flags = ("--sysctl=net.ipv4.ip_default_ttl=33", "--oom-score-adj=500", "--ulimit=core=5:6")
    facts = docker.probe(*flags)
    assert facts["oom_score_adj"] == "500"
    assert facts["rlimits"]["RLIMIT_CORE"] == [5, 6]
    read = docker.run("--rm", flags[0], NAME, "cat", "/proc/sys/net/ipv4/ip_default_ttl")
    assert read.ok().out == "33\n"
    size = docker.run("--rm", "--shm-size=1m", NAME, "df", "/dev/shm").ok().out
    assert " 1024 " in size


@deviates(runc="leaves the cgroup above those of BuildKit")
@pytest.mark.parametrize("builder", ["0", "1"], ids=["classic", "buildkit"])
def test_build(docker: Docker, work: Path, builder: str) -> None:
    """The classic builder uses containers; BuildKit calls ``run`` itself."""
    lines = [f"FROM {NAME}", "RUN echo words >/made", "USER 1000:1000", "RUN id -u && ! >/made"]
    (work / "Dockerfile").write_text("\n".join(lines))
    docker.build(builder, work, "--tag=localhost/made").ok()
    assert docker.run("--rm", "localhost/made", "cat", "/made").ok().out == "words\n"
    docker("rmi", "localhost/made").ok()


@deviates(runc="leaves the cgroup above those of BuildKit")
@pytest.mark.parametrize("builder", ["0", "1"], ids=["classic", "buildkit"])
def test_failing_build(docker: Docker, work: Path, builder: str) -> None:
    (work / "Dockerfile").write_text(f"FROM {NAME}\nRUN exit 7\n")
    result = docker.build(builder, work)
    assert result.status != 0
    assert " 7" in result.err


def test_many_at_once(docker: Docker) -> None:
    result = docker.together(6, "--rm", NAME, "echo", "hello").ok()
    assert result.out == "hello\n" * 6


def test_terminal(docker: Docker) -> None:
    converse(docker.terminal("-it", NAME, "sh"))


def test_detached_terminal(docker: Docker) -> None:
    docker.background("one", "-t", NAME, "sh", "-c", "tty; exit 4")
    assert docker("wait", "one").ok().out == "4\n"
    assert "/dev/pts/0\r\n" in docker("logs", "one").ok().out


def test_exec(docker: Docker) -> None:
    docker.background("one", NAME, "sleep", "100")
    script = "echo out; echo error >&2; exit 7"
    result = docker("exec", "--user", "5:6", "--env", "A=b", "one", "sh", "-c", script)
    assert (result.status, result.out, result.err) == (7, "out\n", "error\n")
    assert docker("exec", "--workdir", "/proc", "one", "pwd").ok().out == "/proc\n"
    assert docker("exec", "--privileged", "one", "true").ok().out == ""
    missing = docker("exec", "one", "no-such-program")
    assert missing.status in (126, 127)
    assert "executable file not found in $PATH" in missing.out + missing.err


def test_pause(docker: Docker) -> None:
    docker.background("one", NAME, "sleep", "100")
    docker("pause", "one").ok()
    assert docker.inspect("one", ".State.Status") == "paused"
    assert "paused" in docker("exec", "one", "true").err
    docker("unpause", "one").ok()
    assert docker.inspect("one", ".State.Status") == "running"


def test_processes_and_statistics(docker: Docker) -> None:
    docker.background("one", "--memory=64m", NAME, "sh", "-c", "sleep 1001 & sleep 1002; :")
    assert processes.until(lambda: "sleep 1002" in docker("top", "one", "-o", "pid,args").ok().out)
    found = docker("stats", "--no-stream", "--format", "{{.PIDs}} {{.MemUsage}}", "one").ok().out
    assert found.startswith("3 ")
    assert "64MiB" in found


def test_update(docker: Docker) -> None:
    docker.background("one", "--memory=64m", "--pids-limit=33", NAME, "sleep", "100")
    pid = docker.pid("one")
    docker("update", "--memory=96m", "--memory-swap=128m", "--cpu-shares=512", "one").ok()
    limit = cgroupfs.setting(pid, "memory", "memory.limit_in_bytes", "memory.max")
    assert limit == str(96 * MIB)
    assert cgroupfs.setting(pid, "cpu", "cpu.shares", "cpu.weight") in ("512", "59")
    assert cgroupfs.setting(pid, "pids", "pids.max", "pids.max") == "33"
    docker("update", "--pids-limit=44", "one").ok()
    assert cgroupfs.setting(pid, "pids", "pids.max", "pids.max") == "44"
