"""Container root tries to change the host's device nodes: mode, owner, times, attributes.

Containers can reach the kernel's null device in many ways: it covers masked paths, it is
bind-mounted where a user namespace cannot create nodes, and callers pass it as a standard stream.
A change of the node affects the whole host.  Each test has its own /dev, so that a vulnerable
runtime does no harm.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.devices import NODES, host_devices, tamper
from tests.support import peers, processes
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.ocipod import Ocipod
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.pod_images import busybox
from tests.support.refusal import lacking
from tests.support.runtime import Runtime

CRUN = "changes the owner of its standard streams, the host's null device"
BINDS = "binds the host's nodes, writable, in user namespaces"
MASKED = ("/proc/keys", "/proc/timer_list", "/proc/kcore")

# What Docker and containerd grant.
DOCKER = (
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW"),
    *("CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE"),
    *("CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"),
)

Prepare = Callable[[Bundle], None]

__all__ = ["host_devices", "tamper"]  # fixtures


@pytest.fixture
def armed(bundle: MakeBundle, tamper: Path) -> MakeBundle:
    """Create a bundle with the attacker in it."""

    def make(*args: str) -> Bundle:
        one = bundle(*args)
        os.link(tamper, one.rootfs / "bin/tamper")
        return one

    return make


def _default(one: Bundle) -> None:
    """Use the configuration that ``spec`` writes."""


def _docker(one: Bundle) -> None:
    """Grant Docker's default capabilities."""
    one.capabilities(*DOCKER)
    one.process["noNewPrivileges"] = False


def _user_namespace(one: Bundle) -> None:
    """Map root to an ordinary user, and grant all capabilities in its namespace."""
    one.capabilities(*DOCKER).user_namespace()


def _shared_user(one: Bundle) -> None:
    """Map the user namespace to the host's own ids: its root owns the host's nodes."""
    one.capabilities(*DOCKER).user_namespace(0)


def _without_mounts(one: Bundle) -> None:
    """Share the host's mount namespace, with a separate root."""
    one.capabilities(*DOCKER).without_namespace("mount")
    one.config["mounts"] = []
    one.linux["maskedPaths"] = one.linux["readonlyPaths"] = []


KINDS: dict[str, Prepare] = {
    "default": _default,
    "docker": _docker,
    "user namespace": _user_namespace,
    "user namespace with the host's ids": _shared_user,
}


@pytest.fixture(params=list(KINDS))
def prepared(request: pytest.FixtureRequest, armed: MakeBundle) -> Bundle:
    """A bundle of each kind."""
    one = armed()
    KINDS[request.param](one)
    return one


@deviates(runc=BINDS, crun=CRUN)
def test_masked_paths(container: MakeContainer, prepared: Bundle) -> None:
    """Change the node that covers a masked file."""
    prepared.linux["maskedPaths"] = list(MASKED)
    result = container(prepared.args("/bin/tamper", *MASKED)).run().ok()
    assert result.out.endswith("tampered\n")


@deviates(runc=BINDS, crun=CRUN)
def test_device_nodes(container: MakeContainer, prepared: Bundle) -> None:
    """Change the nodes in the container's /dev."""
    paths = [f"/dev/{name}" for name in NODES]
    result = container(prepared.args("/bin/tamper", *paths)).run().ok()
    assert result.out.endswith("tampered\n")


def _attack_by_streams(one: Container) -> None:
    """Run the attacker with the host's null device as all three streams.

    Uses ``create``, because runc's foreground ``run`` replaces them by pipes.
    """
    one.bundle.save()
    words = ("create", f"--bundle={one.bundle.path}", f"--pid-file={one.pid_file}", one.id)
    with open("/dev/null", "r+b", buffering=0) as null:
        command = one.runtime.command(*words)
        subprocess.run(command, stdin=null, stdout=null, stderr=null, timeout=60, check=True)
    one.exists = True
    one.start().ok()
    assert one.wait() == 0


@deviates(runc=BINDS, crun=CRUN)
def test_standard_streams(container: MakeContainer, prepared: Bundle) -> None:
    """Change the null device that the caller has passed as a standard stream."""
    prepared.shell("test -c /dev/stdin && echo x >/proc/self/fd/1 && /bin/tamper fds")
    _attack_by_streams(container(prepared))


