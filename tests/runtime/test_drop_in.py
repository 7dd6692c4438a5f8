"""Replacing runc: one test for each behaviour that callers rely on.

They are in the order in which callers would notice.  Each shows the essence; other files, and the
engines' tests, go into detail.  bench/life.py measures how long commands take.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.activation import activated
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.project import ROOT
from tests.support.runtime import Runtime, execute
from tests.support.terminal import ConsoleSocket, PtyCommand

pytestmark = judge_by("ociruntime")
RFC3339_WITH_ZONE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def test_starts_with_an_empty_environment(container: MakeContainer, runtime: Runtime) -> None:
    """Any directory, standard input closed, a relative path, one regular file."""
    one = container()
    one.create(env={}, cwd="/").silent()
    path = runtime.path.resolve()
    words = [f"./{path.name}", "--root", str(runtime.root), "state", one.id]
    script = 'exec "$@" <&-'
    result = execute(["/bin/sh", "-c", script, "sh", *words], cwd=path.parent, env={}).ok()
    assert json.loads(result.out)["status"] == "created"
    assert path.is_file()


@pytest.mark.parametrize("how", ["copy", "link"])
def test_a_copied_program_works(
    container: MakeContainer, runtime: Runtime, work: Path, how: str
) -> None:
    """Engines' tests copy the runtime, and so do some installers."""
    other = work / "runtime"
    if how == "copy" and not runtime.path.resolve().is_relative_to(ROOT):
        pytest.skip("a wheel's program cannot know where it was installed")
    if how == "copy":
        shutil.copy2(runtime.path, other)
    else:
        other.symlink_to(runtime.path)
    assert execute([str(other), "--version"]).ok().out.startswith("ociruntime version")
    one = container()
    one.runtime = Runtime(other, runtime.root)
    one.started().exec("true").ok()


def test_grammar(container: MakeContainer, runtime: Runtime) -> None:
    """Both ways to pass a value, one dash or two, Go's booleans, options for every command."""
    one = container().created()
    for words in (
        ["--log-format=json", "--systemd-cgroup", "state", one.id],
        ["-log-format", "json", "--rootless=true", "--systemd-cgroup=false", "state", one.id],
        ["--cgroup-manager", "cgroupfs", "state", "--", one.id],
        ["update", "--cpu-share=512", one.id],
    ):
        runtime(*words).ok()
    one.run("--no-subreaper").failed("already exists")
    one.exists = True
    result = runtime("create", "--bundle")
    assert result.status == 1
    assert "flag needs an argument" in result.err or "requires an argument" in result.err


def test_silence(container: MakeContainer, runtime: Runtime) -> None:
    """Success prints nothing: the error stream of `create` is the container's log."""
    one = container()
    one.create().silent()
    one.start().silent()
    assert runtime("state", one.id).ok().err == ""
    assert runtime("ps", "--format", "json", one.id).ok().err == ""
    assert runtime("features").ok().err == ""
    runtime("pause", one.id).silent()
    runtime("resume", one.id).silent()
    one.kill("KILL").silent()
    one.wait()
    one.delete().silent()


def test_create(container: MakeContainer, bundle: MakeBundle) -> None:
    """A program that cannot start fails here; a created container is a direct orphan."""
    broken = container(bundle("/no/such/program"), "broken")
    broken.create().failed("no such file or directory")
    assert not broken.pid_file.exists()
    assert not (broken.runtime.root / broken.id).exists()
    one = container(bundle().shell("echo ran; sleep 100")).created()
    assert processes.parent(one.pid) == os.getpid()
    assert (one.status, one.output) == ("created", "")


def test_pid_file(container: MakeContainer) -> None:
    """Digits only, replacing an existing file; that of `exec` only if the program starts."""
    one = container()
    one.pid_file.write_text("old\n")
    one.created()
    assert re.fullmatch(rb"[1-9][0-9]*", one.pid_file.read_bytes())
    one.start().silent()
    missing = one.bundle.path / "missing"
    assert one.exec("--detach", f"--pid-file={missing}", "no-such-program").status == 255
    assert not missing.exists()
    assert processes.alive(one.exec_detached("sleep", "100"))


def test_words_and_statuses(container: MakeContainer, bundle: MakeBundle, runtime: Runtime) -> None:
    for verb in ("start", "state", "kill", "delete"):
        runtime(verb, "unknown").failed("does not exist")
    runtime("delete", "--force", "unknown").silent()
    one = container(bundle("true")).started()
    one.wait()
    one.kill("TERM").failed("container not running")
    one.kill("9", everything=True).silent()
    one.delete().silent()
    other = container()
    other.created()
    other.kill("0").silent()
    other.kill("SIGCONT").silent()
    other.delete().silent()


