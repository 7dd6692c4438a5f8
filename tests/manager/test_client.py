"""``ocictl`` and ``ocid`` together, with running containers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.daemon import OCICTL, Daemon
from tests.support.ordinary_user import UID

ODD = 'a/b "q" & $x'
COLUMNS = "ID NAME STATUS EXIT_CODE CREATED_AT STARTED_AT FINISHED_AT COMMAND ARGS"
TIME = r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"


def created(daemon: Daemon, name: str, root: str, *command: str) -> str:
    """Return the id of a container created by ``container create``."""
    words = ("container", "create", name, f"--rootfs={root}", "--network=none", *command)
    out = daemon.ctl(*words).ok().out
    assert re.fullmatch(r"created: [0-9a-f]{64}\n", out)
    return out.split()[1]


def run(daemon: Daemon, root: str, *words: str, command: tuple[str, ...]) -> str:
    """Run ``ocictl run -d``; return the id."""
    out = daemon.ctl("run", "-d", f"--rootfs={root}", "--network=none", *words, *command).ok().out
    return out.strip()


def row(daemon: Daemon, ref: str) -> str:
    """Return the row that ``container get`` prints below the titles."""
    titles, line = daemon.ctl("container", "get", ref).ok().out.splitlines()
    assert titles.split() == COLUMNS.split()
    return line


def ended(daemon: Daemon, ref: str) -> None:
    daemon.wait_for(ref, "stopped")


def test_the_life_of_a_container(daemon: Daemon, shell_root: str) -> None:
    identifier = created(daemon, "c1", shell_root, "/bin/echo", ODD)
    assert re.fullmatch(
        f"{identifier} c1   Created -1        {TIME} Not started yet. n/a         "
        f"/bin/echo {re.escape(ODD)}",
        row(daemon, "c1"),
    )
    assert daemon.ctl("container", "start", "c1").ok().out == f"started: {identifier}\n"
    ended(daemon, "c1")
    assert re.fullmatch(
        f"{identifier} c1   Stopped 0         {TIME} {TIME} {TIME} /bin/echo {re.escape(ODD)}",
        row(daemon, identifier[:12]),
    )
    assert daemon.ctl("logs", "c1").ok().out == f"{ODD}\n"
    assert daemon.ctl("wait", "c1").ok().out == "0\n"
    words = ("container", "create", "c1", f"--rootfs={shell_root}", "/bin/true")
    daemon.ctl(*words).failed("c1", "already in use")
    assert daemon.ctl("container", "delete", "c1").ok().out == f"deleted: {identifier}\n"
    daemon.ctl("container", "get", "c1").failed('"c1"', "no container")
    assert daemon.ctl("container", "list").ok().out.split() == COLUMNS.split()


def test_strict_commands_say_what_is_in_their_way(daemon: Daemon, shell_root: str) -> None:
    created(daemon, "c1", shell_root, "/bin/sleep", "100")
    daemon.ctl("container", "stop", "c1").failed('container "c1": ', '"created"')
    daemon.ctl("stop", "c1").ok()  # which has nothing to do
    daemon.ctl("container", "start", "c1").ok()
    daemon.ctl("container", "start", "c1").failed('container "c1": ', '"running"')
    daemon.ctl("start", "c1").ok()
    daemon.ctl("container", "delete", "c1").failed('container "c1": ', '"running"', "--force")
    daemon.ctl("rm", "c1").failed('container "c1": ', '"running"', "--force")
    # Back when it has ended: what comes next finds it so.
    began = time.monotonic()
    daemon.ctl("container", "stop", "--time=0", "c1").ok()
    assert time.monotonic() - began < 30
    assert "Stopped 137" in row(daemon, "c1")
    daemon.ctl("container", "stop", "c1").failed('container "c1": ', '"stopped"')
    daemon.ctl("container", "start", "c1").ok()
    assert "Running -1" in row(daemon, "c1")
    assert daemon.ctl("rm", "--force", "c1").ok().out == "c1\n"
    assert daemon.list() == []


def test_a_program_that_is_not_there(daemon: Daemon, shell_root: str) -> None:
    identifier = created(daemon, "c1", shell_root, "/bin/nope")
    result = daemon.ctl("container", "start", "c1")
    assert (result.status, result.out) == (127, "")
    assert 'start container "c1": ' in result.err
    assert "/bin/nope" in result.err
    assert "no such file or directory" in result.err
    result = daemon.ctl("start", "c1")
    assert (result.status, result.out) == (127, "")
    assert not processes_of(daemon, identifier)
    result = daemon.ctl("run", "--rm", "--network=none", f"--rootfs={shell_root}", "/etc/passwd")
    assert (result.status, result.out) == (126, "")
    assert [one["name"] for one in daemon.list()] == ["c1"]


def processes_of(daemon: Daemon, ref: str) -> list[object]:
    found: list[object] = daemon("GET", f"/v1/containers/{ref}/top").ok()["processes"]
    return found


HOSTILE = (
    *("", " ", "'", '"', "\\", "\\\\n", "$HOME", "`id`", "$(id)", "&", ";", "|", "*", "~"),
    *("a/b", "s/x/y/", "%s", "{}", "--rm", "-", "--", "---", "\t", "\n", "é", "\U0001f40b", "\x7f"),
)


def test_arguments_arrive_as_they_are(daemon: Daemon, shell_root: str) -> None:
    script = 'for word; do echo "<$word>"; done'
    created(daemon, "c1", shell_root, "/bin/sh", "-c", script, "sh", *HOSTILE)
    daemon.ctl("start", "c1").ok()
    ended(daemon, "c1")
    expected = "".join(f"<{word}>\n" for word in HOSTILE)
    assert daemon.ctl("logs", "c1").ok().out == expected
    assert json.loads(daemon.ctl("inspect", "c1").ok().out)[0]["Args"][-len(HOSTILE) :] == list(
        HOSTILE
    )
    # One row a container, whatever its words are.
    assert len(daemon.ctl("container", "list").ok().out.splitlines()) == 2
    assert len(daemon.ctl("ps", "--all", "--no-trunc").ok().out.splitlines()) == 2


def test_what_a_container_is_made_of_stays_as_it_is(daemon: Daemon, shell_root: str) -> None:
    root = Path(shell_root)
    os.link(root / "etc" / "passwd", root / "etc" / "same")
    os.chown(root / "tmp", 7, 8)
    (root / "etc" / "nowhere").symlink_to("/etc/nowhere")
    before = listing(root)
    script = "echo x >/etc/passwd; mkdir /etc/more; ls -n / /etc; ls -l /bin"
    run(daemon, shell_root, "--name=c1", command=("/bin/sh", "-c", script))
    ended(daemon, "c1")
    out = daemon.ctl("logs", "c1").ok().out
    assert re.search(r"drwx\S+ +\d+ +7 +8 .* tmp\n", out)
    assert re.search(r"-rw\S+ +2 .* same\n", out)
    assert "nowhere -> /etc/nowhere" in out
    assert "sh -> busybox" in out
    assert listing(root) == before


def listing(root: Path) -> list[tuple[str, int, int, int, int]]:
    return [
        (str(path), found.st_mode, found.st_uid, found.st_nlink, found.st_mtime_ns)
        for path in sorted(root.rglob("*"))
        for found in (path.lstat(),)
    ]


def test_options_reach_the_container(daemon: Daemon, shell_root: str, work: Path) -> None:
    (work / "shared").mkdir()
    (work / "shared" / "file").write_text("from the host\n")
    script = (
        "echo $A $B; pwd; cat /data/file; cat /proc/sys/kernel/hostname; ls -nd /proc/self/;"
        " echo x >/data/file; echo x >/file; echo done"
    )
    run(
        daemon,
        shell_root,
        *("--name=c1", "-e", "A=1 2", "--env", "B", "-w", "/tmp", "--hostname=host1"),
        *("-v", f"{work}/shared:/data:ro", "-u", "7:8", "-m", "64M", "--pids-limit=20"),
        *("--read-only", "-l", "tier=web"),
        command=("/bin/sh", "-c", script),
    )
    ended(daemon, "c1")
    out = daemon.ctl("logs", "c1").out.splitlines()
    assert out[:4] == ["1 2", "/tmp", "from the host", "host1"]
    assert re.search(r" 7 +8 ", out[4])
    assert out[5:] == ["done"]
    assert (work / "shared" / "file").read_text() == "from the host\n"
    names = daemon.ctl("ps", "-f", "label=tier=web", "-a", "--format={{.Name}} {{.Labels}}")
    assert names.ok().out == "c1 tier=web\n"
    assert daemon.ctl("ps", "-aq", "-f", "label=tier=db").ok().out == ""


def test_names_and_beginnings(daemon: Daemon, shell_root: str) -> None:
    first = created(daemon, "web", shell_root, "/bin/true")
    second = daemon.ctl("create", f"--rootfs={shell_root}", "--network=none", "/bin/true").ok().out
    assert daemon.get(second.strip())["name"] not in ("", "web")
    daemon.ctl("rename", first[:16], "db").ok()
    assert daemon.ctl("inspect", "web").status == 1
    daemon.ctl("rename", second.strip(), "db").failed("db", "already in use")
    filters = "%7B%22colour%22%3A%5B%22red%22%5D%7D"
    daemon("GET", f"/v1/containers?filters={filters}").failed(400, "filters.colour: unknown filter")
    for name in ("-x", "a b", "x/y", ""):
        assert daemon.ctl("rename", "db", "--", name).status == 1
    result = daemon.ctl("rm", "nope", "db", second[:20])
    assert (result.status, result.out) == (1, f"db\n{second[:20]}\n")
    assert '"nope"' in result.err
    assert result.err.count("\n") == 1
    assert daemon.list() == []


def test_a_container_whose_pod_is_gone_is_one_row_of_many(daemon: Daemon, shell_root: str) -> None:
    run(daemon, shell_root, "--name=lost", command=("/bin/sleep", "100"))
    created(daemon, "other", shell_root, "/bin/true")
    uuid = daemon.get("lost")["pod"]
    daemon.pods("stop", "--force", "--wait", uuid).ok()
    daemon.pods("rm", uuid).ok()
    out = daemon.ctl("container", "list").ok().out
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["lost", "other"]
    assert daemon.get("lost")["status"] == "stopped"
    assert daemon.ctl("ps", "--all", "--quiet").ok().out.count("\n") == 2
    daemon.ctl("rm", "lost").ok()


def test_seeing_and_freezing(daemon: Daemon, shell_root: str) -> None:
    identifier = run(daemon, shell_root, "--name=c1", "-m", "64M", command=("/bin/sleep", "100"))
    assert daemon.ctl("ps").ok().out.splitlines()[1].startswith(identifier[:12])
    (line,) = daemon.ctl("top", "c1").ok().out.splitlines()[1:]
    assert line.split()[0] == str(daemon.get("c1")["pid"])
    assert line.endswith("/bin/sleep 100")
    stats = json.loads(daemon.ctl("stats", "--format=json").ok().out)
    assert [(one["name"], one["memory_limit"]) for one in stats] == [("c1", 64 << 20)]
    assert stats[0]["memory"] > 0
    assert stats[0]["pids"] == 1
    assert stats[0]["cpu_percent"] is not None
    assert (stats[0]["network_received"], stats[0]["network_sent"]) == (0, 0)
    table = daemon.ctl("stats", "--no-stream", "c1").ok().out.splitlines()
    assert table[0].startswith("CONTAINER ID  NAME  CPU %  MEM USAGE / LIMIT")
    assert table[1].startswith(identifier[:12])
    assert daemon.ctl("pause", "c1").ok().out == "c1\n"
    assert "(Paused)" in daemon.ctl("ps").ok().out
    daemon.ctl("pause", "c1").failed('container "c1": it is already paused')
    daemon.ctl("unpause", "c1").ok()
    daemon.ctl("unpause", "c1").failed("not paused")
    pods = json.loads(daemon.ctl("pod", "ls", "--format=json").ok().out)
    assert [(one["container"], one["state"]) for one in pods] == [("c1", "running")]
    daemon.ctl("pod", "stop", pods[0]["id"]).failed('belongs to container "c1"')
    assert daemon.ctl("info", "--format={{.Running}}").ok().out == "1\n"
    assert daemon.ctl("system", "info", "-f", "{{.ContainersRunning}}").ok().out == "1\n"
    own = daemon.ctl("version", "-f", "{{.ocid}} {{.Server.Version}}").ok().out.split()
    assert own[0] == own[1] == daemon.ctl("--version").ok().out.split()[1]
    daemon.ctl("kill", "--signal=USR1", "c1").ok()
    ended(daemon, "c1")
    assert daemon.ctl("ps").ok().out.count("\n") == 1
    assert daemon.ctl("ps", "-f", "exited=138", "--format={{.Name}}").ok().out == "c1\n"
    result = daemon.ctl("wait", "c1")
    assert (result.status, result.out) == (0, "138\n")
    daemon.ctl("kill", "c1").failed("c1", "not running")
    result = daemon.ctl("prune").ok()
    assert result.out == f"{identifier}\n"
    assert re.fullmatch(r"ocictl: 1 container removed, [1-9]\S* k?B freed\n", result.err)


def test_images(daemon: Daemon, shell_root: str) -> None:
    image = f"dir:{shell_root}"
    identifier = daemon.ctl("pull", image).ok().out.strip()
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", identifier)
    (found,) = json.loads(daemon.ctl("images", "--format=json").ok().out)
    assert (found["id"], found["name"]) == (identifier, image)
    daemon.ctl("create", "--name=c1", "--network=none", image, "/bin/true").ok()
    daemon.ctl("rmi", image).failed("by a pod")
    daemon.ctl("rm", "c1").ok()
    assert daemon.ctl("rmi", image).ok().out == f"{image}\n"
    daemon.ctl("rmi", image).failed("in the store")
    assert daemon.ctl("images", "--quiet").ok().out == ""
    result = daemon.ctl("run", "--pull=never", "localhost:1/nope", "/bin/true")
    assert (result.status, result.out) == (125, "")
    assert "nope" in result.err


def test_who_may_use_the_socket(daemon: Daemon, work: Path) -> None:
    assert os.stat(daemon.socket).st_mode & 0o777 == 0o660
    # Through all that is above it, to a socket that is closed.
    for directory in (*work.parents, work):
        if not os.stat(directory).st_mode & 0o001:
            pytest.skip(f"an ordinary user does not get to {directory}")
    command = [str(OCICTL), f"--socket={daemon.socket}", "ps"]
    alone = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    done = subprocess.run([*alone, *command], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f'"{daemon.socket}": permission denied (' in done.stderr
    assert "--group" in done.stderr
    daemon.stop()
    daemon.start(f"--group={UID + 1}")
    member = ["setpriv", f"--reuid={UID}", f"--regid={UID}", f"--groups={UID + 1}"]
    done = subprocess.run([*member, *command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"uid {UID}: GET /v1/containers 200" in daemon.log.read_text()


def test_containers_outlive_the_daemon(daemon: Daemon, shell_root: str) -> None:
    run(daemon, shell_root, "--name=c1", command=("/bin/sleep", "100"))
    pid = daemon.get("c1")["pid"]
    assert daemon.stop() == 0
    result = daemon.ctl("ps")
    assert (result.status, result.out) == (1, "")
    assert "is ocid running?" in result.err
    daemon.start()
    assert daemon.get("c1")["pid"] == pid


# --- run, in the foreground ---


@pytest.mark.parametrize(
    ("script", "status"),
    [("echo out; echo err >&2; exit 7", 7), ("echo out; echo err >&2; kill -9 $$", 137)],
)
def test_run_ends_as_the_container_ends(
    daemon: Daemon, shell_root: str, script: str, status: int
) -> None:
    words = ("run", "--rm", "--network=none", f"--rootfs={shell_root}", "/bin/sh", "-c", script)
    result = daemon.ctl(*words)
    assert (result.status, result.out, result.err) == (status, "out\n", "err\n")
    assert daemon.list() == []


def test_run_passes_on_what_it_is_given(daemon: Daemon, shell_root: str) -> None:
    command = [str(OCICTL), f"--socket={daemon.socket}", "run", "-i", "--rm", "--network=none"]
    data = bytes(range(256)) * 4096
    done = subprocess.run(
        [*command, f"--rootfs={shell_root}", "/bin/cat"], input=data, capture_output=True
    )
    daemon.pods.look()
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data


def test_run_passes_on_signals(daemon: Daemon, shell_root: str) -> None:
    command = [str(OCICTL), f"--socket={daemon.socket}", "run", "--name=c1", "--network=none"]
    script = "trap 'echo asked; exit 9' TERM; echo ready; while :; do usleep 50000; done"
    words = [*command, f"--rootfs={shell_root}", "/bin/sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.terminate()
            assert process.stdout.read() == b"asked\n"
            assert process.wait(30) == 9
        finally:
            process.kill()
            daemon.pods.look()


def test_start_attached(daemon: Daemon, shell_root: str) -> None:
    created(daemon, "c1", shell_root, "/bin/sh", "-c", "echo x >>/file; cat /file; exit 3")
    for lines in (1, 2):
        result = daemon.ctl("start", "--attach", "c1")
        assert (result.status, result.out) == (3, "x\n" * lines)
    # Also if its pod has ended meanwhile.
    daemon.pods("stop", "--force", "--wait", daemon.get("c1")["pod"]).ok()
    result = daemon.ctl("start", "--attach", "c1")
    assert (result.status, result.out) == (3, "x\n" * 3)


def test_ps_with_sizes(daemon: Daemon, shell_root: str) -> None:
    """The files written by the container, without its volumes; links are not followed."""
    script = "cat /bin/busybox /bin/busybox >/big; cat /bin/busybox >/data/big; "
    script += "/bin/busybox ln -s / /link"
    command = ["/bin/sh", "-c", script]
    daemon.run("c1", rootfs=shell_root, command=command, volumes=[{"target": "/data"}])
    daemon.wait_for("c1", "stopped")
    header, line = daemon.ctl("ps", "-as").ok().out.splitlines()
    assert header.split()[-1] == "SIZE"
    (one,) = daemon("GET", "/v1/containers?all=1&size=1").ok()
    written = 2 * os.path.getsize(f"{shell_root}/bin/busybox")
    assert written <= one["size"] < written + (1 << 20)
    shown = daemon.ctl("ps", "-a", "--format={{.Size}}").ok().out.strip()
    assert shown
    assert line.endswith(shown)
    assert "size" not in daemon.list()[0]
