"""podman on top of the runtime, as a user types it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.plugin import TAG
from tests.support.podman import Podman
from tests.support.runtime import Runtime

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not shutil.which("podman"), reason="podman is not installed"),
]

PARENT = f"{TAG}podman"


@pytest.fixture(scope="session")
def installed(runtime: Runtime, base: Path, archive: Path) -> Podman:
    """Podman with the image loaded, once for all tests."""
    one = Podman(runtime, base / "podman", f"/{PARENT}")
    one("load", "--input", str(archive)).ok()
    return one


@pytest.fixture
def podman(installed: Podman, nothing_left: None) -> Iterator[Podman]:
    """Containers of a test are removed at its end; only podman's own parent cgroup may stay."""
    yield installed
    installed("rm", "--force", "--all", "--time", "0").ok()
    processes.until(lambda: not processes.descendants(), 5)
    own = [place for place in cgroupfs.named(PARENT) if place.name == PARENT]
    cgroupfs.remove({*own, *(place / "conmon" for place in own)})


def facts(podman: Podman, *options: str) -> dict[str, object]:
    """What /bin/probe sees in a container with these options."""
    found: dict[str, object] = json.loads(podman.run("--rm", *options, "--", "/bin/probe").ok().out)
    return found


def test_run_prints_and_removes(podman: Podman) -> None:
    result = podman.run("--rm", "--", "echo", "hello").ok()
    assert (result.out, result.err) == ("hello\n", "")
    assert podman("ps", "--all", "--quiet").ok().out == ""


def test_standard_error_is_separate(podman: Podman) -> None:
    result = podman.run("--rm", "--", "sh", "-c", "echo out; echo err >&2").ok()
    assert (result.out, result.err) == ("out\n", "err\n")


@pytest.mark.parametrize("status", [0, 1, 42])
def test_exit_status(podman: Podman, status: int) -> None:
    assert podman.run("--rm", "--", "sh", "-c", f"exit {status}").status == status


@pytest.mark.parametrize(
    ("command", "status"), [("nothere", 127), ("/bin/nothere", 127), ("/etc/passwd", 126)]
)
def test_command_that_cannot_run(podman: Podman, command: str, status: int) -> None:
    """The engine takes the exit status from the runtime's words."""
    result = podman.run("--rm", "--", command)
    assert result.status == status
    assert command in result.err


def test_life_of_a_detached_container(podman: Podman) -> None:
    """run, ps, logs, stop, ps, rm."""
    script = "trap 'echo stopping; exit 0' TERM; echo started; while :; do sleep 0.1; done"
    name = f"{TAG}life"
    podman.run("--detach", "--name", name, "--", "sh", "-c", script).ok()
    assert processes.until(lambda: "started" in podman("logs", name).ok().out)
    assert name in podman("ps", "--format", "{{.Names}}").ok().out
    podman("stop", "--time", "20", name).ok()
    assert podman("inspect", "--format", "{{.State.ExitCode}}", name).ok().out == "0\n"
    assert podman("logs", name).ok().out == "started\nstopping\n"
    assert podman("ps", "--quiet").ok().out == ""
    podman("rm", name).ok()


def test_stop_that_needs_a_kill(podman: Podman) -> None:
    name = f"{TAG}deaf"
    podman.run("--detach", "--name", name, "--", "sleep", "1000").ok()
    podman("stop", "--time", "0", name).ok()
    assert podman("inspect", "--format", "{{.State.ExitCode}}", name).ok().out == "137\n"


def test_kill_and_wait(podman: Podman) -> None:
    name = f"{TAG}kill"
    script = "trap 'exit 23' USR1; echo ready; while :; do sleep 0.1; done"
    podman.run("--detach", "--name", name, "--", "sh", "-c", script).ok()
    assert processes.until(lambda: "ready" in podman("logs", name).ok().out)
    podman("kill", "--signal", "USR1", name).ok()
    assert podman("wait", name).ok().out == "23\n"


