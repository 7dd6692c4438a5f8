"""podman, whose conmon creates the containers with the runtime under test."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.image import NAME
from tests.engines.podman import Podman
from tests.engines.scripts import MIB, WAITS_FOR_TERM, WAITS_FOR_USR1, converse
from tests.support import cgroupfs, processes
from tests.support.peers import deviates
from tests.support.seccomp_agent import Agent


def await_log(podman: Podman, name: str, text: str) -> None:
    """Wait until the container has printed the text."""
    assert processes.until(lambda: text in podman("logs", name).ok().out), podman("logs", name)


def test_streams_are_the_container_s(podman: Podman) -> None:
    result = podman.run("--rm", NAME, "sh", "-c", "echo out; echo error >&2").ok()
    assert (result.out, result.err) == ("out\n", "error\n")


def test_input(podman: Podman, work: Path) -> None:
    (work / "words").write_text("one\ntwo\n")
    with (work / "words").open("rb") as words:
        assert podman.run("--rm", "-i", NAME, "sort", "-r", stdin=words).ok().out == "two\none\n"


@pytest.mark.parametrize("status", [1, 42, 255])
def test_exit_status(podman: Podman, status: int) -> None:
    assert podman.run("--rm", NAME, "sh", "-c", f"exit {status}").status == status


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("no-such-program", 127, "executable file not found in $PATH"),
        ("/no/such/program", 127, "no such file or directory"),
        ("/etc/plain", 126, "permission denied"),
        pytest.param("/etc", 126, "is a directory", marks=deviates(runc="permission denied")),
    ],
)
def test_program_that_cannot_start(podman: Podman, program: str, status: int, words: str) -> None:
    """Podman derives the exit status from the message in the runtime's log."""
    result = podman.run("--rm", NAME, program)
    assert (result.status, result.out) == (status, "")
    assert words in result.err
    assert "level=" not in result.err, "podman did not understand the log"


def test_log(podman: Podman) -> None:
    podman.background("one", NAME, "sh", "-c", "echo first; echo second >&2; exit 7")
    assert podman("wait", "one").ok().out == "7\n"
    result = podman("logs", "one").ok()
    assert (result.out, result.err) == ("first\n", "second\n")


def test_states(podman: Podman) -> None:
    """``podman init`` is the runtime's create; a stopped container can be started again."""
    podman(*podman.new("create", "--name=one", NAME, "sh", "-c", WAITS_FOR_TERM)).ok()
    assert podman.inspect("one", ".State.Status") == "created"
    podman("init", "one").ok()
    assert podman.inspect("one", ".State.Status") == "initialized"
    for _ in range(2):
        podman("start", "one").ok()
        assert podman.inspect("one", ".State.Status") == "running"
        assert podman("ps", "--format", "{{.Names}} {{.Status}}").ok().out[:6] == "one Up"
        podman("stop", "--time", "1", "one").ok()
        assert podman.inspect("one", ".State.Status") == "exited"
        assert podman("ps", "--format", "{{.Names}}").ok().out == ""
    podman("rm", "one").ok()
    assert podman.containers() == []


def test_stop_with_a_handler(podman: Podman) -> None:
    podman.background("one", NAME, "sh", "-c", WAITS_FOR_TERM)
    await_log(podman, "one", "ready")
    podman("stop", "one").ok()
    assert podman.inspect("one", ".State.ExitCode") == "3"


def test_stop_without_a_handler(podman: Podman) -> None:
    """The init of a pid namespace ignores TERM; KILL follows."""
    podman.background("one", NAME, "sleep", "100")
    podman("stop", "--time", "1", "one").ok()
    assert podman.inspect("one", ".State.ExitCode") == "137"


@pytest.mark.parametrize(("signal", "status"), [("USR1", "9"), ("KILL", "137")])
def test_kill(podman: Podman, signal: str, status: str) -> None:
    podman.background("one", NAME, "sh", "-c", WAITS_FOR_USR1)
    await_log(podman, "one", "ready")
    result = podman("kill", "--signal", signal, "one").ok()
    assert result.err == ""
    assert podman("wait", "one").ok().out == f"{status}\n"


