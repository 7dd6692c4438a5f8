"""The first commands that users of docker and podman try."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.daemon import OCICTL, Daemon
from tests.support.pod_images import busybox
from tests.support.terminal import PtyCommand


@pytest.fixture
def up(daemon: Daemon, shell_root: str) -> Daemon:
    """A daemon with a container ``up`` that has user accounts."""
    etc = Path(shell_root) / "etc"
    (etc / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\nwww:x:34:\nextra:x:90:web\n")
    (Path(shell_root) / "bin" / "id").symlink_to("busybox")
    daemon.run("up", rootfs=shell_root, command=["/bin/sleep", "1000"])
    return daemon


def test_a_terminal_is_refused_without_one(daemon: Daemon, shell_root: str) -> None:
    words = ("run", "-it", "--network=none", f"--rootfs={shell_root}", "/bin/sh")
    result = daemon.ctl(*words)
    assert (result.status, result.out) == (125, "")
    assert "a TTY (omit" in result.err
    assert daemon.list() == []
    daemon.create("c1", rootfs=shell_root, command=["/bin/sh"], tty=True, stdin=True)
    daemon.ctl("start", "-ai", "c1").failed("a TTY")
    assert daemon.status("c1") == "created"
    daemon.verb("c1", "start").ok()
    daemon.ctl("attach", "c1").failed("--no-stdin")


def test_exec_as_a_user_of_the_container(up: Daemon) -> None:
    script = "id -u; id -G; echo $HOME"
    for user, lines in (
        ("web", ["33", "34 90", "/srv"]),
        ("33", ["33", "34 90", "/srv"]),
        ("web:www", ["33", "34", "/srv"]),
        ("77:extra", ["77", "90", "/"]),
    ):
        out = up.ctl("exec", "-u", user, "up", "/bin/sh", "-c", script).ok().out
        assert out.splitlines() == lines
    # The accounts are those that the container has now, and only files in it count.
    add = "echo new:x:44:45::/new:/bin/sh >>/etc/passwd"
    up.ctl("exec", "up", "/bin/sh", "-c", add).ok()
    assert up.ctl("exec", "-u", "new", "up", "/bin/id", "-u").ok().out == "44\n"
    link = "rm /etc/passwd; ln -s /proc/1/root/etc/passwd /etc/passwd"
    up.ctl("exec", "up", "/bin/sh", "-c", link).ok()
    result = up.ctl("exec", "-u", "daemon", "up", "/bin/id")
    assert (result.status, result.out) == (126, "")


def test_exit_statuses_of_exec(up: Daemon) -> None:
    for words, status in (
        (("up", "/bin/nope"), 127),
        (("up", "/etc/passwd"), 126),
        (("-u", "nobody", "up", "/bin/id"), 126),
        (("-w", "/nope", "up", "/bin/id"), 126),
        (("-d", "-u", "nobody", "up", "/bin/id"), 126),
        (("-d", "up", "/bin/nope"), 127),
        (("nope", "/bin/id"), 125),
        (("-it", "up", "/bin/sh"), 125),
    ):
        result = up.ctl("exec", *words)
        assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), words


def test_a_daemon_under_nohup_ends_what_it_has_executed(up: Daemon) -> None:
    up.stop()
    command = up.command
    up.command = lambda *words: ["nohup", *command(*words)]  # type: ignore[method-assign]
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # as `sh -c "ocid &"` does
    try:
        up.start()
    finally:
        signal.signal(signal.SIGQUIT, before)
    script = "echo ready; exec sleep 1000"
    words = [str(OCICTL), f"--socket={up.socket}", "exec", "up", "/bin/sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    # What remains is the container's own process.
    top = "/v1/containers/up/top"
    assert processes.until(lambda: len(up("GET", top).ok()["processes"]) == 1, 30)
    up.run("later", rootfs=up.get("up")["rootfs"], command=["/bin/sleep", "1000"])
    pid = up.get("later")["pid"]
    monitor = up.pods.monitor(up.get("later")["pod"])["pid"]
    for one in (pid, monitor):
        status = Path(f"/proc/{one}/status").read_text()
        ignored = next(line.split()[1] for line in status.splitlines() if "SigIgn" in line)
        assert not int(ignored, 16) & (1 << signal.SIGHUP - 1 | 1 << signal.SIGQUIT - 1)


def test_the_strict_create_takes_words_as_they_are(daemon: Daemon, shell_root: str) -> None:
    words = ("container", "create", "c1", f"--rootfs={shell_root}", "--network=none")
    daemon.ctl(*words, "/bin/sh", "--", "-c", "echo $0 $1", "a", "--").ok()
    assert daemon.get("c1")["command"] == ["/bin/sh", "-c", "echo $0 $1", "a", "--"]
    home = str(Path(shell_root).parent)
    tilde = f"--rootfs=~/{Path(shell_root).name}"
    other = ("container", "create", "c2", tilde, "--network=none", "/bin/true")
    daemon.ctl(*other, env={"HOME": home}).ok()
    assert daemon.get("c2")["rootfs"] == shell_root


def test_a_running_container_is_deleted_with_force(up: Daemon) -> None:
    up.ctl("container", "delete", "up").failed("use --force")
    assert up.ctl("container", "delete", "--force", "up").ok().out.startswith("deleted: ")
    assert up.list() == []


def test_filters_take_what_the_columns_show(up: Daemon) -> None:
    up.ctl("stop", "-t", "0", "up").ok()
    for words in ("status=exited", "status=stopped", "status=Exited", "exited=137"):
        assert up.ctl("ps", "--filter", words, "--format={{.Name}}").ok().out == "up\n"
    image = up.ctl("ps", "-a", "--format={{.Image}}").ok().out.strip()
    assert up.ctl("ps", "-aq", "--filter", f"ancestor={image}").ok().out.count("\n") == 1
    assert up.ctl("ps", "-q", "--filter", "status=up").ok().out == ""
    up.ctl("ps", "--filter", "status=foo").failed('unknown status "foo"', "exited")
    up.ctl("ps", "--filter", "exited=one").failed('exit code, not "one"')


def test_ports_are_those_of_a_container_that_is_up(daemon: Daemon, shell_root: str) -> None:
    ports = [{"host_ip": "127.0.0.1", "host_port": 47311, "port": 80}]
    command = ["/bin/sleep", "1000"]
    daemon.create("c1", rootfs=shell_root, command=command, ports=ports, network="default")
    assert daemon.ctl("ps", "-a", "--format={{.Ports}}").ok().out == "\n"
    assert daemon.ctl("port", "c1").ok().out == ""
    assert daemon.get("c1")["ports"] == ports
    daemon.ctl("start", "c1").ok()
    assert daemon.ctl("port", "c1").ok().out == "80/tcp -> 127.0.0.1:47311\n"
    for port in ("80", "80/tcp"):
        assert daemon.ctl("port", "c1", port).ok().out == "127.0.0.1:47311\n"
    for port in ("80/udp", "81", "x"):
        daemon.ctl("port", "c1", port).failed("is not published")
    daemon.create("c2", rootfs=shell_root, command=command)
    assert daemon.ctl("ps", "-l", "--format={{.Names}}").ok().out == "c2\n"
    daemon.ctl("stop", "--timeout", "0", "c1").ok()
    assert daemon.get("c1")["exit_code"] == 137


def test_streams_of_a_run(daemon: Daemon, shell_root: str) -> None:
    options = ("--rm", "--network=none", f"--rootfs={shell_root}")
    script = ("/bin/sh", "-c", "echo out; echo err >&2")
    for words, out, err in (
        (("-a", "stdout"), "out\n", ""),
        (("--attach=STDERR",), "", "err\n"),
        (("-a", "stderr", "-a", "stdout"), "out\n", "err\n"),
    ):
        result = daemon.ctl("run", *words, *options, *script)
        assert (result.status, result.out, result.err) == (0, out, err), words
    for wrong, message in (
        (("-a", "other"), 'unknown stream "other"'),
        (("-d", "-a", "stdout"), "--attach cannot be combined"),
        (("-a", "stdin", "-a", "stdout"), "requires --interactive"),
    ):
        assert message in daemon.ctl("run", *wrong, *options, *script).err
    assert daemon.list() == []


def test_signals_are_passed_on_unless_told_otherwise(up: Daemon) -> None:
    script = "trap 'exit 4' TERM; while :; do echo tick; sleep 0.1; done"
    up.run("job", rootfs=up.get("up")["rootfs"], command=["/bin/sh", "-c", script])
    for option, status in (("--sig-proxy=false", -signal.SIGTERM), ("--sig-proxy", 4)):
        words = [str(OCICTL), f"--socket={up.socket}", "attach", option, "job"]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"tick\n"
            assert up.status("job") == "running"
            process.terminate()
        assert process.returncode == status
    up.wait_for("job", "stopped")


def test_an_output_that_is_closed(up: Daemon) -> None:
    """The client exits, as with ``| head -1``, and its program gets SIGPIPE."""
    root = up.get("up")["rootfs"]
    # Not at full speed: the log would keep a slow disk busy, for which each fsync then waits.
    yes = ("/bin/sh", "-c", "while echo y; do sleep 0.01; done")
    for words in (
        ("run", "--rm", "--network=none", f"--rootfs={root}", *yes),
        ("exec", "up", *yes),
    ):
        command = [str(OCICTL), f"--socket={up.socket}", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"y\n"
            process.stdout.close()
            assert process.wait(30) == 128 + signal.SIGPIPE
    removed = processes.until(lambda: [one["name"] for one in up.list()] == ["up"], 30)
    assert removed, (up.list(), up.log.read_text())
    top = "/v1/containers/up/top"
    assert processes.until(lambda: len(up("GET", top).ok()["processes"]) == 1, 30)
    # What runs already goes on without its reader.
    up.run("job", rootfs=root, command=list(yes))
    command = [str(OCICTL), f"--socket={up.socket}", "attach", "job"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(30) == 128 + signal.SIGPIPE
    assert up.status("job") == "running"


def test_short_ids_of_images(daemon: Daemon, shell_root: str) -> None:
    identifier = daemon.ctl("pull", f"dir:{shell_root}").ok().out.strip()
    digits = identifier.removeprefix("sha256:")
    length = next(at for at in range(3, 64) if any(c.isdecimal() for c in digits[:at]))
    words = ("run", "--rm", "--network=none", "--pull=never")
    assert daemon.ctl(*words, digits[:length], "/bin/echo", "hi").ok().out == "hi\n"
    assert daemon.ctl("rmi", digits[:2]).ok().out == f"{digits[:2]}\n"


def test_a_healthcheck_is_not_run(daemon: Daemon, work: Path) -> None:
    check = {"Test": ["CMD-SHELL", "true"]}
    for name, config in (("one", {"Healthcheck": check}), ("two", {"Healthcheck": ["NONE"]})):
        image = busybox(work, name, **config)
        result = daemon.ctl("create", f"--name={name}", "--network=none", image, "/bin/true")
        assert ("HEALTHCHECK is ignored" in result.err) == (name == "one"), result.err


def test_events_for_people_have_readable_times(up: Daemon) -> None:
    up.ctl("rename", "up", "down").ok()
    identifier = up.list()[0]["id"]
    lines = up.ctl("events", "--since=1h", "--until=0s").ok().out.splitlines()
    kinds = [line.split()[2] for line in lines]
    assert kinds[0] == "create"
    assert "start" in kinds
    recorded = up.ctl("events", "--since=1h", "--until=0s", "--format=json").ok().out.splitlines()
    for event in map(json.loads, recorded):
        assert "T" in event["attributes"].get("at", "T"), event
        assert event["attributes"]["image"].startswith("dir:")
    for line in lines:
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", line), line
        assert f"at={identifier}" not in line
        assert not re.search(r"=\S*T\S*Z", line), line


def test_events_in_docker_s_words(daemon: Daemon, shell_root: str) -> None:
    labels = {"tier": "web"}
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", "exit 3"], labels=labels)
    daemon.wait_for("c1", "stopped")
    daemon.create("c2", rootfs=shell_root, command=["/bin/true"])

    def lines(*words: str) -> list[str]:
        form = "--format={{.Action}} {{.Actor.Attributes.name}}"
        return daemon.ctl("events", "--since=1h", "--until=0s", form, *words).ok().out.splitlines()

    own = ["create c1", "start c1", "die c1"]
    assert lines() == [*own, "create c2"]
    assert lines("-f", "type=container", "-f", "event=create") == ["create c1", "create c2"]
    assert lines("-f", "label=tier") == lines("-f", "label=tier=web") == own
    assert lines("-f", "label=tier=db") == lines("-f", "image=busybox") == []
    assert lines("-f", f"image=dir:{shell_root}", "-f", "container=c2") == ["create c2"]
    daemon.ctl("events", "-f", "type=image").failed('type "image"')
    form = "{{.Type}} {{.Actor.Attributes.exitCode}} {{.Actor.Attributes.tier}} {{.From}}"
    words = ("events", "--since=1h", "--until=0s", "-f", "event=die", "--format")
    assert daemon.ctl(*words, form).ok().out == f"container 3 web dir:{shell_root}\n"
    document = json.loads(daemon.ctl(*words, "{{json .}}").ok().out)
    assert document["Actor"]["ID"] == document["id"] == daemon.get("c1")["id"]
    assert document["timeNano"] // 1_000_000_000 == document["time"]
    daemon.ctl("update", "--restart=no", "c1").ok()
    assert lines("-f", "event=update") == ["update c1"]


def test_detaching_leaves_a_line_of_its_own(up: Daemon) -> None:
    command = ["/bin/sh", "-c", "echo ready; exec sleep 1000"]
    root = up.get("up")["rootfs"]
    up.create("tty", rootfs=root, command=command, tty=True, stdin=True)
    words = [str(OCICTL), f"--socket={up.socket}", "start", "-ai", "tty"]
    command_line = PtyCommand(words)
    try:
        command_line.terminal.read_until("ready")
        command_line.terminal.write("\x10\x11")
        assert command_line.wait() == 0
        assert command_line.terminal.seen.endswith(b"ready\r\n\r\n")
    finally:
        command_line.close()
