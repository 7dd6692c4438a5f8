"""podman of an ordinary user: subordinate ids, no privileges on the host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.command import execute
from tests.engines.image import NAME, Image
from tests.engines.rootless_podman import RootlessPodman
from tests.support import processes
from tests.support.ordinary_user import SUBUID, UID, OrdinaryUser
from tests.support.runtime import Runtime

pytestmark = pytest.mark.judge_by("ociruntime")


@pytest.fixture(scope="module")
def podman_host(
    user_database: None, runtime: Runtime, base: Path, image: Image
) -> Iterator[RootlessPodman]:
    """Podman with the image, in the user's home."""
    program = host.program("podman")
    host.program("conmon")
    if shutil.which("newuidmap") is None:
        pytest.skip("newuidmap is not installed")
    # Otherwise podman's clean-up command, which gets "HOME/run/containers" as its "--runroot",
    # takes none of more than 50 characters, and podman waits 20 seconds for what it would write.
    home = base / "u"
    assert len(str(home / "run/containers")) <= 50
    user = OrdinaryUser(runtime.path, home)
    if not user.may_run_it():
        pytest.skip(f"an ordinary user may not execute {runtime.path}")
    podman = RootlessPodman(program, user, home)
    image.write_oci_archive(base / "rootless.tar")
    (base / "rootless.tar").chmod(0o644)
    podman("load", "--input", str(base / "rootless.tar")).ok()
    yield podman
    podman.end()


@pytest.fixture
def podman(podman_host: RootlessPodman, nothing_left: None) -> Iterator[RootlessPodman]:
    """podman; all containers are removed after the test."""
    yield podman_host
    podman_host.tidy()
    assert podman_host.state() == []


def sh(podman: RootlessPodman, script: str, *flags: str) -> list[list[str]]:
    """Run a script in a container; return its output as lists of words."""
    said = podman.run("--rm", *flags, NAME, "sh", "-c", script).ok().out
    return [line.split() for line in said.splitlines()]


def test_root_inside_is_the_user(podman: RootlessPodman) -> None:
    """The container is in podman's own user namespace: no other is created."""
    data = podman.home / "data"
    data.mkdir()
    data.chmod(0o777)
    script = """
        cat /proc/self/uid_map; id -u; touch /data/made; touch /x 2>/dev/null || echo refused
        ls /sys/class/net
    """
    flags = ("--read-only", "-v", f"{data}:/data", "--network=host")
    podmans, more, user, refused, *devices = sh(podman, script, *flags)
    assert podmans == ["0", str(UID), "1"]
    assert more == ["1", str(SUBUID), "65536"]
    assert (user, refused) == (["0"], ["refused"])
    assert (data / "made").stat().st_uid == UID
    outside = {path.name for path in Path("/sys/class/net").iterdir()}
    assert {words[0] for words in devices} == outside


def test_keep_id(podman: RootlessPodman) -> None:
    """The user keeps their id, in a user namespace within podman's; /sys is the host's."""
    user, sysfs = sh(podman, "id -u; grep ' /sys ' /proc/self/mounts", "--userns=keep-id")
    assert user == [str(UID)]
    assert "ro" in sysfs[3].split(",")


def test_life_in_the_background(podman: RootlessPodman) -> None:
    podman.background("one", NAME, "sh", "-c", "echo logged; exec sleep 1000")
    assert podman.inspect("one", ".State.Status") == "running"
    assert podman("logs", "one").ok().out == "logged\n"
    assert podman.state() != []
    script = "cat /proc/self/uid_map /proc/self/cgroup; exit 7"
    first = podman("exec", "one", "cat", "/proc/1/uid_map", "/proc/1/cgroup").ok().out
    beside = podman("exec", "one", "sh", "-c", script)
    assert (beside.status, beside.out) == (7, first)
    podman("exec", "--detach", "--user=5", "one", "touch", "/tmp/made").ok()
    assert processes.until(lambda: podman("exec", "one", "test", "-e", "/tmp/made").status == 0)
    podman("kill", "one").ok()
    assert podman("wait", "one").ok().out == "137\n"
    podman("rm", "one").ok()


def test_pod(podman: RootlessPodman) -> None:
    """The second container joins the first one's namespaces."""
    infra = ("--infra-image", NAME, "--infra-command", "sleep 1000")
    podman("pod", "create", "--name", "both", "--network=none", *infra).ok()
    try:
        assert sh(podman, "hostname", "--pod", "both") == [["both"]]
    finally:
        podman("pod", "rm", "--force", "--time", "0", "both").ok()


def test_set_up_by_the_user(podman: RootlessPodman, runtime: Runtime) -> None:
    """`ociruntime setup podman` without root writes to the user's own configuration."""
    settings = (podman.home / "containers.conf").read_text().partition("[engine.runtimes]")
    own = [line for line in settings[0].splitlines() if not line.startswith("runtime")]
    config = podman.home / ".config/containers"
    (config / "containers.conf").write_text("\n".join(own))
    drop_in = config / "containers.conf.d/50-ociruntime.conf"
    before = podman.env.pop("CONTAINERS_CONF")
    words = [f"{name}={value}" for name, value in podman.env.items()]

    def setup(*flags: str) -> str:
        command = podman.user.words(*words, str(runtime.path), "setup", "podman", *flags)
        return execute(command, {}, podman.home).ok().out

    try:
        assert "test container ran" in setup("--default")
        assert drop_in.stat().st_uid == UID
        shown = podman("info", "--format", "{{.Host.OCIRuntime.Path}}").ok().out
        assert shown == f"{runtime.path}\n"
        assert setup("--undo") == f"{drop_in}: removed\n"
        assert not drop_in.parent.exists()
    finally:
        podman.env["CONTAINERS_CONF"] = before
        (config / "containers.conf").unlink()