def test_remove_by_force(podman: Podman) -> None:
    podman.background("one", NAME, "sleep", "100")
    pid = podman.pid("one")
    podman("rm", "--force", "--time", "0", "one").ok()
    assert not processes.alive(pid)


def test_limits(podman: Podman) -> None:
    flags = ["--memory=64m", "--memory-reservation=32m", "--pids-limit=33", "--cpus=0.5"]
    flags += ["--cpuset-cpus=0"] if cgroupfs.has("cpuset") else []
    podman.background("one", *flags, "--cpu-shares=512", NAME, "sleep", "100")
    pid = podman.pid("one")
    found = [
        cgroupfs.setting(pid, "memory", "memory.limit_in_bytes", "memory.max"),
        cgroupfs.setting(pid, "memory", "memory.soft_limit_in_bytes", "memory.low"),
        cgroupfs.setting(pid, "pids", "pids.max", "pids.max"),
    ]
    assert found == [str(64 * MIB), str(32 * MIB), "33"]
    if cgroupfs.has("cpuset"):
        assert cgroupfs.setting(pid, "cpuset", "cpuset.cpus", "cpuset.cpus") == "0"
    quota = cgroupfs.setting(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
    assert quota in ("50000", "50000 100000")


def test_out_of_memory(podman: Podman) -> None:
    """Conmon detects OOM kills from the cgroup."""
    script = "dd if=/dev/zero of=/dev/null bs=100M count=1"
    podman.background("one", "--memory=16m", "--memory-swap=16m", NAME, "sh", "-c", script)
    assert podman("wait", "one").ok().out != "0\n"
    # Older conmons leave the word where podman was called, and podman looks elsewhere.
    word = podman.home / "oom"
    assert word.exists() or podman.inspect("one", ".State.OOMKilled") == "true"
    word.unlink(missing_ok=True)


def test_capabilities(podman: Podman) -> None:
    assert podman.probe("--cap-drop=all")["capabilities"]["bounding"] == 0
    kept = podman.probe("--cap-drop=all", "--cap-add=net_raw")["capabilities"]
    assert kept["bounding"] == kept["effective"] == kept["permitted"] == 1 << 13


def test_user(podman: Podman) -> None:
    facts = podman.probe("--user=1000:50", "--group-add=7", "--workdir=/tmp", "--env=WORD=a b")
    assert (facts["uid"], facts["gid"], facts["cwd"]) == (1000, 50, "/tmp")
    assert set(facts["groups"]) == {7, 50}
    assert "WORD=a b" in facts["env"]
    assert facts["capabilities"]["effective"] == 0


def test_namespaces(podman: Podman) -> None:
    own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "ipc", "uts")}
    facts = podman.probe("--hostname=ship")
    assert facts["hostname"] == "ship"
    assert not own.items() & facts["namespaces"].items()
    shared = podman.probe("--network=host", "--pid=host", "--ipc=host", "--uts=host")
    assert own.items() <= shared["namespaces"].items()


def test_namespaces_of_another_container(podman: Podman) -> None:
    podman.background("one", NAME, "sleep", "100")
    flags = (f"--{kind}=container:one" for kind in ("network", "pid", "ipc"))
    there = podman.probe(*flags)["namespaces"]
    pid = podman.pid("one")
    for kind in ("net", "pid", "ipc"):
        assert there[kind] == os.readlink(f"/proc/{pid}/ns/{kind}")


def test_read_only(podman: Podman) -> None:
    script = "touch /etc/new || echo refused; touch /tmp/new /scratch/new && df /scratch"
    flags = ("--read-only", "--tmpfs=/scratch:size=1m,mode=700")
    out = podman.run("--rm", *flags, NAME, "sh", "-c", script).ok().out
    assert "refused" in out
    assert " 1024 " in out


