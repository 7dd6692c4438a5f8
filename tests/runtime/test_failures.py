"""A failure forced at each step of ``create``: an error, and nothing left behind.

The leak check of every test looks for processes, mounts, cgroups, state and files.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.bundle import Bundle, Json
from tests.support.container import Container
from tests.support.peers import deviates
from tests.support.plugin import TAG, MakeBundle, MakeContainer
from tests.support.runtime import Runtime


def _hook(kind: str) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        bundle.hooks[kind] = [{"path": "/bin/false", "env": []}]

    return change


def _mount(*words: str) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        bundle.mount(*words)

    return change


def _linux(**members: object) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        bundle.linux.update(members)

    return change


def _process(**members: object) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        bundle.process.update(members)

    return change


def _resources(**members: Json) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        bundle.resources.update(members)

    return change


def _no_rootfs(bundle: Bundle) -> None:
    bundle.config["root"]["path"] = "nowhere"


def _file_as_dev(bundle: Bundle) -> None:
    (bundle.rootfs / "dev").rmdir()
    (bundle.rootfs / "dev").write_text("")


def _user_namespace_of_one(bundle: Bundle) -> None:
    bundle.user_namespace(100000, 1)
    bundle.process["user"] = {"uid": 5, "gid": 5}


DEVICE = {"path": "/etc/passwd/x", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
NOFILE = {"type": "RLIMIT_NOFILE", "soft": 2**40, "hard": 2**40}

STEPS: dict[str, Callable[[Bundle], None]] = {
    "root": _no_rootfs,
    "namespace": _linux(namespaces=[{"type": "network", "path": "/no/such/ns"}]),
    "mount-source": _mount("/data", "bind", "/no/such/source", "rbind"),
    "mount-type": _mount("/data", "nofs", "x"),
    "mount-data": _mount("/data", "tmpfs", "t", "size=nonsense"),
    "mount-target": _mount("/etc/passwd/sub", "tmpfs", "t"),
    "dev": _file_as_dev,
    "device": _linux(devices=[DEVICE]),
    "sysctl": _linux(sysctl={"net.no.such.key": "1"}),
    "rlimit": _process(rlimits=[NOFILE]),
    "user": _user_namespace_of_one,
    "cwd": _process(cwd="/etc/passwd"),
    "program": _process(args=["/no/such/program"]),
    "prestart": _hook("prestart"),
    "createRuntime": _hook("createRuntime"),
    "createContainer": _hook("createContainer"),
    "cpuset": _resources(cpu={"cpus": "900-901"}),
    "memory": _resources(memory={"limit": 2**30, "swap": 2**20}),
}


@pytest.mark.parametrize("step", STEPS)
@deviates(crun="1.8 leaves cgroups behind")
def test_step(container: MakeContainer, bundle: MakeBundle, step: str) -> None:
    one = bundle()
    STEPS[step](one)
    made = container(one)
    result = made.create()
    assert result.status == 1
    assert result.err.count("\n") == 1 or made.runtime.kind != "ociruntime", result.err
    assert not made.pid_file.exists()
    assert made.runtime("state", made.id).status == 1


@pytest.mark.parametrize("step", STEPS)
@deviates(crun="1.8 leaves cgroups behind")
def test_step_of_a_run(container: MakeContainer, bundle: MakeBundle, step: str) -> None:
    one = bundle()
    STEPS[step](one)
    assert container(one).run().status == 1


def test_pid_file_that_cannot_be_written(container: MakeContainer, work: Path) -> None:
    """It is written after the init is ready: the init must be killed."""
    one = container()
    one.create("--pid-file", str(work / "missing" / "pid")).failed("missing")


def test_pid_file_on_a_directory(container: MakeContainer, work: Path) -> None:
    (work / "pid").mkdir()
    assert container().create("--pid-file", str(work / "pid")).status == 1


@pytest.mark.parametrize("how", ["missing", "file", "closed"])
def test_console_socket(container: MakeContainer, bundle: MakeBundle, work: Path, how: str) -> None:
    one = bundle()
    one.process["terminal"] = True
    path = work / "socket"
    if how == "file":
        path.write_text("")
    if how == "closed":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.close()
    assert container(one).create("--console-socket", str(path)).status == 1


def test_state_root_that_cannot_be_made(container: MakeContainer, work: Path) -> None:
    (work / "file").write_text("")
    one = container()
    one.runtime = Runtime(one.runtime.path, work / "file" / "root")
    assert one.create().status == 1


@deviates(runc="1.1 warns", crun="does not look")
def test_cgroup_that_is_occupied(container: MakeContainer, bundle: MakeBundle) -> None:
    """A-67; the processes already in it are not affected."""
    bundles = [bundle(), bundle()]
    for one in bundles:
        one.linux["cgroupsPath"] = f"/{TAG}occupied"
    first = container(bundles[0]).started()
    container(bundles[1]).create().failed("cgroup")
    assert first.status == "running"
    assert cgroupfs.directory(first.pid, "memory").name == f"{TAG}occupied"


def creating(
    container: MakeContainer, bundle: MakeBundle
) -> tuple[Container, subprocess.Popen[bytes]]:
    """A container whose `create` waits in a hook, and that command."""
    one = bundle()
    mark = one.path / "reached"
    script = f"touch {mark}; exec sleep 1000"
    one.hooks["createRuntime"] = [{"path": "/bin/sh", "args": ["sh", "-c", script]}]
    made = container(one)
    one.save()
    process = made.runtime.popen("create", "--bundle", str(one.path), made.id)
    assert processes.until(mark.exists)
    return made, process


@deviates(runc="leaves the cgroups")
def test_killed_while_creating(container: MakeContainer, bundle: MakeBundle) -> None:
    """After a SIGKILL (while a hook waits), delete --force cleans up."""
    made, process = creating(container, bundle)
    process.kill()
    process.wait()
    hooks = {pid for pid in processes.descendants() if "sleep" in processes.describe(pid)}
    processes.end(hooks)
    made.runtime("delete", "--force", made.id).ok()
    assert processes.until(lambda: not processes.descendants())


@deviates(runc="its leftovers have to be deleted first", crun="as runc")
def test_killed_create_can_be_repeated(container: MakeContainer, bundle: MakeBundle) -> None:
    """The next create of that id cleans up, too."""
    one = bundle()
    mark = one.path / "reached"
    script = f"touch {mark}; exec sleep 1000"
    one.hooks["createContainer"] = [{"path": "/bin/sh", "args": ["sh", "-c", script]}]
    made = container(one)
    one.save()
    process = made.runtime.popen("create", "--bundle", str(one.path), made.id)
    assert processes.until(mark.exists)
    process.kill()
    process.wait()
    del one.hooks["createContainer"]
    made.started()
    made.delete("--force").silent()
    assert processes.until(lambda: not processes.descendants())


@deviates(runc="does not end")
def test_terminated_while_creating(container: MakeContainer, bundle: MakeBundle) -> None:
    """SIGTERM undoes everything, or leaves the same state as SIGKILL."""
    made, process = creating(container, bundle)
    process.terminate()
    assert process.wait(20) != 0
    hooks = {pid for pid in processes.descendants() if "sleep" in processes.describe(pid)}
    processes.end(hooks)
    made.runtime("delete", "--force", made.id).ok()


def test_descriptors_run_out(container: MakeContainer, bundle: MakeBundle) -> None:
    """Too few descriptors for the runtime itself: an error, and no partial container."""
    import resource
    import subprocess

    one = container()
    one.bundle.save()
    command = one.runtime.command("create", "--bundle", str(one.bundle.path), one.id)
    with (one.bundle.path / "err").open("w+") as err:
        status = subprocess.run(
            command,
            stderr=err,
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)),
            check=False,
        ).returncode
    assert status != 0
    assert os.path.getsize(one.bundle.path / "err") > 0


@pytest.mark.parametrize(
    "failing",
    [
        "accept4:error=ENOMEM",
        "accept4:error=EMFILE",
        "accept4:error=EAGAIN",
        "recvfrom:error=ENOMEM",
    ],
)
def test_shortage_before_the_start(
    container: MakeContainer, runtime: Runtime, failing: str
) -> None:
    """A created container keeps waiting while the kernel lacks memory or descriptors."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    one = container()
    create = runtime.command("create", "--bundle", str(one.bundle.save().path), one.id)
    inject = f"inject={failing}:when=1..3"
    tracer = subprocess.Popen(
        [strace, "-f", "-qq", "-o", "/dev/null", "-e", inject, *create], stdin=subprocess.DEVNULL
    )
    one.exists = True
    try:
        assert processes.until(lambda: '"created"' in runtime("state", one.id).out)
        one.start().silent()
        assert one.status == "running"
    finally:
        one.delete("--force").ok()
        tracer.wait(10)
