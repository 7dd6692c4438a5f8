"""A hostile root in each kind of container; tests/attacks/hostile.c lists the attempts.

There are two checks: the canary (tests/support/canary.py), which compares the host's state before
and after, and the attacker's own report.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime.pods.bundle.default_confinement import MASKED_PATHS, READONLY_PATHS
from tests.support import processes, project
from tests.support.bundle import Bundle
from tests.support.images import make_layout
from tests.support.ocipod import Ocipod
from tests.support.peers import deviates
from tests.support.plugin import Canary, MakeBundle, MakeContainer
from tests.support.pod_images import lines, shell
from tests.support.runtime import Result, Runtime

# In a user namespace the host's node then belongs to the container; in all others its times
# change, and with CAP_MKNOD the system's console can be opened besides.
CRUN_STREAMS = "gives its standard streams to the container's user, the host's /dev/null as well"
pytestmark = deviates(crun=CRUN_STREAMS)

PROFILE = project.ROOT / "tests" / "data" / "seccomp_profile.json"
DOCKER_CONFIG = project.ROOT / "tests" / "golden" / "docker" / "config.json"
DOCKER = json.loads(DOCKER_CONFIG.read_text(encoding="utf-8"))
DOCKERS_14 = tuple(DOCKER["process"]["capabilities"]["bounding"])
CAPABILITIES = {"no capabilities": (), "Docker's capabilities": DOCKERS_14}

Prepare = Callable[[Bundle], Bundle]


@pytest.fixture(params=CAPABILITIES)
def capabilities(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return CAPABILITIES[request.param]


def words(bundle: Bundle) -> list[str]:
    """Return the attacker's arguments: the masked and the read-only paths of the bundle."""
    linux = bundle.linux
    return ["/bin/hostile", *linux["maskedPaths"], ":", *linux["readonlyPaths"]]


def prepared(bundle: Bundle, hostile: Path, capabilities: tuple[str, ...]) -> Bundle:
    shutil.copy(hostile, bundle.rootfs / "bin" / "hostile")
    bundle.capabilities(*capabilities)
    return bundle.args(*words(bundle))


def as_spec(bundle: Bundle) -> Bundle:
    """Use the config of ``ociruntime spec``, with a writable root."""
    done = subprocess.run(
        [project.ROOT / ".venv/bin/ociruntime", "spec"], cwd=bundle.path, capture_output=True
    )
    assert done.returncode == 0, done
    bundle.config = json.loads((bundle.path / "config.json").read_text())
    bundle.config["ociVersion"] = "1.0.2"  # older peers know no later one
    bundle.process["terminal"] = False
    bundle.config["root"]["readonly"] = False
    return bundle


def as_docker(bundle: Bundle) -> Bundle:
    """Use Docker's config with its seccomp profile, without host-specific settings."""
    config = json.loads(json.dumps(DOCKER))
    config["ociVersion"], config["root"] = "1.0.2", bundle.config["root"]
    config["mounts"] = [one for one in config["mounts"] if one["type"] != "bind"]
    del config["hooks"], config["process"]["apparmorProfile"], config["linux"]["cgroupsPath"]
    config["linux"]["seccomp"] = json.loads(PROFILE.read_text(encoding="utf-8"))
    bundle.config = config
    return bundle


def without_filter(bundle: Bundle) -> Bundle:
    """Use Docker's config without a filter, so that the attacker gets further."""
    del as_docker(bundle).linux["seccomp"]
    return bundle


KINDS: dict[str, Prepare] = {
    "default config": as_spec,
    "Docker's config": as_docker,
    "Docker's config, unfiltered": without_filter,
}

# What is the container's own, or nothing to the host: (action, pattern of the object).
OWN = (
    ("ioctl SETFLAGS", "/"),  # its files, and file systems that were made for it
    ("ioctl SETFLAGS", "/dev"),
    ("ioctl SETFLAGS", "/dev/shm"),
    ("ioctl SETFLAGS", "/sys/fs/cgroup"),
    ("ioctl SETFLAGS", "/etc/*"),  # a pod's hosts and hostname
    ("write", "/proc/pressure/*"),  # every user may create a trigger
    # In a user namespace of its own it has copies of the mounts, and all capabilities over them;
    # what the runtime has mounted stays, and stays read-only.
    ("nested unshare", "*"),
    ("nested share", "*"),
    ("nested bind", "/proc/sys"),
)


def is_own(line: str) -> bool:
    action, _, name = line.partition("\t")
    return any(
        action in {known, f"nested {known}"} and fnmatch.fnmatchcase(name, pattern)
        for known, pattern in OWN
    )


def breaches(result: Result) -> list[str]:
    """Return the attacker's successes that it should not have had."""
    lines = result.out.splitlines()
    assert lines, result
    assert lines.pop() == "done\t", result
    return [line for line in lines if not is_own(line)]


