"""The same script below runc and below ociruntime: the engine must not notice a difference."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.buildah import Buildah
from tests.engines.containerd import Containerd
from tests.engines.daemon import PATH
from tests.engines.docker import Docker
from tests.engines.podman import Podman
from tests.engines.transcript import transcript
from tests.support import cgroupfs
from tests.support.runtime import Result, Runtime

PODMAN = """
! run --rm IMAGE sh -c 'echo out; echo error >&2; exit 7'
run -d --name=one --health-cmd='test -e /ready' --health-interval=disable IMAGE MAIN
exec one AWAIT
ps --format '{{.Names}} {{.State}}'
top one user args
stats --no-stream --format '{{.Name}} {{.PIDs}}' one
healthcheck run one
! exec --user 5:6 --env A=b --workdir /proc one sh -c 'id -u; id -g; echo $A; pwd; exit 7'
exec --tty one tty
! exec one no-such-program
update --cpu-shares 262144 one
exec one SHARES
pause one
ps --all --format '{{.Names}} {{.State}}'
! exec one true
unpause one
ps --format '{{.Names}} {{.State}}'
kill --signal URG one
stop one
ps --all --format '{{.Names}} {{.State}} {{.ExitCode}}'
logs one
start one
exec one AWAIT
pause one
rm --force --time 0 one
ps --all --quiet
"""

POD = """
pod create --name=two --share=net,ipc,uts,pid --infra-image=IMAGE --infra-command='sleep 100'
run -d --pod=two --name=first IMAGE MAIN
run -d --pod=two --name=second IMAGE sleep 100
exec first AWAIT
exec second ps -o args
pod top two user args
pod pause two
pod ps --format '{{.Name}} {{.Status}}'
pod unpause two
pod stop --time=1 two
pod ps --format '{{.Name}} {{.Status}}'
pod rm two
"""

BUILDAH = """
from --name=made IMAGE
! run made sh -c 'echo words >/made; id -u; cat /proc/1/comm; exit 7'
run --user 5:6 --env A=b --workingdir=/proc made sh -c 'id -u; echo $A; pwd; cat /made'
run --terminal made tty
run --cap-add=CAP_NET_ADMIN --hostname=ship made sh -c 'hostname; grep CapEff /proc/self/status'
! run made no-such-program
rm made
"""

# One stream: containerd closes a log when stdout ends, although stderr goes to it as well.
CONTAINERD = """
! run --rm IMAGE zero sh -c 'exec 2>&1; echo out; echo error >&2; exit 7'
run --detach --null-io IMAGE one MAIN
task exec --exec-id a one AWAIT
! task exec --exec-id b --cwd /proc --user 5:6 one sh -c 'pwd; id -u; exit 7'
! task exec --exec-id d one no-such-program
task ps one
task pause one
task list
! task exec --exec-id e one true
task resume one
task list
task kill --signal URG one
task kill one
? task delete one
! task kill one
container delete one
run --detach --null-io IMAGE two sleep 100
task kill --all --signal KILL two
? task delete two
container delete two
task list
"""

DOCKER = """
! run --rm IMAGE sh -c 'echo out; echo error >&2; exit 7'
run --rm --init IMAGE cat /proc/1/comm
run --detach --name=one IMAGE MAIN
exec one AWAIT
ps --format '{{.Names}} {{.State}}'
top one -o pid,args
stats --no-stream --format '{{.Name}} {{.PIDs}}' one
! exec --user 5:6 --env A=b --workdir /proc one sh -c 'id -u; id -g; echo $A; pwd; exit 7'
! exec one no-such-program
exec --detach one sh -c 'echo made >/made'
exec one sh -c 'until test -s /made; do sleep 0.02; done'
update --cpu-shares 262144 --pids-limit=50 one
exec one SHARES
pause one
ps --format '{{.Names}} {{.State}}'
! exec one true
unpause one
ps --format '{{.Names}} {{.State}}'
kill --signal URG one
restart one
exec one cat /made
stop one
inspect --format '{{.State.Status}} {{.State.ExitCode}}' one
logs one
start one
pause one
rm --force one
ps --all --quiet
"""

Below = Callable[[Path], Callable[..., Result]]


@pytest.fixture(scope="session")
def runc() -> Path:
    """The peer that the runtime replaces."""
    return Path(host.program("runc"))


@pytest.fixture(scope="session")
def podmans() -> Path:
    """The peer of podman: runc or, if it is not installed, crun."""
    return Path(shutil.which("runc", path=PATH) or host.program("crun"))


def compare(below: Below, script: str, runtime: Path, peer: Path) -> None:
    """Assert that both transcripts are the same."""
    expected = transcript(below(peer), script, peer)
    assert transcript(below(runtime), script, runtime) == expected


def test_podman(podman: Podman, runtime: Runtime, podmans: Path) -> None:
    compare(podman.below, PODMAN, runtime.path, podmans)


def test_podman_pod(podman: Podman, runtime: Runtime, podmans: Path) -> None:
    host.no_plain_directory_among_hierarchies()
    before = cgroupfs.named(podman.cgroup)
    try:
        given = transcript(podman.below(runtime.path), POD, runtime.path)
        assert cgroupfs.named(podman.cgroup) == before
        assert given == transcript(podman.below(podmans), POD, podmans)
    finally:
        podman("pod", "rm", "--force", "--time=0", "--ignore", "two")
        # Of hierarchies that podman does not know, the peer leaves the pod's group behind.
        cgroupfs.remove(cgroupfs.named(podman.cgroup) - before)


def test_buildah(podman: Podman, runtime: Runtime, runc: Path) -> None:
    program = host.program("buildah")
    compare(lambda path: Buildah(program, path, podman), BUILDAH, runtime.path, runc)


def test_containerd(containerd: Containerd, runtime: Runtime, runc: Path) -> None:
    compare(containerd.below, CONTAINERD, runtime.path, runc)


def test_docker(docker: Docker, runtime: Runtime, runc: Path) -> None:
    compare(docker.below, DOCKER, runtime.path, runc)
