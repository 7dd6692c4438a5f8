"""The script that boots the VM: exit statuses, arguments, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import leaks, processes
from tests.v2box import machine

pytestmark = [
    pytest.mark.v2box,
    pytest.mark.root,
    pytest.mark.usefixtures("box"),
    pytest.mark.timeout(3600),
]


def test_words_and_status() -> None:
    words = ["two words", "it's", "$HOME", "a\\b", "", "*"]
    result = machine.box("run", "--", "sh", "-c", 'printf "<%s>" "$@"; exit 7', "sh", *words)
    assert (result.status, result.out) == (7, "".join(f"<{word}>" for word in words))


@pytest.mark.long
def test_machine() -> None:
    script = "cat /sys/fs/cgroup/cgroup.controllers; grep CapEff /proc/self/status; mount"
    result = machine.box("run", "--", "sh", "-c", script).ok()
    controllers, capabilities, *mounts = result.out.splitlines()
    assert {"cpu", "io", "memory", "pids"} <= set(controllers.split())
    assert int(capabilities.split()[1], 16) >= 0x1FFFFFFFFFF
    assert any(line.startswith("cgroup2 on /sys/fs/cgroup ") for line in mounts)


def test_directories_are_shown(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("in")
    bind = f"{tmp_path}:/mnt/shown"
    script = "cat /mnt/shown/in; echo out >/mnt/shown/out"
    assert machine.box("run", "--bind", bind, "--", "sh", "-c", script).ok().out == "in"
    assert (tmp_path / "out").read_text() == "out\n"
    assert machine.box("run", "--", "ls", "/mnt/shown").ok().out == ""


@pytest.mark.long
def test_out_of_time() -> None:
    result = machine.box("run", "--seconds", "5", "--", "sh", "-c", "echo begun; sleep 100")
    assert (result.status, result.out) == (124, "begun\n")


def test_it_breaks_down() -> None:
    script = "echo begun; echo c >/proc/sysrq-trigger; sleep 100"
    result = machine.box("run", "--seconds", "60", "--", "sh", "-c", script)
    assert (result.status, result.out) == (70, "begun\n")
    assert "box: the machine broke down" in result.err


@pytest.mark.parametrize(
    "name",
    ["KILL", *(pytest.param(name, marks=pytest.mark.long) for name in ("TERM", "INT", "HUP"))],
)
def test_nothing_outlives_it(tmp_path: Path, name: str) -> None:
    """Neither a process nor a mount, whatever ends it."""
    before = leaks.mount_table()
    memory = f"{1_000_000 + os.getpid()}K"  # tells this machine's processes from others
    arguments = ["--memory", memory, "--bind", f"{tmp_path}:/mnt/shown"]
    command = machine.command("run", *arguments, "--", "sh", "-c", ": >/mnt/shown/begun; sleep 100")
    process = subprocess.Popen(command, pass_fds=machine.pass_fds(), start_new_session=True)
    assert processes.until((tmp_path / "begun").exists, 60)
    assert any("linux.uml" in line for line in machine.debris(memory))
    os.kill(process.pid, getattr(signal, f"SIG{name}"))
    process.wait(10)
    assert processes.until(lambda: not machine.debris(memory))
    assert leaks.mount_table() == before


def test_usage() -> None:
    for arguments in (["run"], ["run", "--nonsense", "--", "true"], ["dance"]):
        result = machine.box(*arguments)
        assert (result.status, result.out) == (2, ""), result
    assert "box run" in machine.box("--help").ok().out


def test_not_root() -> None:
    words = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-s", "run", "--", "true"]
    with machine.BOX.open("rb") as script:
        done = subprocess.run(words, stdin=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (machine.UNAVAILABLE, "box: needs root\n")
