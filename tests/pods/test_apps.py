"""Apps of mutable pods: added, started, stopped and removed while the pod runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.pods.sandbox import Sandbox
from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import MAKE_DEEP, busybox, shell


@pytest.fixture
def sandbox(ocipod: Ocipod, work: Path) -> Sandbox:
    return Sandbox(ocipod, work)


def test_the_life_of_an_app(ocipod: Ocipod, sandbox: Sandbox) -> None:
    uuid = sandbox.uuid
    ocipod("status", "--wait-ready=5s", uuid).ok()
    sandbox.add("web", "exec sleep 60")
    assert sandbox.states() == {"web": "prepared"}
    sandbox.do("start", "web")
    first = sandbox.status("web")
    sandbox.do("start", "web")
    assert sandbox.status("web") == first
    assert ocipod("app", "exec", "--app=web", uuid, "--", "sh", "-c", "exit 7").status == 7
    sandbox.do("stop", "web")
    assert sandbox.status("web")["state"] == "exited"
    assert sandbox.status("web")["exit_code"] == "143"
    sandbox.do("stop", "web")
    sandbox.do("start", "web")
    again = sandbox.status("web")
    assert (again["state"], again["restarts"]) == ("running", "1")
    assert again["started_at"] > first["started_at"]
    sandbox.do("rm", "web")
    assert sandbox.states() == {}
    assert list((ocipod.path(uuid) / "apps").iterdir()) == []
    assert ocipod.state(uuid) == "running"
    ocipod("stop", "--wait", uuid).ok()
    assert ocipod.state(uuid) == "exited"


def test_a_failing_app_leaves_the_others_alone(ocipod: Ocipod, sandbox: Sandbox) -> None:
    """Also if both use one image: each has its own files."""
    sandbox.start("a", "echo mine >/file", "exit 12")
    sandbox.start("b", "echo mine >/file", "sleep 60")
    sandbox.wait("a", "exited")
    assert sandbox.status("a")["exit_code"] == "12"
    sandbox.do("rm", "a")
    assert sandbox.states() == {"b": "running"}
    words = ("cat /file && echo more >>/file && cat /bin/busybox >/dev/null",)
    done = ocipod("app", "exec", "--app=b", sandbox.uuid, "--", "sh", "-c", *words).ok()
    assert done.out == "mine\n"


def test_a_failing_app_halts_a_pod_that_is_to_be_halted(ocipod: Ocipod, work: Path) -> None:
    sandbox = Sandbox(ocipod, work, "--on-failure=halt")
    sandbox.start("b", "exec sleep 60")
    sandbox.start("a", "exit 12")
    ocipod.wait_for(sandbox.uuid, "exited")
    assert json.loads((ocipod.path(sandbox.uuid) / "exit").read_text())["code"] == 12
    assert sandbox.status("b")["stopped_by"] == "halt"


def test_what_is_refused(ocipod: Ocipod, work: Path, sandbox: Sandbox) -> None:
    sandbox.start("one", "exec sleep 60")
    uuid, image = sandbox.uuid, sandbox.image
    ocipod("app", "add", uuid, image, "--name=one").failed("one")
    ocipod("app", "start", uuid, "--app=two").failed(f'pod {uuid} has no app "two" (its apps: one)')
    ocipod("app", "add", uuid, f"oci:{work}/nowhere", "--name=x").failed()
    ocipod("app", "exec", uuid, "--env=X", "--", "true").failed("--env")
    words = ("--detach", "--net=none", image, "--name=a", *shell("exec sleep 60"))
    other = ocipod("run", *words).ok().out.strip()
    commands: list[tuple[str, ...]] = [("add", other, image, "--name=b")]
    ocipod("app", "add", uuid, image, "--name=b").ok()
    ocipod("app", "status", uuid).failed(f"pod {uuid} has 2 apps", "--app: one, b")
    (ocipod.path(uuid) / "ready").unlink()
    ocipod("app", "add", uuid, image, "--name=c").failed(f"pod {uuid} is not ready")
    for command in (*commands, ("rm", other), ("stop", other)):
        ocipod("app", *command).failed("is immutable")
    ocipod("stop", "--force", "--wait", uuid, other).ok()
    commands = [("add", uuid, image, "--name=b")]
    for command in (*commands, ("start", "--app=one", uuid), ("exec", "--app=one", uuid, "true")):
        ocipod("app", *command).failed(f"pod {uuid} is not running")


def test_an_app_that_does_not_run(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("one", "exit 3")
    sandbox.wait("one", "exited")
    uuid = sandbox.uuid
    ocipod("app", "exec", uuid, "true").failed(f'app "one" of pod {uuid} is not running')
    ocipod("attach", uuid).failed(f'app "one" of pod {uuid} is not running')


def test_an_app_that_cannot_be_started(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.ocipod("app", "add", sandbox.uuid, sandbox.image, "--name=no", "--exec=/nope").ok()
    ocipod("app", "start", sandbox.uuid, "--app=no").failed("/nope")
    assert sandbox.status("no")["exit_code"] == "127"
    assert "/nope" in ocipod("logs", sandbox.uuid).ok().err
    assert ocipod.state(sandbox.uuid) == "running"


def test_side_by_side(ocipod: Ocipod, sandbox: Sandbox) -> None:
    names = [f"app{number}" for number in range(6)]
    words = [
        ("app", "add", sandbox.uuid, sandbox.image, f"--name={name}", *shell("exec sleep 60"))
        for name in names
    ]
    readers = [("app", "list", "--format=json", sandbox.uuid)] * 4
    done = ocipod.together(*words, *readers)
    assert [one.status for one in done] == [0] * len(done), done
    for one in done[len(words) :]:
        assert {app["state"] for app in one.json} <= {"unknown", "prepared"}, one
    assert sorted(sandbox.states()) == names
    same = ("app", "add", sandbox.uuid, sandbox.image, "--name=same", *shell("exec sleep 60"))
    codes = sorted(one.status for one in ocipod.together(*[same] * 4))
    assert codes == [0, 254, 254, 254]
    assert sorted(path.name for path in (ocipod.path(sandbox.uuid) / "apps").iterdir()) == [
        *names,
        "same",
    ]


def test_one_request_after_the_other(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.add("one", "exec sleep 60")

    def word(action: str) -> tuple[str, ...]:
        return ("app", action, sandbox.uuid, "--app=one")

    for actions in (["start"] * 4, ["start", "stop"] * 3, ["stop"] * 4, ["start", "rm"]):
        done = ocipod.together(*(word(action) for action in actions))
        refused = [action for action, one in zip(actions, done, strict=True) if one.status]
        # Only a `start` that comes after `rm`, or is overtaken by it, finds no app.
        assert refused in ([], ["start"] if "rm" in actions else []), done
    assert sandbox.states() == {}
    sandbox.start("one", "exec sleep 60")
    restarts = sandbox.status("one").get("restarts")
    ocipod.together(word("stop"), ("stop", "--wait", sandbox.uuid), word("start"))
    ocipod.wait_for(sandbox.uuid, "exited")
    assert sandbox.status("one").get("restarts", restarts) in (restarts, "1")


def test_an_addition_that_was_killed(ocipod: Ocipod, sandbox: Sandbox) -> None:
    words = ("app", "add", sandbox.uuid, sandbox.image, "--name=half", *shell("exec sleep 60"))
    assert ocipod(*words, fault="appadd.after-manifest:kill").status == -9
    assert sandbox.states() == {"half": "unknown"}
    sandbox.do("rm", "half")
    assert sandbox.states() == {}
    sandbox.start("half", "exec sleep 60")
    assert sandbox.states() == {"half": "running"}


def test_apps_share_what_a_pod_shares(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("one", "hostname >/name", "exec sleep 1234")
    sandbox.start("two", "exec sleep 60")

    def run(*words: str) -> str:
        return ocipod("app", "exec", "--app=two", sandbox.uuid, *words).ok().out

    assert "sleep 1234" in run("ps")
    assert f"ocipod-{sandbox.uuid}" == run("hostname").strip()


def test_removal_of_what_is_deep(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("one", *MAKE_DEEP)
    sandbox.wait("one", "exited")
    sandbox.do("rm", "one")
    assert sandbox.states() == {}
    assert list((ocipod.path(sandbox.uuid) / "apps").iterdir()) == []


def test_removal_from_a_pod_that_has_ended(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("one", "exec sleep 60")
    ocipod("stop", "--wait", sandbox.uuid).ok()
    sandbox.do("rm", "one")
    assert sandbox.states() == {}


def test_a_sandbox_in_the_foreground(ocipod: Ocipod, work: Path) -> None:
    process = ocipod.popen("app", "sandbox", "--net=none", stdout=subprocess.PIPE)
    assert process.stdout is not None
    uuid = process.stdout.readline().decode().strip()
    assert (ocipod.path(uuid) / "ready").is_symlink()
    process.terminate()
    assert process.wait(20) == 0
    ocipod("app", "add", uuid, busybox(work)).failed("exited")


def test_the_monitor_does_not_grow(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("one", "exec sleep 60")
    directory = Path(f"/proc/{ocipod.monitor(sandbox.uuid)['pid']}/fd")
    before = len(list(directory.iterdir()))
    for _ in range(3):
        sandbox.do("stop", "one")
        sandbox.do("start", "one")
    # The last command's connection is closed in a moment, as one may have been at first.
    assert processes.until(lambda: len(list(directory.iterdir())) <= before)


def test_attached_before_the_start(ocipod: Ocipod, sandbox: Sandbox) -> None:
    """The client gets all output, and the app gets the earlier input."""
    ocipod(
        *("app", "add", sandbox.uuid, sandbox.image, "--name=a", "--stdin=stream"),
        *shell("echo first", "read -r line", "echo got $line", "exit 7"),
    ).ok()
    ocipod("attach", sandbox.uuid).failed(f'"a" of pod {sandbox.uuid} is not running')
    for times in range(2):
        before = sockets(ocipod, sandbox.uuid)
        client = ocipod.popen(
            *("attach", "--wait", sandbox.uuid),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"input\n")
        client.stdin.flush()
        assert processes.until(partial(has_more_sockets, ocipod, sandbox.uuid, before))
        sandbox.do("start", "a")
        assert client.wait(20) == 7
        assert client.stdout.read() == b"first\ngot input\n", times
        sandbox.wait("a", "exited")


def has_more_sockets(ocipod: Ocipod, uuid: str, before: int) -> bool:
    return sockets(ocipod, uuid) > before


def sockets(ocipod: Ocipod, uuid: str) -> int:
    """Return the number of sockets that the pod's monitor has open."""
    open_ones = Path(f"/proc/{ocipod.monitor(uuid)['pid']}/fd")
    links = [os.readlink(link) for link in list(open_ones.iterdir())]
    return sum(link.startswith("socket:") for link in links)


