"""Large, odd and unusual bundles that are valid, or refused with a clear message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import isolation
from tests.support.peers import deviates, judge_by
from tests.support.plugin import TAG, MakeBundle, MakeContainer

MS_REMOUNT = 32
MS_BIND = 4096
MS_NOEXEC = 8
MS_RDONLY = 1


def test_large_environment(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("sh", "-c", "env | grep -c ^V")
    one.process["env"] += [f"V{number}=" + "x" * 1000 for number in range(1000)]
    assert container(one).run().ok().out == "1000\n"


@deviates(runc="start succeeds", crun="words of its own")
def test_environment_that_is_too_large(container: MakeContainer, bundle: MakeBundle) -> None:
    """Only execve(2) detects it: start reports it, and the container is stopped."""
    one = bundle("true")
    one.process["env"].append("V=" + "x" * 200000)
    made = container(one).created()
    made.start().failed("argument list too long")
    assert made.runtime("state", made.id).status == 1 or made.status == "stopped"


def test_many_arguments(container: MakeContainer, bundle: MakeBundle) -> None:
    assert container(bundle("sh", "-c", "echo $#", "sh", *["a"] * 20000)).run().out == "20000\n"


def test_many_mounts(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("grep", "-c", " /m/", "/proc/self/mountinfo")
    for number in range(200):
        one.mount(f"/m/{number}", "tmpfs", "t", "size=4k")
    assert container(one).run().ok().out == "200\n"


def test_many_groups(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("sh", "-c", "id -G | wc -w")
    one.process["user"]["additionalGids"] = list(range(1, 3000))
    assert container(one).run().ok().out == "3000\n"


def test_large_annotations(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle()
    one.config["annotations"] = {f"key{number}": "v" * 1000 for number in range(1000)}
    made = container(one).started()
    assert made.state()["annotations"] == one.config["annotations"]


@pytest.mark.parametrize(
    "name", ["two words", "\u00e4\u2603", "new\nline", "quo\"te'", "-dash", "per%cent", "a:b,c"]
)
def test_name_of_the_bundle(container: MakeContainer, bundle: MakeBundle, name: str) -> None:
    one = bundle()
    renamed = one.path.parent / name
    one.path.rename(renamed)
    one.path, one.rootfs = renamed, renamed / "rootfs"
    made = container(one).started()
    assert made.state()["bundle"] == str(renamed)
    made.delete("--force").silent()


def test_deep_bundle(container: MakeContainer, bundle: MakeBundle) -> None:
    """Its path is longer than that of a Unix socket may be, and than most buffers."""
    one = bundle()
    deep = one.path.parent.joinpath(*["d" * 200] * 8)
    deep.mkdir(parents=True)
    moved = deep / "bundle"
    one.path.rename(moved)
    one.path, one.rootfs = moved, moved / "rootfs"
    container(one).started().delete("--force").silent()


def test_root_on_a_read_only_mount(container: MakeContainer, bundle: MakeBundle) -> None:
    """All mount points exist: nothing has to be written."""
    one = bundle("echo", "runs")
    for entry in one.config["mounts"]:
        (one.rootfs / entry["destination"].lstrip("/")).mkdir(parents=True, exist_ok=True)
    place = str(one.rootfs)
    isolation.mount(place, place, "", MS_BIND)
    isolation.mount("none", place, "", MS_BIND | MS_REMOUNT | MS_RDONLY)
    assert container(one).run().ok().out == "runs\n"
    isolation.unmount(place)


def test_root_on_a_noexec_mount(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("echo", "runs")
    place = str(one.rootfs)
    isolation.mount(place, place, "", MS_BIND)
    isolation.mount("none", place, "", MS_BIND | MS_REMOUNT | MS_NOEXEC)
    made = container(one)
    result = made.create()
    if made.runtime.kind == "ociruntime":
        result.failed("permission denied")
    isolation.unmount(place)


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ("/a/../b", "/b"),
        ("/../../etc/x", "/etc/x"),
        ("/dev/../srv", "/srv"),
        ("//double//slash/", "/double/slash"),
        ("/dev/sub/dir", "/dev/sub/dir"),
        ("/sys/fs", "/sys/fs"),
    ],
)
def test_destination(
    container: MakeContainer, bundle: MakeBundle, destination: str, target: str
) -> None:
    one = bundle("grep", TAG, "/proc/self/mountinfo").mount(destination, "tmpfs", TAG)
    assert container(one).run().ok().out.split(" ")[4] == target


@pytest.mark.parametrize("destination", ["/", ".", "/proc/sys", "/proc/self/x", "/proc/1/cwd"])
@deviates(crun="mounts there", runc="1.1 mounts over parts of procfs")
def test_destination_that_is_refused(
    container: MakeContainer, bundle: MakeBundle, destination: str
) -> None:
    """A-58, A-59."""
    container(bundle().mount(destination, "tmpfs", TAG)).create().failed()


@judge_by("ociruntime")
@pytest.mark.parametrize("path", ["../../x", "/../x", "a/../../b", "/", "/."])
def test_cgroup_path_that_is_refused(
    container: MakeContainer, bundle: MakeBundle, path: str
) -> None:
    one = bundle()
    one.linux["cgroupsPath"] = path
    container(one).create().failed("linux.cgroupsPath")


def test_pid_file_over_a_link(container: MakeContainer, work: Path) -> None:
    """The link is replaced; its target is not written."""
    target = work / "target"
    target.write_text("kept")
    one = container()
    one.pid_file.symlink_to(target)
    one.create()
    if one.runtime.kind != "crun":
        assert target.read_text() == "kept"
        assert not one.pid_file.is_symlink()


def test_user_namespace_with_a_terminal(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    from tests.support.terminal import ConsoleSocket

    one = bundle().user_namespace().shell("stat -c %U $(tty); echo done; sleep 100")
    one.process["terminal"] = True
    one.process["user"] = {"uid": 1000, "gid": 1000}
    socket = ConsoleSocket(work / "socket")
    made = container(one)
    made.create("--console-socket", str(socket.path)).silent()
    terminal = socket.receive()
    made.start().silent()
    assert "user" in terminal.read_until("done")
    terminal.close()
    socket.close()


@pytest.mark.skipif(Path("/sys/fs/selinux/enforce").exists(), reason="the host has SELinux")
@deviates(crun="ignores it", runc="the kernel refuses the tmpfs")
def test_mount_label_without_selinux(container: MakeContainer, bundle: MakeBundle) -> None:
    """It is never ignored silently."""
    one = bundle()
    one.linux["mountLabel"] = "system_u:object_r:container_file_t:s0:c1,c2"
    container(one).create().failed("linux.mountLabel: ", "SELinux")