def test_volumes(podman: Podman, work: Path) -> None:
    for name in ("open", "closed"):
        (work / name).mkdir()
        (work / name / "greeting").write_text(f"{name}\n")
    script = "cat /a/* /b/*; echo new >/a/file; echo new >/b/file || echo refused"
    flags = ("-v", f"{work}/open:/a", "-v", f"{work}/closed:/b:ro", "-v", "kept:/kept")
    result = podman.run("--rm", *flags, NAME, "sh", "-c", script).ok()
    assert result.out == "open\nclosed\nrefused\n"
    assert (work / "open/file").read_text() == "new\n"
    podman("volume", "rm", "kept").ok()


def test_device(podman: Podman) -> None:
    facts = podman.probe("--device=/dev/fuse:/dev/other:r")
    assert facts["devices"]["other"]["kind"] == "c"


def test_init(podman: Podman) -> None:
    """Podman bind-mounts catatonit into the container and makes it the init."""
    host.program("catatonit")
    assert podman.run("--rm", "--init", NAME, "cat", "/proc/1/comm").ok().out == "podman-init\n"


def test_no_new_privileges(podman: Podman) -> None:
    assert podman.probe()["no_new_privs"] == 0
    assert podman.probe("--security-opt=no-new-privileges")["no_new_privs"] == 1


def test_seccomp(podman: Podman) -> None:
    """Without options, podman's own profile is in force."""
    filtered = podman.probe()

    assert filtered["fixed_addresses"] in (errno.EPERM, errno.ENOSYS)
    assert filtered["seccomp"] == 2
    free = podman.probe("--security-opt=seccomp=unconfined")
    assert (free["seccomp"], free["fixed_addresses"]) == (0, 0)


def test_privileged(podman: Podman) -> None:
    facts = podman.probe("--privileged")
    assert facts["seccomp"] == 0
    assert facts["capabilities"]["effective"] & 1 << 21
    script = "mount -t tmpfs none /mnt && echo 1 >/proc/sys/net/ipv4/ip_forward"
    podman.run("--rm", "--privileged", "--tmpfs=/mnt", NAME, "sh", "-c", script).ok()


def test_settings(podman: Podman) -> None:
    flags = ("--sysctl=net.ipv4.ip_default_ttl=33", "--umask=0027", "--oom-score-adj=500")
    limits = ("--ulimit=core=5:6", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")
    facts = podman.probe(*flags, *limits, "--shm-size=1m")
    assert facts["umask"] == 0o027
    assert facts["oom_score_adj"] == "500"
    assert facts["rlimits"]["RLIMIT_CORE"] == [5, 6]
    assert facts["rlimits"]["RLIMIT_NOFILE"] == [1024, 1024]
    read = podman.run("--rm", flags[0], NAME, "cat", "/proc/sys/net/ipv4/ip_default_ttl")
    assert read.ok().out == "33\n"


def test_user_namespace(podman: Podman) -> None:
    facts = podman.probe("--uidmap=0:100000:5000", "--gidmap=0:200000:5000")
    assert facts["uid"] == 0
    assert facts["uid_map"].split() == ["0", "100000", "5000"]
    assert facts["gid_map"].split() == ["0", "200000", "5000"]


@deviates(runc="shows poststart hooks a created container")
def test_hooks(podman: Podman, work: Path) -> None:
    """Annotations and the state document reach the hooks of podman's hook files."""
    (work / "hooks").mkdir()
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"cat >>{work}/states; echo >>{work}/states"]}
    document = {
        "version": "1.0.0",
        "hook": hook,
        "when": {"annotations": {"^ship$": "^yard$"}},
        "stages": ["prestart", "poststart", "poststop"],
    }
    (work / "hooks/one.json").write_text(json.dumps(document))
    place = f"--hooks-dir={work}/hooks"
    # It runs until the second hook has seen it running.
    script = "until [ $(wc -l </here/states) -ge 2 ]; do sleep 0.05; done"
    words = ("--annotation=ship=yard", "--name=one", f"--volume={work}:/here", NAME)
    podman(place, *podman.new("run", *words, "sh", "-c", script)).ok()
    podman(place, "rm", "one").ok()
    decoder, text, states = json.JSONDecoder(), (work / "states").read_text(), []
    while text := text.lstrip():
        state, end = decoder.raw_decode(text)
        states.append(state)
        text = text[end:]
    assert [state["status"] for state in states] == ["creating", "running", "stopped"]
    assert all(state["annotations"]["ship"] == "yard" for state in states)