def test_standard_streams_without_a_mount_namespace(
    container: MakeContainer, armed: MakeBundle
) -> None:
    one = armed()
    _without_mounts(one)
    if container(one).runtime.kind != "ociruntime":
        pytest.skip("the peers' containers have a mount namespace")
    _attack_by_streams(container(one.args("/bin/tamper", "fds")))


@judge_by("ociruntime")
@pytest.mark.parametrize("lack", ["5.1", "5.11", "filter"])
def test_devices_where_the_kernel_lacks_calls(
    container: MakeContainer, armed: MakeBundle, runtime: Runtime, work: Path, lack: str
) -> None:
    """Do both where the runtime has only mount(2)."""
    one = armed()
    _docker(one)
    one.linux["maskedPaths"] = list(MASKED)
    made = Container(lacking(runtime, work, lack), f"{container(one).id}l", one)
    one.shell(f"/bin/tamper fds {' '.join(MASKED)}")
    try:
        _attack_by_streams(made)
    finally:
        made.finish()
        made.close()


# What an image or the container itself may have put at /dev/null.
HOSTILE = {
    "own": "true",
    "missing": "rm /dev/null",
    "link": "rm /dev/null; ln -s zero /dev/null",
    "other device": "rm /dev/null; mknod /dev/null c 1 5",
    "fifo": "rm /dev/null; mkfifo /dev/null",
    "closed": "chmod 0 /dev/null; chown 7 /dev/null",
    "file": "rm /dev/null; echo >/dev/null",
}


@deviates(crun=CRUN)
@pytest.mark.parametrize("trick", list(HOSTILE))
@pytest.mark.parametrize("kind", ["docker", "user namespace"])
def test_exec_streams(
    container: MakeContainer, armed: MakeBundle, kind: str, trick: str, runtime: Runtime
) -> None:
    """Change the null device passed to ``exec``, with a trap at /dev/null in the container."""
    one = armed("sh", "-c", f"{HOSTILE[trick]}; touch /ready; exec sleep 100")
    KINDS[kind](one)
    started = container(one).started()
    assert processes.until((one.rootfs / "ready").exists, 20)
    with open("/dev/null", "r+b", buffering=0) as null:
        words = runtime.command("exec", started.id, "/bin/tamper", "fds")
        done = subprocess.run(words, stdin=null, stdout=null, stderr=null, timeout=60, check=False)
    # A peer may refuse to start; only ociruntime promises to.
    assert done.returncode == 0 or runtime.kind != "ociruntime"


@pytest.fixture(scope="session")
def refusals(hugetlb_for_crun: None) -> dict[str, str]:
    """Return why a runtime cannot run a container here, from a trial outside the test."""
    return {name: peers.refusal(name) for name in ("runc", "crun")}


@pytest.mark.parametrize("user", ["0", "33:34"])
@pytest.mark.parametrize("name", ["ociruntime", "runc", "crun"])
def test_app_exec(
    ocipod: Ocipod, refusals: dict[str, str], work: Path, tamper: Path, name: str, user: str
) -> None:
    """Change the null device of a pod's app and of ``app exec``, with every runtime."""
    if name != "ociruntime":
        if refusals[name]:
            pytest.skip(refusals[name])
        ocipod.runtime = peers.program(name)
    volume = work / "tools"
    volume.mkdir()
    os.link(tamper, volume / "tamper")
    given = (f"--volume=t,kind=host,source={volume}", "--mount=volume=t,target=/tools")
    script = "/tools/tamper fds; exec sleep 100"
    command = (f"--user={user.partition(':')[0]}", "--exec=/bin/sh", "--", "-c", script)
    uuid = (
        ocipod("run", "--detach", "--net=none", *given, busybox(work), "--name=a", *command)
        .ok()
        .out.strip()
    )
    done = ocipod("app", "exec", f"--user={user}", uuid, "--", "/tools/tamper", "fds").ok()
    assert done.out.endswith("tampered\n")
    ocipod("app", "exec", "--detach", f"--user={user}", uuid, "--", "/tools/tamper", "fds").ok()
