"""`ociruntime setup ENGINE` with the real engines, whose directories in /etc are covered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.command import execute
from tests.engines.daemon import PATH, Daemon
from tests.engines.image import NAME
from tests.engines.podman import CONTAINERS_CONF, Podman
from tests.support import cgroupfs, leaks
from tests.support.peers import judge_by
from tests.support.runtime import Result, Runtime

pytestmark = judge_by("ociruntime")

DROP_IN = Path("/etc/containers/containers.conf.d/50-ociruntime.conf")
DAEMON_JSON = Path("/etc/docker/daemon.json")
CONTAINERD = Path("/etc/containerd/config.toml")
CONF_D = Path("/etc/containerd/conf.d/50-ociruntime.toml")


@pytest.fixture
def configured(podman: Podman) -> Iterator[Podman]:
    """Podman whose configuration does not mention this runtime."""
    parents = cgroupfs.named("libpod_parent")
    lines = CONTAINERS_CONF.format(home=podman.home, name="-", runtime="-").splitlines()
    places = [line for line in lines if not line.startswith(("runtime", "[engine.runtimes", "-"))]
    before = podman.env.pop("CONTAINERS_CONF")
    with host.covered("/etc/containers") as etc:
        try:
            shutil.copy(podman.home / ".config/containers/policy.json", etc)
            (etc / "containers.conf").write_text("\n".join(places))
            yield podman
        finally:
            podman.env["CONTAINERS_CONF"] = before
            podman.tidy()
            # The trial has podman's own parent, which podman keeps.
            cgroupfs.remove(cgroupfs.named("libpod_parent") - parents)


def shown(podman: Podman, *flags: str) -> Result:
    return podman(*flags, "info", "--format", "{{.Host.OCIRuntime.Path}}")


def test_podman(configured: Podman, runtime: Runtime) -> None:
    before = shown(configured).ok().out
    done = runtime("setup", "podman", env=configured.env).ok()
    assert f"{DROP_IN}: written" in done.out
    assert "test container ran: podman --runtime ociruntime run" in done.out
    assert shown(configured).out == before, "the default stays"
    assert shown(configured, "--runtime", "ociruntime").ok().out == f"{runtime.path}\n"
    assert DROP_IN.stat().st_mode & 0o7777 == 0o644
    again = runtime("setup", "podman", env=configured.env).ok()
    assert f"{DROP_IN}: unchanged" in again.out
    undone = runtime("setup", "podman", "--undo", env=configured.env).ok()
    assert undone.out == f"{DROP_IN}: removed\n"
    assert not DROP_IN.parent.exists(), "it made the directory"
    assert shown(configured, "--runtime", "ociruntime").status != 0
    undone = runtime("setup", "podman", "--undo", env=configured.env).ok()
    assert "nothing to remove" in undone.out


def test_podman_by_default(configured: Podman, runtime: Runtime) -> None:
    """It also becomes the default runtime; an existing directory stays."""
    DROP_IN.parent.mkdir()
    runtime("setup", "podman", env=configured.env).ok()
    done = runtime("setup", "podman", "--default", env=configured.env).ok()
    assert "test container ran: podman run" in done.out
    assert shown(configured).ok().out == f"{runtime.path}\n"
    result = configured.run("--rm", NAME, "no-such-program")
    assert result.status == 127
    assert "level=" not in result.err, "podman did not understand the log"
    found = {
        each["name"]: each for each in json.loads(runtime("check", "--format=json").out)["findings"]
    }
    assert "the default" in found["podman"]["found"]
    runtime("setup", "podman", "--undo", env=configured.env).ok()
    assert DROP_IN.parent.is_dir()


def test_podman_that_reads_another_file_later(configured: Podman, runtime: Runtime) -> None:
    DROP_IN.parent.mkdir()
    text = f'[engine.runtimes]\nociruntime = ["{host.program("runc")}"]\n'
    (DROP_IN.parent / "99-theirs.conf").write_text(text)
    done = runtime("setup", "podman", env=configured.env)
    assert done.status == 1
    assert "podman still uses" in done.err
    assert (DROP_IN.parent / "99-theirs.conf").read_text() == text


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_files_of_others_are_kept(
    kind: str, configured: Podman, runtime: Runtime, tmp_path: Path
) -> None:
    """A link is not followed, wherever it leads."""
    DROP_IN.parent.mkdir()
    target = tmp_path / "target"
    target.write_text("[engine]\n")
    if kind == "directory":
        DROP_IN.mkdir()
    elif kind == "link":
        DROP_IN.symlink_to(target)
    else:
        shutil.copy(target, DROP_IN)
    done = runtime("setup", "podman", env=configured.env)
    assert done.status == 1
    assert "[engine.runtimes]" in done.out, "the lines to add"
    assert str(DROP_IN) in done.err
    assert "not created" in done.err
    undone = runtime("setup", "podman", "--undo", env=configured.env).ok()
    assert ": unchanged: " in undone.out
    assert target.read_text() == "[engine]\n"
    assert DROP_IN.is_symlink() == (kind == "link")
    assert DROP_IN.is_dir() == (kind == "directory")


def test_a_directory_that_others_may_change(configured: Podman, runtime: Runtime) -> None:
    DROP_IN.parent.mkdir()
    DROP_IN.parent.chmod(0o777)
    runtime("setup", "podman", env=configured.env).failed("writable by others")
    assert not DROP_IN.exists()


@pytest.fixture
def dockerd(
    base: Path, overlay: bool, cgroup: str, sockets: None, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """Dockerd with the default configuration file and pid file; returns a client's environment."""
    program = host.program("dockerd", "docker.io")
    host.program("docker", "docker.io")
    home = base / "setup-docker"
    home.mkdir()
    env = {"PATH": PATH, "HOME": str(home), "DOCKER_HOST": f"unix://{home}/docker.sock"}
    flags = {
        "host": env["DOCKER_HOST"],
        "data-root": home / "data",
        "exec-root": home / "exec",
        "storage-driver": "overlay2" if overlay else "vfs",
        "cgroup-parent": cgroup,
        "bridge": "none",
        "iptables": "false",
        "ip6tables": "false",
        "ip-forward": "false",
        "userland-proxy": "false",
    }
    with host.covered("/etc/docker"):
        daemon = Daemon(
            [program, *(f"--{name}={value}" for name, value in flags.items())], home / "log", env
        )
        try:
            daemon.wait(lambda: ask_docker(env, "version").status == 0)
            yield env
        finally:
            daemon.stop()
            host.unmount_below(home)
            shutil.rmtree(home)