def volumes(ocipod: Ocipod, uuid: str) -> dict[str, list[str]]:
    """Return the pod's empty volumes, and their content."""
    return {
        each.name: sorted(os.listdir(each)) for each in (ocipod.path(uuid) / "volumes").iterdir()
    }


def test_an_addition_that_fails_late(ocipod: Ocipod, sandbox: Sandbox, work: Path) -> None:
    image = busybox(work, "with-volumes", Volumes={"/data": {}})
    ocipod("fetch", image).ok()
    words = ("app", "add", sandbox.uuid, image, "--name=late")
    mine = "--mnt-volume=name=mine,kind=empty,target=/mine"
    process = ocipod.popen(*words, mine, fault="appadd.after-manifest:stop", stderr=subprocess.PIPE)
    assert processes.until(lambda: processes.state(process.pid) == "T")
    assert volumes(ocipod, sandbox.uuid) == {"late-volume-data": ["seed"], "mine": []}
    ocipod("stop", "--force", "--wait", sandbox.uuid).ok()
    process.send_signal(signal.SIGCONT)
    assert b'any more: its state is "exited"' in process.communicate(timeout=30)[1]
    assert process.returncode == 254
    assert volumes(ocipod, sandbox.uuid) == {}
    manifest = ocipod("cat-manifest", sandbox.uuid).ok().json
    assert (manifest["apps"], manifest["volumes"]) == ([], [])