def test_state(container: MakeContainer) -> None:
    """It works until `delete`."""
    one = container().started()
    state = one.state()
    assert RFC3339_WITH_ZONE.fullmatch(state["created"])
    assert re.fullmatch(r"1\.\d+\.\d+\S*", state["ociVersion"])
    assert (state["id"], state["pid"], state["status"]) == (one.id, one.pid, "running")
    assert state["bundle"] == str(one.bundle.path)
    one.kill("KILL").silent()
    one.wait()
    assert (one.status, one.state()["pid"]) == ("stopped", 0)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("no-such-program", 'exec: "no-such-program": executable file not found in $PATH'),
        ("/no/such/program", "no such file or directory"),
        ("/etc/passwd", "permission denied"),
        ("/etc", "is a directory"),
    ],
)
def test_errors(
    container: MakeContainer, bundle: MakeBundle, work: Path, program: str, words: str
) -> None:
    """One line of JSON in the log, the plain message on standard error."""
    chosen = bundle(program)
    (chosen.rootfs / "etc").mkdir(exist_ok=True)
    (chosen.rootfs / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    one = container(chosen)
    one.runtime = one.runtime.logging_to(work / "log")
    result = one.create().failed(words)
    (line,) = (work / "log").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["msg"]) == ("error", result.err.strip())
    assert RFC3339_WITH_ZONE.fullmatch(entry["time"])


def test_default_root(container: MakeContainer, runtime: Runtime) -> None:
    """The same for every call, whatever the environment; not accessible to other users."""
    one = container()
    one.bundle.save()
    path = str(runtime.path)
    create = [path, "create", "--bundle", str(one.bundle.path), one.id]
    execute(create, env={"XDG_RUNTIME_DIR": "/run/user/0"}).ok()
    try:
        execute([path, "state", one.id], env={}).ok()
        assert Path("/run/ociruntime").stat().st_mode & 0o7077 == 0
    finally:
        execute([path, "delete", "--force", one.id], env={}).silent()


def test_exec(container: MakeContainer, work: Path) -> None:
    """A process from a file, detached, with a pid file; its exit status is returned otherwise."""
    one = container().started()
    process: dict[str, object] = {"args": ["sh", "-c", "exit 7"], "cwd": "/", "env": ["PATH=/bin"]}
    process["user"] = {"uid": 0, "gid": 0}
    (work / "process.json").write_text(json.dumps(process))
    assert one.exec(f"--process={work}/process.json").status == 7
    assert processes.parent(one.exec_detached("sleep", "100")) == os.getpid()
    assert one.exec("no-such-program").status == 255