def ask_docker(env: dict[str, str], *words: str) -> Result:
    return execute([host.program("docker"), *words], env, Path("/"))


def test_docker(dockerd: dict[str, str], runtime: Runtime) -> None:
    done = runtime("setup", "docker", env=dockerd).ok()
    assert f"{DAEMON_JSON}: written" in done.out
    assert "has not read" in done.out
    done = runtime("setup", "docker", "--default", "--reload", env=dockerd).ok()
    assert "test container ran: docker run" in done.out
    assert ask_docker(dockerd, "info", "--format={{.DefaultRuntime}}").out == "ociruntime\n"
    assert ask_docker(dockerd, "images", "--quiet").ok().out == ""
    assert ask_docker(dockerd, "ps", "--all", "--quiet").ok().out == ""
    assert "unchanged" in runtime("setup", "docker", "--default", env=dockerd).ok().out
    assert f"{DAEMON_JSON}: removed" in runtime("setup", "docker", "--undo", env=dockerd).ok().out
    assert not DAEMON_JSON.exists()


def test_docker_that_does_not_run(runtime: Runtime, tmp_path: Path) -> None:
    """Neither a daemon on another host nor a file with other settings is changed."""
    host.program("dockerd", "docker.io")
    env = {"PATH": PATH, "HOME": str(tmp_path), "DOCKER_HOST": "tcp://192.0.2.1:2375"}
    with host.covered("/etc/docker"):
        assert "is not running" in runtime("setup", "docker", env=env).ok().out
        document = json.loads(DAEMON_JSON.read_text())
        assert document == {"runtimes": {"ociruntime": {"path": str(runtime.path)}}}
        theirs = json.dumps({**document, "debug": True})
        DAEMON_JSON.write_text(theirs)
        assert "already" in runtime("setup", "docker", env=env).ok().out
        assert "unchanged: " in runtime("setup", "docker", "--undo", env=env).ok().out
        done = runtime("setup", "docker", "--default", env=env)
        assert done.status == 1, "it is not the default there"
        assert DAEMON_JSON.read_text() == theirs
        DAEMON_JSON.write_text("{}\n")
        done = runtime("setup", "docker", "--default", env=env)
        assert done.status == 1
        assert '"default-runtime": "ociruntime"' in done.out
        assert DAEMON_JSON.read_text() == "{}\n"