def test_create_init_start_restart(podman: Podman) -> None:
    """``init`` is the runtime's create alone."""
    name = f"{TAG}steps"
    script = "echo round; exec sleep 1000"
    podman.container("create", "--name", name, "--", "sh", "-c", script).ok()
    podman("init", name).ok()
    status = ("inspect", "--format", "{{.State.Status}}", name)
    assert podman(*status).ok().out.strip() in {"initialized", "created"}
    podman("start", name).ok()
    assert podman(*status).ok().out == "running\n"
    podman("restart", "--time", "0", name).ok()
    assert processes.until(lambda: podman("logs", name).ok().out == "round\nround\n")


def test_removal_of_a_running_container(podman: Podman) -> None:
    name = f"{TAG}force"
    podman.run("--detach", "--name", name, "--", "sleep", "1000").ok()
    podman("rm", "--force", "--time", "0", name).ok()


def test_memory_limit(podman: Podman) -> None:
    name = f"{TAG}memory"
    podman.run("--detach", "--name", name, "--memory", "64m", "--", "sleep", "1000").ok()
    pid = int(podman("inspect", "--format", "{{.State.Pid}}", name).ok().out)
    setting = cgroupfs.setting(pid, "memory", "memory.limit_in_bytes", "memory.max")
    assert int(setting) == 64 << 20


def test_pids_limit(podman: Podman) -> None:
    name = f"{TAG}pids"
    podman.run("--detach", "--name", name, "--pids-limit", "33", "--", "sleep", "1000").ok()
    pid = int(podman("inspect", "--format", "{{.State.Pid}}", name).ok().out)
    assert cgroupfs.setting(pid, "pids", "pids.max", "pids.max") == "33"


