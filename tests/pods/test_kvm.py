"""Pods in virtual machines, emulated in software."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import processes, project
from tests.support.netns import NetworkNamespace
from tests.support.network_host import NetworkHost, namespaces
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell
from tests.support.terminal import PtyCommand

CONFIG = Path(os.environ.get("OCIRUNTIME_KVM_DIR", "/var/tmp/ociruntime-kvm")) / "config"
__all__ = ("namespaces",)

# The directory in which a machine saves its counts (tools/measure_coverage.py).
COUNTS = (
    f"--volume=counts,kind=host,source={project.PROFILES}",
    "--mount=volume=counts,target=/counts",
)
KVM = ("--flavor=kvm", *(COUNTS if project.COUNTING else ()))
FLAVOUR = (*KVM, "--net=none")

pytestmark = [
    pytest.mark.skipif(
        shutil.which("qemu-system-x86_64") is None, reason="qemu-system-x86_64 is not installed"
    ),
    pytest.mark.skipif(
        not (CONFIG / "kvm.json").exists(), reason="no kernel: tests/kvm/build unpacks one"
    ),
]


@pytest.fixture
def host(namespaces: Callable[[], NetworkNamespace], work: Path) -> Iterator[NetworkHost]:
    """The network namespace of the test: no other pods have networks there."""
    one = NetworkHost(namespaces, work)
    one.state = work / "data" / "net"
    with one.namespace.entered():
        yield one


@pytest.fixture
def vm(ocipod: Ocipod) -> Ocipod:
    """``ocipod`` with the kernel of the tests for its machines."""
    ocipod.options = (*ocipod.options, f"--local-config={CONFIG}")
    return ocipod


def ended(vm: Ocipod, uuid: str) -> None:
    """Wait until the pod's lock is free."""
    subprocess.run(["flock", "-s", vm.path(uuid), "true"], check=True, timeout=60)


def codes(vm: Ocipod, uuid: str) -> dict[str, int]:
    files = (vm.path(uuid) / "apps").glob("*/state.json")
    return {file.parent.name: json.loads(file.read_text())["exit_code"] for file in files}


def test_two_apps(vm: Ocipod, work: Path) -> None:
    """Their output; a stop sends their stop signals, and the machine exits with them."""
    image = busybox(work)
    shared = work / "shared"
    shared.mkdir()
    (shared / "given").write_text("given\n")
    words = (
        *("id -u", "id -g", "hostname", "cat /v/given", "echo $WORD >&2", "touch /v/no /data/x"),
        *("grep -o '/dev/shm.*' /proc/mounts", "echo shared > /dev/shm/a"),
    )
    share = "until [ -s /dev/shm/a ]; do sleep 0.1; done; cat /dev/shm/a; exec cat"
    wait = "trap 'echo bye; exit 3' TERM; echo up; sleep 100 & wait"
    done = vm(
        *("run", "--detach", *FLAVOUR, "--hostname=box", "--shm-size=1M"),
        f"--volume=v,kind=host,source={shared},readOnly=true",
        *(image, "--name=a", "--mount=volume=v,target=/v", "--environment=WORD=said"),
        *("--user=web", *shell(*words, wait)),
        *("---", image, "--name=b", "--stdin=stream", "--memory=32M", *shell(share)),
    )
    uuid = done.ok().out.strip()
    assert "state=running" in vm("status", uuid).ok().out
    assert (vm.path(uuid) / "ready").is_symlink()
    begun = {"a: up", "b: shared"}
    assert processes.until(lambda: begun <= {*vm("logs", uuid).out.splitlines()}, 60)
    vm("enter", "--app=a", uuid).failed("flavour kvm")
    vm("app", "exec", "--app=a", uuid, "true").failed("flavour kvm")
    vm("app", "stop", "--app=a", uuid).failed(f"pod {uuid} is immutable")
    vm("app", "add", uuid, image).failed("is immutable")
    vm("stop", uuid).ok()
    ended(vm, uuid)
    assert codes(vm, uuid) == {"a": 3, "b": 143}
    logs = vm("logs", uuid).ok()
    said = logs.out + logs.err
    for text in ("33", "34", "box", "given", "said", "bye"):
        assert f"a: {text}\n" in said
    assert "/dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=1024k" in said
    assert "/v/no: Read-only file system" in said
    assert list(shared.iterdir()) == [shared / "given"]
    made = (vm.path(uuid) / "apps" / "a" / "upper" / "data" / "x").stat()
    assert (made.st_uid, made.st_gid) == (33, 34)
    vm("rm", uuid).ok()
    assert vm.pods() == []


def test_network(host: NetworkHost, vm: Ocipod, work: Path) -> None:
    """An app answers on the pod's address, and nothing is left after the machine's exit."""
    web = ("--name=web", "--exec=/bin/busybox", "--", "httpd", "-f", "-p", "80", "-h", "/data")
    done = vm("run", "--detach", *KVM, "--net=default", busybox(work), *web).ok()
    uuid = done.out.strip()
    info = json.loads((vm.path(uuid) / "net-info.json").read_text())
    said = b""

    def ask() -> bool:
        nonlocal said
        try:
            with socket.create_connection((info["networks"][0]["ip4"], 80), 2) as connection:
                connection.sendall(b"GET /seed HTTP/1.0\r\n\r\n")
                said = connection.makefile("rb").read()
        except OSError:
            return False
        return True

    assert processes.until(ask, 60)
    assert said.endswith(b"from the image\n")
    vm("stop", uuid).ok()
    ended(vm, uuid)
    assert host.links() == ["lo"]