def judge(result: Result, host_unchanged: Canary) -> None:
    got = breaches(result)
    # The test has descriptors of its containers yet.
    changed = [line for line in host_unchanged.changes() if not line.startswith("descriptor ")]
    assert (got, changed) == ([], []), "\n".join([*got, *changed])


@pytest.mark.parametrize("kind", KINDS)
def test_first_process(
    container: MakeContainer,
    bundle: MakeBundle,
    hostile: Path,
    capabilities: tuple[str, ...],
    kind: str,
    host_unchanged: Canary,
) -> None:
    one = prepared(KINDS[kind](bundle()), hostile, capabilities)
    judge(container(one).run(), host_unchanged)


def test_first_process_in_a_user_namespace(
    container: MakeContainer,
    bundle: MakeBundle,
    hostile: Path,
    capabilities: tuple[str, ...],
    host_unchanged: Canary,
) -> None:
    one = prepared(bundle().user_namespace(), hostile, capabilities)
    judge(container(one).run(), host_unchanged)


@pytest.mark.parametrize("kind", KINDS)
def test_executed_process(
    container: MakeContainer,
    bundle: MakeBundle,
    hostile: Path,
    capabilities: tuple[str, ...],
    kind: str,
    host_unchanged: Canary,
) -> None:
    one = prepared(KINDS[kind](bundle()), hostile, capabilities)
    command = words(one)
    made = container(one.args("sleep", "100")).started()
    judge(made.exec(*command), host_unchanged)


def test_executed_process_in_a_user_namespace(
    container: MakeContainer,
    bundle: MakeBundle,
    hostile: Path,
    capabilities: tuple[str, ...],
    host_unchanged: Canary,
) -> None:
    one = prepared(bundle().user_namespace(), hostile, capabilities)
    command = words(one)
    made = container(one.args("sleep", "100")).started()
    judge(made.exec(*command), host_unchanged)


@pytest.mark.parametrize("kind", KINDS)
def test_joined_namespaces(
    container: MakeContainer,
    bundle: MakeBundle,
    hostile: Path,
    capabilities: tuple[str, ...],
    kind: str,
    host_unchanged: Canary,
) -> None:
    """The container shares the pid and network namespaces of another container."""
    first = container(bundle().capabilities(*capabilities)).started()
    one = KINDS[kind](bundle())
    for name in ("pid", "network", "ipc", "uts"):
        one.namespace(name, f"/proc/{first.pid}/ns/{'net' if name == 'network' else name}")
    one.linux.pop("sysctl", None)
    one.config.pop("hostname", None)
    judge(container(prepared(one, hostile, capabilities)).run(), host_unchanged)


def test_system_console(container: MakeContainer, bundle: MakeBundle) -> None:
    """With CAP_MKNOD a container can create any node; opening the host's console must fail."""
    script = "mknod /tmp/console c 5 1 && (: </tmp/console) 2>/dev/null && echo open; echo ended"
    done = container(bundle().shell(script).capabilities("CAP_MKNOD")).run().ok()
    assert done.out == "ended\n"


@pytest.fixture
def ocipod(work: Path, runtime: Runtime) -> Iterator[Ocipod]:
    one = Ocipod(work / "data", runtime.path)
    yield one
    one.finish()


@pytest.fixture
def image(work: Path, hostile: Path) -> str:
    """An image with the attacker, which a shell makes executable."""
    make_layout(work / "image", files={"hostile": hostile.read_bytes()})
    return f"oci:{work / 'image'}:latest"


COPY = "cp /hostile /tmp/hostile && chmod 755 /tmp/hostile"
ATTACK = f"/tmp/hostile {' '.join(MASKED_PATHS)} : {' '.join(READONLY_PATHS)}"


def test_app_of_a_pod(ocipod: Ocipod, image: str, host_unchanged: Canary) -> None:
    done = ocipod("run", image, *shell(f"{COPY} && {ATTACK}"))
    done.out = "".join(f"{line}\n" for line in lines(done, "image"))
    judge(done, host_unchanged)


@pytest.mark.parametrize("user", ["0:0", "33:34"])
def test_executed_in_an_app(ocipod: Ocipod, image: str, host_unchanged: Canary, user: str) -> None:
    """Try as root, and as a user to whom the runtime might give the streams."""
    ocipod("run", "--detach", image, *shell(COPY, "touch /ready", "exec sleep 100")).ok()
    (uuid,) = ocipod.pods()
    ready = ("app", "exec", uuid, "--", "test", "-e", "/ready")
    assert processes.until(lambda: ocipod(*ready).status == 0)
    done = ocipod("app", "exec", f"--user={user}", uuid, "--", "sh", "-c", ATTACK)
    judge(done, host_unchanged)
