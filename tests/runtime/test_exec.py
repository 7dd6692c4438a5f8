"""`exec`: the identity and environment of the process, and the command's result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer


def test_status_of_the_program_comes_back(container: MakeContainer) -> None:
    running = container().started()
    assert running.exec("sh", "-c", "exit 42").status == 42
    assert running.exec("sh", "-c", "kill -KILL $$").status == 137
    done = running.exec("sh", "-c", "echo out; echo err >&2")
    assert (done.status, done.out, done.err) == (0, "out\n", "err\n")


def test_joins_a_created_container(container: MakeContainer) -> None:
    created = container().created()
    assert created.exec("sh", "-c", "echo here").ok().out == "here\n"
    assert created.status == "created"
    created.start().silent()


def test_options_of_the_command_are_left_to_it(container: MakeContainer) -> None:
    running = container().started()
    assert running.exec("echo", "--cwd", "-t", "--").ok().out == "--cwd -t --\n"


def test_options(container: MakeContainer) -> None:
    running = container().started()
    script = "pwd; id -u; id -g; id -G; echo $FIRST $SECOND"
    options = ("--cwd=/proc", "--user=7:8", "--additional-gids=9", "--additional-gids=10")
    environment = ("--env=FIRST=1", "--env=SECOND=2", "--env=FIRST=3")
    out = running.exec(*options, *environment, "sh", "-c", script).ok().out.splitlines()
    assert out == ["/proc", "7", "8", "8 9 10", "3 2"]


def test_process_of_a_file(container: MakeContainer, work: Path) -> None:
    running = container().started()
    file = work / "process.json"
    document = {
        "args": ["sh", "-c", "pwd; id -u; echo $HERE; ulimit -n"],
        "cwd": "/dev",
        "env": ["HERE=file", "PATH=/bin"],
        "user": {"uid": 5, "gid": 6},
    }
    running.bundle.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 99, "hard": 99}]
    file.write_text(json.dumps(document))
    out = running.exec(f"--process={file}").ok().out.split()
    assert out[:3] == ["/dev", "5", "file"]


def test_detached_with_a_pid_file(container: MakeContainer, work: Path) -> None:
    running = container().started()
    pid = running.exec_detached("sleep", "77")
    assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\0" + b"77\0"
    assert processes.parent(pid) == os.getpid()
    assert next(work.glob("*/pid-*-0")).read_text() == str(pid)


@pytest.mark.parametrize("missing", ["nothing", "/nothing"])
def test_program_that_is_not_there(container: MakeContainer, work: Path, missing: str) -> None:
    running = container().started()
    file = work / "pid"
    result = running.exec("--detach", f"--pid-file={file}", missing)
    assert result.status == 255
    words = "executable file not found in $PATH" if missing == "nothing" else "no such file or"
    assert f'exec: "{missing}": {words}' in result.err.replace('\\"', '"')
    assert not file.exists()


def test_refusals(container: MakeContainer, bundle: MakeBundle) -> None:
    stopped = container(bundle("true")).started()
    stopped.wait()
    assert "a stopped container" in stopped.exec("true").err
    assert stopped.exec("true").status == 255
    nobody = stopped.runtime("exec", "nobody", "true")
    assert nobody.status == 255
    assert "does not exist" in nobody.err


def freeze(container: Container, state: str) -> None:
    if cgroupfs.is_v2():
        file, word = "cgroup.freeze", str(int(state == "FROZEN"))
    else:
        file, word = "freezer.state", state
    (cgroupfs.directory(container.pid, "freezer") / file).write_text(word)


def test_paused(container: MakeContainer) -> None:
    """It is refused; with --ignore-paused, the process starts when the container is resumed."""
    running = container().started()
    freeze(running, "FROZEN")
    try:
        assert processes.until(lambda: running.status == "paused")
        refused = running.exec("true")
        waiting = running.runtime.popen("exec", "--ignore-paused", running.id, "sh", "-c", "exit 6")
        assert not processes.until(lambda: waiting.poll() is not None, 0.3)
    finally:
        freeze(running, "THAWED")
    assert refused.status == 255
    assert "--ignore-paused" in refused.err
    assert waiting.wait(20) == 6


def test_signals_reach_the_program(container: MakeContainer) -> None:
    running = container().started()
    script = "trap 'exit 9' USR1; touch /tmp/ready; while :; do sleep 0.01; done"
    command = running.runtime.popen("exec", running.id, "sh", "-c", script)
    assert processes.until((running.bundle.rootfs / "tmp" / "ready").exists)
    command.send_signal(signal.SIGUSR1)
    assert command.wait(20) == 9


def members(container: Container) -> list[str]:
    """Return the pids of the processes in the container's cgroup."""
    group = cgroupfs.directory(container.pid, "freezer")
    return (group / "cgroup.procs").read_text().split()


def test_signals_before_the_program_runs(container: MakeContainer) -> None:
    """A fatal one ends `exec` and its process; others are forwarded later."""
    running = container().started()
    freeze(running, "FROZEN")
    try:
        assert processes.until(lambda: running.status == "paused")
        words = ("exec", "--ignore-paused", running.id, "sleep", "60")
        one, other = running.runtime.popen(*words), running.runtime.popen(*words)
        # Frozen in the midst of becoming the program.
        assert processes.until(lambda: len(members(running)) == 3)
        for command, number in ((one, signal.SIGUSR1), (other, signal.SIGTERM)):
            command.send_signal(number)
    finally:
        freeze(running, "THAWED")  # on v1 what is frozen cannot even be killed
    # By then the program may run; it ends by the signal as well.
    assert other.wait(20) in (130, 128 + signal.SIGTERM)
    assert one.wait(20) == 128 + signal.SIGUSR1
    assert processes.until(lambda: len(members(running)) == 1)


TERMINATED_ONCE_IT_RUNS = """
import os, signal, sys
from ociruntime.runtime.cli.main import run_program
from ociruntime.runtime.lifecycle import exec as command
begin = command.begin
def terminated(*given):
    begin(*given)
    os.kill(os.getpid(), signal.SIGTERM)
command.begin = terminated
sys.exit(run_program(sys.argv[1:]))
"""


@judge_by("ociruntime")
def test_a_signal_once_the_program_runs_is_no_failure(container: MakeContainer, work: Path) -> None:
    """Otherwise its caller would never end the running process."""
    running = container().started()
    options = ("--detach", f"--pid-file={work}/pid")
    arguments = running.runtime.command("exec", *options, running.id, "sleep", "1000")[1:]
    done = subprocess.run(
        [sys.executable, "-c", TERMINATED_ONCE_IT_RUNS, *arguments],
        cwd=work,  # not where the sources are: the installed package is tested
        stdin=subprocess.DEVNULL,
        check=False,
    )
    processes.end({int((work / "pid").read_text())})
    processes.reap_orphans()  # our child by now
    assert done.returncode == 0
