"""The context of an `exec` process: namespaces, cgroups, root, CPUs, terminal, descriptors."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.container import Container
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import execute
from tests.support.terminal import ConsoleSocket, PtyCommand

KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def links(pid: int) -> dict[str, str]:
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in KINDS}


def groups(pid: int) -> list[str]:
    return sorted(Path(f"/proc/{pid}/cgroup").read_text().splitlines())


@pytest.mark.parametrize("kind", ["ordinary", "user", "shared-pids"])
def test_namespaces_and_cgroups_are_the_container_s(
    container: MakeContainer, bundle: MakeBundle, kind: str
) -> None:
    made = bundle()
    if kind == "user":
        made.user_namespace()
    elif kind == "shared-pids":
        made.without_namespace("pid")
    running = container(made).started()
    pid = running.exec_detached("sleep", "50")
    assert links(pid) == links(running.pid)
    assert groups(pid) == groups(running.pid)
    assert os.readlink(f"/proc/{pid}/root") == os.readlink(f"/proc/{running.pid}/root")
    assert processes.parent(pid) == os.getpid()


def test_joined_network_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    first = container().started()
    joining = bundle().namespace("network", f"/proc/{first.pid}/ns/net")
    second = container(joining).started()
    pid = second.exec_detached("sleep", "50")
    assert links(pid)["net"] == links(first.pid)["net"]
    assert links(pid)["mnt"] == links(second.pid)["mnt"]


def test_root_without_pivot(container: MakeContainer) -> None:
    moved = container().started("--no-pivot")
    listing = moved.exec("ls", "/").ok().out.split()
    assert listing == sorted(os.listdir(moved.bundle.rootfs))
    assert moved.exec("sh", "-c", "cd /..; pwd; ls").ok().out.split() == ["/", *listing]


def subgroup_of(container: Container, name: str) -> list[Path]:
    made = []
    for _, place in sorted(cgroupfs.hierarchies().items()):
        inner = place / container.id / name
        inner.mkdir()
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (inner / file).exists():
                (inner / file).write_text((inner.parent / file).read_text())
        made.append(inner)
    return made


def test_cgroup_below_the_container_s(container: MakeContainer) -> None:
    running = container().started()
    inner = subgroup_of(running, "inner")
    pid = running.exec_detached("--cgroup=/inner/", "sleep", "50")
    for place in inner:
        assert str(pid) in (place / "cgroup.procs").read_text().split()
    missing = running.exec("--cgroup=nowhere", "true")
    assert missing.status == 255
    assert "nowhere" in missing.err
    for escape in ("..", "inner/../..", "/../x"):
        refused = running.exec(f"--cgroup={escape}", "true")
        assert refused.status == 255
        assert "must stay below" in refused.err


def test_cgroup_of_one_controller(container: MakeContainer) -> None:
    if cgroupfs.is_v2():
        pytest.skip("cgroup v2 has one hierarchy")
    running = container().started()
    subgroup_of(running, "inner")
    pid = running.exec_detached("--cgroup=pids,freezer:inner", "sleep", "50")
    found = dict(line.split(":")[1:] for line in groups(pid))
    assert found["pids"].endswith("/inner")
    assert found["freezer"].endswith("/inner")
    assert found["memory"] == f"/{running.id}"


def test_affinity(container: MakeContainer) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    made = container()
    made.bundle.process["execCPUAffinity"] = {"initial": str(cpus[0]), "final": str(cpus[1])}
    running = made.started()
    show = "sed -n 's/Cpus_allowed_list:.//p' /proc/self/status"
    assert running.exec("sh", "-c", show).ok().out.strip() == str(cpus[1])
    assert os.sched_getaffinity(running.pid) == set(cpus)


@pytest.mark.parametrize("affinity", [None, {"initial": "0"}], ids=["none", "initial alone"])
def test_the_caller_s_affinity(container: MakeContainer, affinity: dict[str, str] | None) -> None:
    """A caller under taskset does not pin the container."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    one = container()
    if affinity is not None:
        one.bundle.process["execCPUAffinity"] = {"initial": str(cpus[0])}
    os.sched_setaffinity(0, cpus[:1])
    try:
        running = one.started()
        show = "sed -n 's/Cpus_allowed_list:.//p' /proc/self/status"
        shown = running.exec("sh", "-c", show).ok().out.strip()
    finally:
        os.sched_setaffinity(0, cpus)
    assert sorted(os.sched_getaffinity(running.pid)) == cpus
    if affinity is None:
        assert shown not in map(str, cpus)