def test_what_a_killed_addition_has_left_of_a_volume(
    ocipod: Ocipod, sandbox: Sandbox, work: Path
) -> None:
    image = busybox(work, "with-volumes", Volumes={"/data": {}})
    ocipod("fetch", image).ok()
    (ocipod.path(sandbox.uuid) / "volumes" / "late-volume-data").mkdir()
    ocipod("app", "add", sandbox.uuid, image, "--name=late").ok()
    assert volumes(ocipod, sandbox.uuid) == {"late-volume-data": ["seed"]}


def test_a_command_in_the_background(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("a", "exec sleep 60")
    words = ("app", "exec", "--detach", sandbox.uuid)
    told = ocipod(*words, "sh", "-c", "echo mine >/tmp/told; exec sleep 60").ok()
    assert told.out == ""
    read = ("app", "exec", sandbox.uuid, "cat", "/tmp/told")
    assert processes.until(lambda: ocipod(*read).out == "mine\n")
    ocipod(*words, "/no/program").failed("/no/program")
    ocipod("app", "exec", "--tty", *words[2:], "true").failed("--tty cannot")


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ("mine", ' mine: "mine" must be'),
        ("name=a,kind=host,source=/no/such,target=/x", ': "/no/such": no such file or directory'),
        (
            "name=taken,kind=host,source=/etc,target=/x",
            ": the pod already",
        ),
    ],
)
def test_volumes_that_are_refused(
    ocipod: Ocipod, sandbox: Sandbox, volume: str, message: str
) -> None:
    words = ("app", "add", sandbox.uuid, sandbox.image)
    ocipod(*words, "--name=one", "--mnt-volume=name=taken,kind=empty,target=/x").ok()
    ocipod(*words, "--name=two", f"--mnt-volume={volume}").failed(f"--mnt-volume{message}")
    assert sandbox.states() == {"one": "prepared"}
    assert volumes(ocipod, sandbox.uuid) == {"taken": []}


def test_a_volume_of_none_of_the_pods_users(ocipod: Ocipod, work: Path) -> None:
    sandbox = Sandbox(ocipod, work, "--private-users")
    volume = "--mnt-volume=name=v,kind=empty,uid=4294967294,target=/v"
    result = ocipod("app", "add", sandbox.uuid, sandbox.image, "--name=one", volume)
    result.failed('volume "v": uid 4294967294 ')
    assert sandbox.states() == {}
    assert volumes(ocipod, sandbox.uuid) == {}


def test_requests_while_the_pod_ends(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("one", "trap '' TERM", "while :; do sleep 1; done")
    ocipod("stop", sandbox.uuid).ok()
    ocipod("app", "start", sandbox.uuid).failed(f"pod {sandbox.uuid} is being stopped")
    ocipod("stop", "--force", "--wait", sandbox.uuid).ok()