def test_containerd_without_configuration(runtime: Runtime) -> None:
    program = host.program("containerd")
    env = {"PATH": PATH, "HOME": "/"}
    with host.covered("/etc/containerd") as etc:
        done = runtime("setup", "containerd", "--default", env=env).ok()
        assert "containerd accepts it" in done.out
        assert "systemctl restart containerd" in done.out
        dump = execute([program, "config", "dump"], env, Path("/")).ok().out
        assert f'BinaryName = "{runtime.path}"' in dump
        assert 'default_runtime_name = "ociruntime"' in dump
        assert "unchanged" in runtime("setup", "containerd", "--default", env=env).ok().out
        done = runtime("setup", "containerd", env=env).ok()
        assert "written" in done.out
        dump = execute([program, "config", "dump"], env, Path("/")).ok().out
        assert 'default_runtime_name = "runc"' in dump
        runtime("setup", "containerd", "--undo", env=env).ok()
        assert list(etc.iterdir()) == []


# Values that no distribution ships.
OWN_SETTINGS = '[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "/opt/somebodys/cni"\n'
IMPORTS = 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n'


@pytest.mark.parametrize(
    ("theirs", "is_imported"),
    [("version = 2\n", False), (IMPORTS, True), (IMPORTS + OWN_SETTINGS, False)],
)
def test_containerd_with_an_existing_configuration(
    theirs: str, is_imported: bool, runtime: Runtime
) -> None:
    """It is not changed; an imported file is kept only if no setting is lost."""
    host.program("containerd")
    env = {"PATH": PATH, "HOME": "/"}
    with host.covered("/etc/containerd") as etc:
        CONTAINERD.write_text(theirs)
        done = runtime("setup", "containerd", env=env)
        assert CONTAINERD.read_text() == theirs
        if is_imported:
            done.ok()
            assert CONF_D.exists()
        else:
            assert done.status == 1
            assert f'BinaryName = "{runtime.path}"' in done.out
        runtime("setup", "containerd", "--undo", env=env).ok()
        assert list(etc.iterdir()) == [CONTAINERD]
        assert CONTAINERD.read_text() == theirs


def test_crio(runtime: Runtime, tmp_path: Path) -> None:
    """A script in place of CRI-O prints the files that it has got."""
    program = tmp_path / "crio"
    program.write_text("#!/bin/sh\ncat /etc/crio/crio.conf.d/*.conf\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{PATH}", "HOME": "/"}
    made = not Path("/etc/crio").exists()
    try:
        with host.covered("/etc/crio") as etc:
            done = runtime("setup", "crio", "--default", env=env).ok()
            assert "CRI-O accepts" in done.out
            text = (etc / "crio.conf.d/50-ociruntime.conf").read_text()
            assert f'runtime_path = "{runtime.path}"' in text
            assert 'default_runtime = "ociruntime"' in text
            runtime("setup", "crio", "--undo", env=env).ok()
            assert list(etc.iterdir()) == []
    finally:
        if made:
            Path("/etc/crio").rmdir()


def test_wrong_requests(runtime: Runtime, tmp_path: Path) -> None:
    runtime("setup", "lxc").failed("unknown engine")
    runtime("setup").failed("requires exactly 1 argument")
    runtime("setup", "podman", "--reload").failed("only for docker")
    runtime("setup", "podman", "--undo", "--default").failed("--undo")
    if not Path("/usr/bin/crio").exists():
        runtime("setup", "crio", env={"PATH": PATH}).failed("crio: not found")


def test_nothing_is_left_in_tmp(runtime: Runtime) -> None:
    assert not list(Path("/tmp").glob("ociruntime-setup-*"))
    assert leaks.mount_table()
