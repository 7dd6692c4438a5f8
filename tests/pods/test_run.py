"""``ocipod run``, from the command line to an exited pod."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import cgroupfs, processes
from tests.support.images import make_layout, member
from tests.support.ocipod import Ocipod, PodResult
from tests.support.pod_images import busybox, lines, shell


def test_all_succeed(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    done = ocipod(
        *("run", "--net=none", image, "--name=a", *shell("echo one")),
        *("---", image, "--name=b", *shell("sleep 0.3", "echo two >&2")),
    ).ok()
    assert lines(done, "a") == ["one"]
    assert "two" in done.err
    (uuid,) = ocipod.pods()
    assert ocipod.phase(uuid) == "run"
    codes = {app: (ocipod.path(uuid) / "apps" / app / "status").read_text() for app in "ab"}
    assert codes == {"a": "0\n", "b": "0\n"}


def test_the_first_failure_is_the_pods(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    done = ocipod(
        *("run", "--net=none", "--volume=v,kind=empty", "--mount=volume=v,target=/v"),
        *(image, "--name=a", *shell("until [ -e /v/b -a -e /v/c ]; do sleep 0.05; done; exit 5")),
        *("---", image, "--name=b"),
        *shell("trap 'exit 0' TERM", "touch /v/b", "sleep 60 & wait"),
        *("---", image, "--name=c", *shell("touch /v/c", "exec sleep 60")),
    )
    assert done.status == 5, done
    apps = ocipod.path(ocipod.pods()[0]) / "apps"
    states = {app: json.loads((apps / app / "state.json").read_text()) for app in "abc"}
    assert {app: state["exit_code"] for app, state in states.items()} == {"a": 5, "b": 0, "c": 143}
    assert states["b"]["stopped_by"] == states["c"]["stopped_by"] == "halt"


def test_prepared_first(ocipod: Ocipod, work: Path) -> None:
    uuid = ocipod(
        "prepare", "--quiet", busybox(work), *shell("echo $HOSTNAME; hostname")
    ).out.strip()
    assert ocipod.phase(uuid) == "prepared"
    subprocess.run(["flock", "-n", "-s", ocipod.path(uuid), "true"], check=True)
    done = ocipod("run-prepared", "--net=none", "--hostname=box", uuid[:8]).ok()
    assert lines(done)[-1] == "box"
    assert ocipod.phase(uuid) == "run"
    ocipod("run-prepared", uuid).failed("exited")


def test_detached(ocipod: Ocipod, work: Path) -> None:
    file = work / "uuid"
    words = ("run", "--detach", "--net=none", f"--uuid-file-save={file}", busybox(work))
    script = shell("until [ -e /end ]; do sleep 0.05; done", "exit 3")
    uuid = ocipod(*words, *script).ok().out.strip()
    assert file.read_text() == uuid
    assert (ocipod.path(uuid) / "ready").is_symlink()
    ocipod("enter", uuid, "touch", "/end")
    subprocess.run(["flock", "-s", ocipod.path(uuid), "true"], check=True, timeout=60)
    assert json.loads((ocipod.path(uuid) / "exit").read_text())["code"] == 3


def test_interactive(ocipod: Ocipod, work: Path) -> None:
    given = work / "given"
    given.write_text("hello\n")
    with given.open("rb") as file:
        words = ("run", "--interactive", "--net=none", busybox(work), "--exec=/bin/cat")
        assert ocipod(*words, stdin=file).ok().out == "hello\n"


def test_no_program(ocipod: Ocipod, work: Path) -> None:
    done = ocipod("run", "--net=none", busybox(work), "--exec=/bin/nothing")
    assert done.status == 127
    assert "/bin/nothing" in done.err


@pytest.mark.parametrize("point", ["newpod.after-mkdir", "prepare.after-render"])
def test_killed_while_preparing(ocipod: Ocipod, work: Path, point: str) -> None:
    ocipod("prepare", busybox(work), fault=f"{point}:kill")
    phase = "embryo" if point.startswith("newpod") else "prepare"
    (uuid,) = ocipod.pods(phase)
    if phase == "prepare":
        ocipod("gc").ok()
    else:
        ocipod("gc").ok()
        assert ocipod.pods("embryo") == [uuid]
        ocipod("gc", "--grace-period=0s").ok()
    assert ocipod.pods() == []


def test_interrupted_while_preparing(ocipod: Ocipod, work: Path) -> None:
    ocipod("fetch", busybox(work)).ok()
    process = ocipod.popen("prepare", busybox(work), fault="prepare.after-render:sleep=20000")
    ocipod.wait_for_phase("prepare")
    assert processes.until(lambda: "pod.lck" in os.listdir(ocipod.path(ocipod.pods()[0])), 10)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert ocipod.pods() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run",), "at least one"),
        (("run", "IMAGE", "IMAGE"), "--name"),
        (("run", "--net=none", "--port=80-tcp:80", "IMAGE"), "port forwarding"),
        (("run", "--net=nowhere", "IMAGE"), 'unknown network "nowhere"'),
        (("run", "--net=none", "oci:/nowhere:latest"), "/nowhere"),
        (("run", "--interactive", "IMAGE", "--", "a", "---", "IMAGE"), "one app"),
        (("run", "--mds-register", "IMAGE"), "metadata service"),
        (("run", "--stage1-path=/x", "IMAGE"), "unknown option --stage1-path"),
        (("run", "--kvm-kernel=/x", "IMAGE"), "requires flavour kvm"),
        (("run", "--interactive", "--detach", "IMAGE"), "mutually exclusive"),
        (("run", "--flavor=big", "IMAGE"), 'unknown flavour "big"'),
        (("run", "--flavor=fly", "IMAGE", "--name=a", "--", "---", "IMAGE"), "one app only"),
        (("run", "--flavor=fly", "--port=80-tcp:80", "IMAGE"), "port forwarding"),
        (("run", "--flavor=fly", "--private-users", "IMAGE"), "the host's users"),
        (("run", "--pod-manifest=/nowhere"), "no such file"),
        (("run", "--pod-manifest=/x", "IMAGE"), "mutually exclusive"),
        (("prepare", "--pod-manifest=/x", "--set-env=A=1"), "mutually exclusive"),
        (("prepare", "IMAGE", "--user=nobody-here"), 'look up user "nobody-here": not found'),
        (("prepare", "--volume=v,kind=host,source=/no/where", "IMAGE"), "/no/where"),
        (("run", "--volume=v,kind=empty,uid=4294967295", "IMAGE"), "4294967295"),
        (
            ("run", "--private-users", "--volume=v,kind=empty,gid=4294967294", "IMAGE"),
            "gid 4294967294 ",
        ),
        (("prepare", "IMAGE", "--mount=volume=v,target=/v"), 'unknown volume "v"'),
        (
            ("prepare", "IMAGE", "--caps-retain=CAP_KILL", "--caps-remove=CAP_KILL"),
            "mutually exclusive",
        ),
        (("prepare", "IMAGE", "--seccomp=mode=retain,@x/y"), "unknown set"),
        (("prepare", "--net=none", "IMAGE"), "unknown option --net"),
    ],
)
def test_refusals_leave_nothing(
    ocipod: Ocipod, work: Path, words: tuple[str, ...], message: str
) -> None:
    image = busybox(work)
    done = ocipod(*(image if word == "IMAGE" else word for word in words))
    assert (done.status, done.out) == (254, ""), done
    assert message in done.err
    assert done.err.count("\n") == 1
    assert ocipod.pods() == []


def test_a_manifest_instead_of_images(ocipod: Ocipod, work: Path) -> None:
    pytest.importorskip("jsonschema", reason="without it no manifest is taken")
    image = busybox(work)
    first = ocipod("prepare", image, *shell("echo from the manifest")).out.strip()
    manifest = json.loads((ocipod.path(first) / "pod").read_text())
    file = work / "pod.json"
    file.write_text(json.dumps(manifest))
    assert lines(ocipod("run", "--net=none", f"--pod-manifest={file}").ok()) == [
        "from the manifest"
    ]
    manifest["apps"][0]["app"]["ports"] = [{"name": "x", "protocol": "tcp", "port": 0}]
    file.write_text(json.dumps(manifest))
    ocipod("run", "--net=none", f"--pod-manifest={file}").failed("apps[0].app.ports[0].port")


def test_copied_files(ocipod: Ocipod, work: Path) -> None:
    """Without an overlay, the app has the same files, and changes only its own."""
    check = "stat -c '%a %u %g' /data; cat /link/seed; echo x > /data/x"
    for _ in range(2):
        done = ocipod("run", "--net=none", "--no-overlay", busybox(work), *shell(check)).ok()
        assert lines(done) == ["750 33 34", "from the image"]


@pytest.mark.parametrize("words", [(), ("--private-users",)], ids=["plain", "private users"])
def test_where_no_overlay_can_be(ocipod: Ocipod, work: Path, words: tuple[str, ...]) -> None:
    """An overlay cannot be stacked on an overlay: the files are copied, with a message."""
    for name in ("lower", "upper", "work", "merged"):
        (work / name).mkdir()
    ocipod.directory = work / "merged" / "data"
    script = """
        mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 77
        exec "$@"
    """
    look = shell("mount | grep -c 'overlay on / '", "touch /x", "stat -c %u /x /bin/busybox")
    command = ocipod.command("run", "--net=none", *words, busybox(work), *look)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *command],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode == 77:
        pytest.skip("no overlay here")
    ocipod.directory = work / "upper" / "data"
    result = PodResult(command, done.returncode, done.stdout, done.stderr).ok()
    assert "an overlay cannot" in result.err
    assert lines(result)[1:] == ["0", "0"]


def test_fly(ocipod: Ocipod, work: Path) -> None:
    options = ("run", "--flavor=fly", "--hostname=x", "--net=default")
    check = shell("for kind in pid net mnt; do readlink /proc/self/ns/$kind; done", "exit 6")
    done = ocipod(*options, busybox(work), "--memory=64M", *check)
    assert done.status == 6
    assert "flavour fly: --net, --hostname, --memory" in done.err
    ours = [Path(f"/proc/self/ns/{name}").readlink().name for name in ("pid", "net", "mnt")]
    assert lines(done)[:2] == ours[:2]
    assert lines(done)[2] != ours[2]


def test_fly_is_stopped_with_all_that_it_has_started(ocipod: Ocipod, work: Path) -> None:
    """Without a pid namespace, its processes are found by their cgroup."""
    script = shell("trap 'exit 3' TERM", "setsid sleep 4322 & echo up", "while :; do wait; done")
    uuid = ocipod("run", "--flavor=fly", "--detach", busybox(work), *script).ok().out.strip()
    path = ocipod.path(uuid)
    assert processes.until(lambda: b" up\n" in (path / "logs/busybox.log").read_bytes())
    (group,) = set(groups_of("4322"))
    ocipod("stop", "--wait", uuid).ok()
    assert (path / "apps/busybox/status").read_text() == "3\n"
    assert groups_of("4322") == []
    assert group.parts[-2:] == (f"ocipod-{uuid}", "busybox")


def groups_of(word: str) -> list[Path]:
    """Return the cgroup of each process that has the word on its command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            if word.encode() in words:
                found.append(next(iter(cgroupfs.of_process(place.name).values())))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("words", [(), ("--no-overlay",)], ids=["overlay", "copies"])