def test_cpu_limit(podman: Podman) -> None:
    name = f"{TAG}cpu"
    podman.run("--detach", "--name", name, "--cpus", "0.5", "--", "sleep", "1000").ok()
    pid = int(podman("inspect", "--format", "{{.State.Pid}}", name).ok().out)
    assert cgroupfs.setting(pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"


def test_capabilities(podman: Podman) -> None:
    default = facts(podman)["capabilities"]
    dropped = facts(podman, "--cap-drop", "ALL")["capabilities"]
    added = facts(podman, "--cap-drop", "ALL", "--cap-add", "NET_RAW")["capabilities"]
    assert isinstance(default, dict)
    assert isinstance(dropped, dict)
    assert isinstance(added, dict)
    assert default["effective"] != 0
    assert set(dropped.values()) == {0}
    assert added["effective"] == added["bounding"] == 1 << 13


def test_read_only(podman: Podman) -> None:
    script = "touch /x 2>/dev/null || echo refused; touch /scratch/x && echo written"
    options = ("--rm", "--read-only", "--tmpfs", "/scratch:size=1m")
    assert podman.run(*options, "--", "sh", "-c", script).ok().out == "refused\nwritten\n"


def test_tmpfs_options(podman: Podman) -> None:
    options = ("--rm", "--tmpfs", "/scratch:rw,size=2m,mode=1700,noexec")
    result = podman.run(*options, "--", "grep", " /scratch ", "/proc/self/mountinfo").ok()
    assert "size=2048k" in result.out
    assert "noexec" in result.out


@pytest.mark.parametrize("how", ["", ":ro"])
def test_volume(podman: Podman, work: Path, how: str) -> None:
    (work / "data").mkdir()
    (work / "data" / "name").write_text("from the host\n")
    script = "cat /data/name; touch /data/new 2>/dev/null; true"
    volume = f"{work}/data:/data{how}"
    result = podman.run("--rm", "--volume", volume, "--", "sh", "-c", script).ok()
    assert result.out == "from the host\n"
    assert (work / "data" / "new").exists() == (how == "")


def test_named_volume(podman: Podman) -> None:
    volume = f"{TAG}volume:/data"
    podman.run("--rm", "--volume", volume, "--", "sh", "-c", "echo kept > /data/name").ok()
    assert podman.run("--rm", "--volume", volume, "--", "cat", "/data/name").ok().out == "kept\n"
    podman("volume", "rm", f"{TAG}volume").ok()


def test_no_new_privileges(podman: Podman) -> None:
    assert facts(podman)["no_new_privs"] == 0
    assert facts(podman, "--security-opt", "no-new-privileges")["no_new_privs"] == 1


def test_default_seccomp_profile(podman: Podman) -> None:
    assert facts(podman)["seccomp"] == 2
    script = "unshare -m true 2>/dev/null || echo refused"
    assert podman.run("--rm", "--", "sh", "-c", script).ok().out == "refused\n"
    assert facts(podman, "--security-opt", "seccomp=unconfined")["seccomp"] == 0


def test_identity(podman: Podman) -> None:
    seen = facts(podman, "--user", "1000:1000", "--group-add", "50", "--workdir", "/tmp",
                 "--env", "A=b c", "--hostname", "named", "--oom-score-adj", "77")  # fmt: skip
    assert (seen["uid"], seen["gid"], seen["cwd"]) == (1000, 1000, "/tmp")
    assert seen["hostname"] == "named"
    assert seen["oom_score_adj"] == "77"
    assert isinstance(seen["groups"], list)
    assert 50 in seen["groups"]
    assert isinstance(seen["env"], list)
    assert "A=b c" in seen["env"]


def test_limits_of_the_process(podman: Podman) -> None:
    limits = facts(podman, "--ulimit", "core=0:0")["rlimits"]
    assert isinstance(limits, dict)
    assert limits["RLIMIT_NOFILE"] == [1024, 1024]
    assert limits["RLIMIT_CORE"] == [0, 0]


def test_host_network(podman: Podman) -> None:
    result = podman.run("--rm", "--", "readlink", "/proc/self/ns/net", network="host").ok()
    assert result.out.strip() == str(Path("/proc/self/ns/net").readlink())


def test_no_network(podman: Podman) -> None:
    result = podman.run("--rm", "--", "sh", "-c", "ip -o link | wc -l; ip addr show lo").ok()
    assert result.out.startswith("1\n")
    assert "127.0.0.1" in result.out


def test_joined_network(podman: Podman) -> None:
    name = f"{TAG}first"
    podman.run("--detach", "--name", name, "--", "sleep", "1000").ok()
    pid = podman("inspect", "--format", "{{.State.Pid}}", name).ok().out.strip()
    command = ("readlink", "/proc/self/ns/net")
    result = podman.run("--rm", "--", *command, network=f"container:{name}").ok()
    assert result.out.strip() == str(Path(f"/proc/{pid}/ns/net").readlink())


@pytest.mark.parametrize(("option", "link"), [("pid", "pid"), ("uts", "uts"), ("ipc", "ipc")])
def test_namespaces_of_the_host(podman: Podman, option: str, link: str) -> None:
    command = ("readlink", f"/proc/self/ns/{link}")
    result = podman.run("--rm", f"--{option}", "host", "--", *command).ok()
    assert result.out.strip() == str(Path(f"/proc/self/ns/{link}").readlink())


def test_terminal(podman: Podman) -> None:
    """Conmon takes the terminal over its console socket."""
    result = podman.run("--rm", "--tty", "--", "sh", "-c", "tty && stty size | wc -w").ok()
    assert "/dev/pts/0" in result.out or "/dev/console" in result.out


def test_device(podman: Podman) -> None:
    result = podman.run("--rm", "--device", "/dev/fuse", "--", "stat", "-c", "%t:%T", "/dev/fuse")
    assert result.ok().out == "a:e5\n"


def test_sysctl(podman: Podman) -> None:
    options = ("--rm", "--sysctl", "net.ipv4.ip_forward=1")
    assert podman.run(*options, "--", "cat", "/proc/sys/net/ipv4/ip_forward").ok().out == "1\n"


def test_privileged(podman: Podman) -> None:
    script = "mkdir /mnt && mount -t tmpfs t /mnt && echo mounted"
    result = podman.run("--rm", "--privileged", "--", "sh", "-c", script)
    assert result.ok().out == "mounted\n"


def test_user_namespace(podman: Podman) -> None:
    seen = facts(podman, "--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536")
    assert seen["uid"] == 0
    assert isinstance(seen["uid_map"], str)
    assert seen["uid_map"].split() == ["0", "100000", "65536"]


def test_many_at_once(podman: Podman) -> None:
    names = [f"{TAG}many{number}" for number in range(3)]
    for name in names:
        podman.run("--detach", "--name", name, "--", "sleep", "1000").ok()
    assert set(podman("ps", "--format", "{{.Names}}").ok().out.split()) == set(names)
    podman("rm", "--force", "--time", "0", *names).ok()