def test_console_socket(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """One message with one descriptor, before `create` and `exec` return."""
    chosen = bundle().shell("tty; sleep 100")
    chosen.process["terminal"] = True
    one = container(chosen)
    listener = ConsoleSocket(work / "console")
    one.create(f"--console-socket={listener.path}").silent()
    first = listener.receive()
    one.start().silent()
    assert "/dev/pts/0" in first.read_until("\r\n")
    one.exec_detached("--tty", f"--console-socket={listener.path}", "tty")
    second = listener.receive()
    assert "/dev/pts/1" in second.read_until("\r\n")
    for end in (first, second, listener):
        end.close()


def test_descriptors_and_signals(container: MakeContainer, bundle: MakeBundle) -> None:
    """The program inherits none of the caller's: conmon ignores SIGPIPE and leaks files."""
    one = container(bundle("probe"))
    one.bundle.save()
    run = one.runtime.command("run", "--bundle", str(one.bundle.path), one.id)
    script = "umask 077; trap '' PIPE XFSZ; exec 3</ 9</; exec \"$@\""
    facts = json.loads(execute(["sh", "-c", script, "sh", *run]).ok().out)
    assert set(facts["fds"]) == {"0", "1", "2"}
    assert (facts["ignored"], facts["blocked"]) == ([], [])
    assert facts["umask"] == 0o022


def test_features_and_version(runtime: Runtime) -> None:
    features = json.loads(runtime("features").ok().out)
    assert {"ociVersionMin", "ociVersionMax"} <= features.keys()
    assert "rro" in features["mountOptions"]
    assert features["linux"]["mountExtensions"]["idmap"]["enabled"] is True
    name, commit, spec, *_ = runtime("--version").ok().out.splitlines()
    assert re.fullmatch(r"ociruntime version \S+", name)
    assert (commit[:8], spec[:8]) == ("commit: ", "spec: 1.")


def test_driver_is_remembered(container: MakeContainer, runtime: Runtime) -> None:
    """`delete` finds the cgroup from what `create` has recorded, whatever the option says."""
    one = container().started()
    places = set(cgroupfs.of_process(one.pid).values())
    mine = {place for place in places if one.id in place.name}
    assert mine
    runtime("--systemd-cgroup", "delete", "--force", one.id).silent()
    one.exists = False
    assert not any(place.exists() for place in mine)


def test_update_ps_pause(container: MakeContainer, runtime: Runtime, work: Path) -> None:
    """Resources on standard input, pids as JSON, and a paused container can be killed."""
    one = container().started()
    (work / "resources").write_text(json.dumps({"pids": {"limit": 77}}))
    with (work / "resources").open("rb") as file:
        runtime("update", "--resources=-", one.id, stdin=file).silent()
    assert cgroupfs.setting(one.pid, "pids", "pids.max", "pids.max") == "77"
    assert json.loads(runtime("ps", "--format", "json", one.id).ok().out) == [one.pid]
    runtime("pause", one.id).silent()
    runtime("kill", one.id, "9").silent()
    runtime("resume", one.id)
    assert one.wait() == 137


def test_run(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """Signals reach the program, its exit status is returned, `--keep` keeps the container."""
    script = "trap 'exit 9' USR1; touch /ready; while :; do sleep 0.02; done"
    one = container(bundle().shell(script))
    one.bundle.save()
    running = one.runtime.popen("run", "--keep", "--bundle", str(one.bundle.path), one.id)
    one.exists = True
    assert processes.until((one.bundle.rootfs / "ready").exists)
    running.send_signal(signal.SIGUSR1)
    assert running.wait(20) == 9
    assert one.status == "stopped"
    killed = container(bundle().shell("kill -KILL $$").without_namespace("pid"))
    assert killed.run().status == 137


def test_run_in_a_terminal(container: MakeContainer, bundle: MakeBundle) -> None:
    """BuildKit reports a new size with SIGWINCH."""
    chosen = bundle().shell('echo re""ady; until [ "$(stty size)" = "22 55" ]; do sleep 0.02; done')
    chosen.process["terminal"] = True
    one = container(chosen)
    chosen.save()
    command = PtyCommand(one.runtime.command("run", "--bundle", str(chosen.path), one.id), 33, 101)
    try:
        command.terminal.read_until("ready")
        command.terminal.resize(22, 55)
        assert command.wait() == 0
    finally:
        command.close()


def test_end_of_everybody(container: MakeContainer, bundle: MakeBundle) -> None:
    """In a shared pid namespace, KILL reaches the whole cgroup; then `delete` succeeds."""
    one = container(bundle().shell("sleep 100 & exec sleep 100").without_namespace("pid")).started()
    pids: list[int] = []

    def two() -> bool:
        pids[:] = json.loads(one.runtime("ps", "--format=json", one.id).ok().out)
        return len(pids) == 2

    assert processes.until(two)
    one.kill("9").silent()
    one.wait()
    one.delete().silent()
    assert processes.until(lambda: not any(processes.alive(pid) for pid in pids))


def test_commands_for_people(container: MakeContainer, runtime: Runtime, work: Path) -> None:
    one = container().started()
    header, *rows = runtime("list").ok().out.splitlines()
    assert header.split() == ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
    assert one.id in {row.split()[0] for row in rows}
    table = runtime("ps", one.id).ok().out.splitlines()
    assert "PID" in table[0]
    assert str(one.pid) in table[1].split()
    stats = json.loads(runtime("events", "--stats", one.id).ok().out)
    assert (stats["type"], stats["id"]) == ("stats", one.id)
    runtime("spec", cwd=work).silent()
    assert json.loads((work / "config.json").read_text())["process"]["args"] == ["sh"]
    runtime("spec", cwd=work).failed("config.json")


def test_sockets_of_systemd(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """LISTEN_FDS, NOTIFY_SOCKET, and the pidfd of the process."""
    (work / "file").write_text("activated\n")
    one = container(bundle().shell("echo $LISTEN_FDS $LISTEN_PID; cat <&3"))
    one.bundle.save()
    run = one.runtime.command("run", "--bundle", str(one.bundle.path), one.id)
    assert activated(run, work / "file").ok().out == "1 1\nactivated\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(work / "notify"))
        other = container()
        other.create(env={"NOTIFY_SOCKET": str(work / "notify")}).silent()
        environ = Path(f"/proc/{other.pid}/mounts").read_text()
        assert " /run/notify " in environ


def test_speed_is_measured() -> None:
    """The bench includes every command that engines call for each container."""
    text = (ROOT / "bench/life.py").read_text()
    assert all(
        f'"{verb}"' in text for verb in ("create", "start", "state", "exec", "kill", "delete")
    )


def test_podman_knows_the_name() -> None:
    """Podman derives a runtime's capabilities from its name, so its file must list it."""
    text = (ROOT / "packaging/engines/podman.conf").read_text()
    for what in ("runtime_supports_json", "runtime_supports_nocgroup"):
        assert re.search(rf'(?m)^{what} = \[.*"ociruntime"', text)


def test_null_and_empty_paths_are_as_absent(container: MakeContainer, bundle: MakeBundle) -> None:
    """Callers in Go write them for optional members; later commands read them, too."""
    made = bundle("sleep", "1000")
    made.config.update(hooks=None, annotations=None, hostname=None, domainname=None)
    made.process.update(rlimits=None, capabilities=None, apparmorProfile=None, oomScoreAdj=None)
    made.linux["namespaces"] = [{"path": "", **one} for one in made.linux["namespaces"]]
    made.linux.update(timeOffsets=None, seccomp=None, resources=None, sysctl=None, devices=None)
    one = container(made).started()
    one.exec("true").ok()
    one.runtime("update", "--pids-limit=50", one.id).ok()
    assert one.status == "running"