@deviates(crun="has other words for a missing program")
def test_debug(podman: Podman) -> None:
    """The option of ``--runtime-flag``: only ``start`` logs to podman's standard error."""
    debugging = ("--runtime-flag", "debug")
    result = podman(*debugging, *podman.new("run", "--rm", NAME, "echo", "hi")).ok()
    lines = result.err.splitlines()
    assert (result.out, [one for one in lines if "level=debug" not in one]) == ("hi\n", [])
    failed = podman(*debugging, *podman.new("run", "--rm", NAME, "no-such-program"))
    assert failed.status == 127
    assert "executable file not found in $PATH" in failed.err


@deviates(crun="the container keeps the affinity of podman", runc="the same")
def test_affinity(podman: Podman) -> None:
    """Podman's own CPU affinity is not inherited by its containers and exec processes."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    show = ("sed", "-n", "s/Cpus_allowed:.//p", "/proc/self/status")
    podman.background("one", NAME, "sleep", "1000")
    expected = podman("exec", "one", *show).ok().out
    os.sched_setaffinity(0, cpus[:1])
    try:
        created = podman.run("--rm", NAME, *show).ok().out
        executed = podman("exec", "one", *show).ok().out
    finally:
        os.sched_setaffinity(0, cpus)
    assert (created, executed) == (expected, expected)


def test_seccomp_agent(podman: Podman, work: Path) -> None:
    """An agent named by podman's profile decides about the container's calls."""
    agent = Agent(work / "agent", lambda _number: errno.EEXIST)
    rules = [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_NOTIFY"}]
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": rules,
        "listenerPath": str(agent.path),
    }
    (work / "profile.json").write_text(json.dumps(profile))
    try:
        option = f"--security-opt=seccomp={work}/profile.json"
        result = podman.run("--rm", option, NAME, "mkdir", "/a")
    finally:
        agent.close()
    assert (result.status, len(agent.states)) == (1, 1)
    assert "File exists" in result.err


def test_many_at_once(podman: Podman) -> None:
    # conmon drops the output of a container that ends before podman has attached, with any runtime.
    result = podman.together(6, "--rm", NAME, "sh", "-c", "sleep 1; echo hello").ok()
    assert result.out == "hello\n" * 6


def test_terminal(podman: Podman) -> None:
    converse(podman.terminal("-it", NAME, "sh"))


def test_detached_terminal(podman: Podman) -> None:
    podman.background("one", "-t", NAME, "sh", "-c", "tty; stty size; exit 4")
    assert podman("wait", "one").ok().out == "4\n"
    assert "/dev/pts/0\r\n" in podman("logs", "one").ok().out


def test_removed_when_it_ends(podman: Podman) -> None:
    """Conmon calls podman's cleanup long after the command has returned."""
    podman.background("one", "--rm", NAME, "sleep", "0.1")
    assert processes.until(lambda: not podman.containers())


def test_pod(podman: Podman) -> None:
    """The second container joins the first one's namespaces by path."""
    host.no_plain_directory_among_hierarchies()
    infra = ("--infra-image", NAME, "--infra-command", "sleep 100", "--share=net,ipc,uts")
    parent = f"--cgroup-parent={podman.cgroup}"
    pod = podman("pod", "create", "--name=two", parent, "--network=none", *infra).ok().out.strip()
    try:
        podman("run", "-d", "--pod=two", "--name=first", NAME, "sleep", "100").ok()
        podman("run", "-d", "--pod=two", "--name=second", NAME, "sleep", "100").ok()
        for kind in ("net", "ipc", "uts"):
            first, second = (f"/proc/{podman.pid(n)}/ns/{kind}" for n in ("first", "second"))
            assert os.readlink(first) == os.readlink(second)
        states = podman("pod", "ps", "--format", "{{.Status}}").ok().out
        assert states == "Running\n"
    finally:
        podman("pod", "stop", "--time=0", "two").ok()
        # While a conmon ends, podman cannot remove its cgroup, and says so.
        podman.await_rest()
        podman("pod", "rm", "two").ok()
        # Where podman knows no controller, the pod's cgroup was made for the first container,
        # and goes with it only if that is the last to be removed.
        cgroupfs.remove(cgroupfs.named(pod))