def test_no_program(vm: Ocipod, work: Path) -> None:
    done = vm("run", *FLAVOUR, busybox(work), "--exec=/bin/nothing")
    assert done.status == 127, done
    assert "execute /bin/nothing: no such file or directory" in done.err


def machines(uuid: str) -> list[str]:
    """Return the command lines of this pod's qemu."""
    wanted = f"ocipod-{uuid}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if wanted in line and b"-nodefaults" in line:
            found.append(line.decode())
    return found


def test_qemu_is_confined(vm: Ocipod, work: Path) -> None:
    """A guest that takes over qemu gets neither the host's files nor privileges."""
    words = ("--flavor=kvm", "--net=none")  # no more shares than the app needs
    vm.popen("run", *words, busybox(work), *shell("echo up; sleep 100"))
    assert processes.until(lambda: any(vm.pods()), 60)
    (uuid,) = vm.pods()
    assert processes.until(lambda: "up" in vm("logs", uuid).out, 60)
    pid = qemu_of(uuid)
    root = Path(f"/proc/{pid}/root")
    seen = {*os.listdir(root)}
    assert seen <= {*"usr bin lib lib64 etc dev proc var machine.log boot".split()}, seen
    assert {*os.listdir(root / "etc")} <= {"alternatives", "ld.so.cache"}
    assert {*os.listdir(root / "dev")} <= {"null", "zero", "urandom", "kvm"}
    assert not (root / "proc" / "sys").exists()
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    kept = int(status["CapPrm"], 16)
    assert [n for n in range(64) if kept & 1 << n] == [0, 1, 3, 4, 27, 31]
    assert (status["CapBnd"], status["NoNewPrivs"]) == (status["CapPrm"], "1")
    for kind in ("net", "mnt", "ipc", "uts"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        place, flags = line.split()[4:6]
        assert "nosuid" in flags.split(","), line
        if "/apps/" not in place and place != "/machine.log":
            assert "ro" in flags.split(","), line
    vm("stop", uuid).ok()
    ended(vm, uuid)


def qemu_of(uuid: str) -> int:
    """Return the pid of this pod's qemu."""
    (pid,) = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"ocipod-{uuid}\0" in path.read_text() and "-nodefaults" in path.read_text()
    ]
    return pid


def test_the_monitor_is_lost(vm: Ocipod, work: Path) -> None:
    """The lock is not released before the machine has exited."""
    process = vm.popen("run", *FLAVOUR, busybox(work), *shell("sleep 100"))
    assert processes.until(lambda: any(machines(uuid) for uuid in vm.pods()), 60)
    (uuid,) = vm.pods()
    monitor = json.loads((vm.path(uuid) / "monitor.json").read_text())["pid"]
    assert monitor == process.pid
    os.kill(monitor, signal.SIGKILL)
    ended(vm, uuid)
    assert machines(uuid) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--net=host", "IMAGE"), "host's network"),
        (("--net=none", "--private-users", "IMAGE"), "flavour kvm"),
        (("--net=none", "--kvm-kernel=/no/kernel", "IMAGE"), '/no/kernel": no such file'),
        (("--net=none", "IMAGE", "--stdout=tty"), "has no terminal"),
        (("--net=none", "--ipc=parent", "IMAGE"), "share namespaces"),
        (
            ("--net=none", "--pids=9", "IMAGE"),
            "resource/pids",
        ),
        (("--net=none", "--volume=v,kind=host,source=/etc/passwd", "IMAGE"), "directories only"),
    ],
)
def test_refusals(vm: Ocipod, work: Path, words: tuple[str, ...], message: str) -> None:
    image = busybox(work)
    done = vm("run", *KVM, *(image if word == "IMAGE" else word for word in words))
    done.failed(message)
    assert vm.pods() == []


def test_pods_that_change_are_none(vm: Ocipod) -> None:
    vm("app", "sandbox", "--flavor=kvm", "--net=none").failed("flavour oci")
    assert vm.pods() == []


def test_the_terminal_of_the_foreground(vm: Ocipod, work: Path) -> None:
    """It is refused before anything is created; other input is passed to an app."""
    words = ("run", *FLAVOUR, "--interactive", busybox(work), *shell("cat; exit 4"))
    command = PtyCommand(vm.command(*words))
    try:
        command.terminal.read_until("no terminal")
        assert command.wait() == 254
    finally:
        command.close()
    assert vm.pods() == []


def test_what_is_refused_of_a_prepared_pod_leaves_it_prepared(vm: Ocipod, work: Path) -> None:
    uuid = vm("prepare", "--flavor=kvm", busybox(work), *shell("true")).ok().out.strip()
    for words, message in (
        (("--net=host",), "host's network"),
        (("--net=none", "--ipc=parent"), "share namespaces"),
    ):
        vm("run-prepared", *words, uuid).failed(message)
    vm.options = (*vm.options, f"--local-config={work}")
    (work / "kvm.json").write_text('{"kernel": "/no/kernel"}')
    vm("run-prepared", "--net=none", uuid).failed('open kernel "/no/kernel": no such file')
    assert vm.state(uuid) == "prepared"