def test_private_users(ocipod: Ocipod, work: Path, words: tuple[str, ...]) -> None:
    check = shell(
        "cat /proc/self/uid_map",
        "stat -c '%u %g %a' / /data /v",
        "touch /new /v/new",
        "stat -c %u /new /v/new",
    )
    volume = ("--volume=v,kind=empty,uid=7,mode=0700", "--mount=volume=v,target=/v")
    options = ("run", "--private-users", "--net=none", *words, *volume)
    found = lines(ocipod(*options, busybox(work), *check).ok())
    _, first, count = (int(word) for word in found[0].split())
    assert (first % 65536, count) == (0, 65536)
    assert first > 0
    assert found[1:] == ["0 0 755", "33 34 750", "7 0 700", "0", "0"]
    pod = ocipod.path(ocipod.pods()[0])
    # Of kernels that map no ids of an overlay the app gets copies as well.
    places = [pod / "apps/busybox" / place / "new" for place in ("upper", "bundle/rootfs")]
    assert [place.stat().st_uid for place in places if place.exists()] == [first]
    assert (pod / "volumes/v/new").stat().st_uid == first


@pytest.mark.parametrize("words", [(), ("--no-overlay",)], ids=["overlay", "copies"])
def test_owners_that_the_pods_users_are_none_of(
    ocipod: Ocipod, work: Path, words: tuple[str, ...]
) -> None:
    """They are mapped to nobody, not to a user of another pod."""
    far = {"uid": 4294967294, "gid": 65536}
    files: dict[str, Any] = {
        "far": member(tarfile.REGTYPE, **far),
        "data/": member(tarfile.DIRTYPE, **far),
        "data/far": member(tarfile.REGTYPE, **far),
    }
    make_layout(work / "far", files=files, config={"Volumes": {"/data": {}}})
    image = f"oci:{work / 'far'}:latest"
    options = ("run", "--private-users", "--net=none", *words, image, "--name=busybox")
    found = ocipod(*options, *shell("stat -c '%u %g' /far /data /data/far")).ok()
    assert lines(found) == ["65534 65534"] * 3


@pytest.mark.parametrize("command", ["run", "prepare", "run-prepared"])
def test_help_describes_the_options(ocipod: Ocipod, command: str) -> None:
    lines = ocipod(command, "--help").ok().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "      --hostname NAME          hostname of the pod" in lines or command == "prepare"