def test_build(podman: Podman, work: Path) -> None:
    """Buildah calls create, start, state and delete itself."""
    lines = [f"FROM {NAME}", "RUN echo words >/made", "USER 1000:1000", "RUN id -u && ! >/made"]
    (work / "Containerfile").write_text("\n".join(lines))
    podman.build(work, "--tag=localhost/made").ok()
    assert podman.run("--rm", "localhost/made", "cat", "/made").ok().out == "words\n"
    podman("rmi", "localhost/made").ok()


def test_failing_build(podman: Podman, work: Path) -> None:
    (work / "Containerfile").write_text(f"FROM {NAME}\nRUN exit 7\n")
    result = podman.build(work)
    assert result.status != 0
    assert "exit status 7" in result.err


def test_without_cgroups(podman: Podman) -> None:
    """Podman passes --cgroup-manager disabled: the container stays in conmon's cgroup."""
    words = ("run", "--rm", "--network=none", "--cgroups=disabled", "--cgroupns=host")
    result = podman(*words, "--cap-drop=mknod", NAME, "cat", "/proc/self/cgroup").ok()
    assert result.out == Path("/proc/self/cgroup").read_text()


def test_exec(podman: Podman) -> None:
    podman.background("one", NAME, "sleep", "100")
    script = "echo out; echo error >&2; exit 7"
    result = podman("exec", "--user", "5:6", "--env", "A=b", "one", "sh", "-c", script)
    assert (result.status, result.out, result.err) == (7, "out\n", "error\n")
    assert podman("exec", "--workdir", "/proc", "one", "pwd").ok().out == "/proc\n"
    assert "/dev/pts/" in podman("exec", "--tty", "one", "tty").ok().out
    podman("exec", "--detach", "one", "touch", "/tmp/made").ok()
    there = ("exec", "one", "test", "-e", "/tmp/made")
    assert processes.until(lambda: podman(*there).status == 0)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("no-such-program", 127, "executable file not found in $PATH"),
        ("/no/such/program", 127, "no such file or directory"),
        ("/etc/plain", 126, "permission denied"),
    ],
)
def test_exec_that_cannot_start(podman: Podman, program: str, status: int, words: str) -> None:
    podman.background("one", NAME, "sleep", "100")
    result = podman("exec", "one", program)
    assert result.status == status
    assert words in result.err


def test_health_check(podman: Podman) -> None:
    flags = ("--health-cmd", "test -e /tmp/healthy", "--health-interval", "disable")
    podman.background("one", *flags, NAME, "sleep", "100")
    assert podman("healthcheck", "run", "one").status == 1
    podman("exec", "one", "touch", "/tmp/healthy").ok()
    podman("healthcheck", "run", "one").ok()


def test_pause(podman: Podman) -> None:
    podman.background("one", NAME, "sleep", "100")
    for _ in range(2):
        podman("pause", "one").ok()
        assert podman.inspect("one", ".State.Status") == "paused"
        podman("unpause", "one").ok()
        assert podman.inspect("one", ".State.Status") == "running"
    podman("pause", "one").ok()
    podman("rm", "--force", "--time=0", "one").ok()


def test_processes(podman: Podman) -> None:
    podman.background("one", NAME, "sh", "-c", "sleep 1001 & sleep 1002; :")
    found = podman("top", "one", "pid", "args").ok().out
    assert "sleep 1002" in found


def test_update(podman: Podman) -> None:
    podman.background("one", "--memory=64m", NAME, "sleep", "100")
    pid = podman.pid("one")
    podman("update", "--memory=96m", "--cpus=0.25", "one").ok()
    found = cgroupfs.setting(pid, "memory", "memory.limit_in_bytes", "memory.max")
    assert found == str(96 * MIB)
    quota = cgroupfs.setting(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
    assert quota in ("25000", "25000 100000")