def test_terminal_in_the_foreground(container: MakeContainer) -> None:
    running = container().started()
    command = running.runtime.command("exec", "--tty", running.id, "sh", "-c", "tty; exit 5")
    shell = PtyCommand(command)
    shell.terminal.read_until("/dev/pts/")
    assert shell.wait() == 5
    shell.close()


@pytest.mark.parametrize("kind", ["own-pids", "shared-pids"])
def test_console_socket(
    container: MakeContainer, bundle: MakeBundle, work: Path, kind: str
) -> None:
    """The terminal controls the process, whether or not it was forked on the way."""
    made = bundle() if kind == "own-pids" else bundle().without_namespace("pid")
    running = container(made).started()
    console = ConsoleSocket(work / "console")
    script = "tty; echo controlled >/dev/tty; read word; echo got $word"
    options = ("--tty", f"--console-socket={console.path}", "--user=7:8")
    running.exec_detached(*options, "sh", "-c", script)
    terminal = console.receive()
    terminal.read_until("controlled")
    terminal.write("hello\n")
    terminal.read_until("got hello")
    terminal.close()
    console.close()


def test_console_socket_without_a_terminal(container: MakeContainer, work: Path) -> None:
    running = container().started()
    refused = running.exec("--detach", f"--console-socket={work}/none", "true")
    assert refused.status == 255
    assert "console socket" in refused.err
    refused = running.exec("--detach", "--tty", "true")
    assert "cannot allocate tty" in refused.err


def test_pidfd_socket(container: MakeContainer, work: Path) -> None:
    running = container().started()
    path = work / "pidfd"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(1)
        listener.settimeout(10)
        pid = running.exec_detached(f"--pidfd-socket={path}", "sleep", "50")
        connection, _ = listener.accept()
        with connection:
            payload, fds, _, _ = socket.recv_fds(connection, 64, 2)
    assert payload == b"setns"
    assert f"Pid:\t{pid}\n" in Path(f"/proc/self/fdinfo/{fds[0]}").read_text()
    os.close(fds[0])


def test_preserved_descriptors(container: MakeContainer, work: Path) -> None:
    running = container().started()
    (work / "words").write_text("through\n")
    words = ("--preserve-fds=1", running.id, "cat", "/proc/self/fd/3")
    script = f'exec "$0" "$@" 3<{work}/words'
    done = execute(["/bin/sh", "-c", script, *running.runtime.command("exec", *words)])
    assert done.ok().out == "through\n"
    script = "exec ls /proc/self/fd"
    missing = running.exec("--preserve-fds=9", "sh", "-c", script).ok()
    assert missing.out.split() == ["0", "1", "2", "3"], "3 is the directory that is listed"


def test_seccomp_and_limits_are_the_container_s(container: MakeContainer, work: Path) -> None:
    made = container()
    made.bundle.linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}],
    }
    limit = {"type": "RLIMIT_NOFILE", "soft": 77, "hard": 77}
    made.bundle.process["rlimits"] = [limit]
    running = made.started()
    file = work / "process.json"
    script = "ulimit -n; mkdir /tmp/x; grep Seccomp: /proc/self/status"
    document = {
        "args": ["sh", "-c", script],
        "cwd": "/",
        "env": ["PATH=/bin"],
        "user": {"uid": 0, "gid": 0},
    }
    file.write_text(json.dumps(document))
    done = running.exec(f"--process={file}").ok()
    assert done.out.split() == ["77", "Seccomp:", "2"]
    assert "No space left" in done.err


def test_container_in_the_host_s_mount_namespace(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """Its root is that of the init, not of the namespace."""
    made = bundle().without_namespace("mount")
    made.config["mounts"] = []
    for name in ("maskedPaths", "readonlyPaths"):
        made.linux.pop(name, None)
    running = container(made).started()
    listing = running.exec("sh", "-c", "cd /..; pwd; ls").ok().out.split()
    assert listing == ["/", *sorted(os.listdir(made.rootfs))]
