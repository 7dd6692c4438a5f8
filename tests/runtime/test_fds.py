"""Descriptors: none of the caller's or the runtime's reach the container, unless asked for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.activation import activated
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer, Probe
from tests.support.runtime import execute


def test_leaked_descriptors_are_closed(probe: Probe, work: Path) -> None:
    """RTL-FD-01: conmon leaks its own, from 3 up."""
    opened = [os.open(work, os.O_RDONLY) for _ in range(18)]
    for fd in opened:
        os.set_inheritable(fd, True)
    try:
        assert set(probe(pass_fds=opened)["fds"]) == {"0", "1", "2"}
    finally:
        for fd in opened:
            os.close(fd)


def test_directory_descriptor_is_not_reachable(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """CVE-2024-21626 with the caller's help."""
    fd = os.open("/", os.O_RDONLY)
    one = bundle().shell(f"ls /proc/self/fd/{fd}/")
    result = container(one).run(pass_fds=(fd,))
    os.close(fd)
    assert "No such file" in result.err


def test_preserved_descriptors(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """RTL-FD-02: exactly 3 to 3 + N - 1."""
    for number in (3, 4, 5):
        (work / f"file{number}").write_text(f"text {number}\n")
    one = container(bundle("/bin/probe"))
    one.bundle.save()
    run = one.runtime.command(
        "run", "--preserve-fds", "2", "--bundle", str(one.bundle.path), one.id
    )
    script = f'exec 3<{work}/file3 4<{work}/file4 5<{work}/file5; exec "$@"'
    done = subprocess.run(["sh", "-c", script, "sh", *run], capture_output=True, check=True)
    fds = json.loads(done.stdout)["fds"]
    assert set(fds) == {"0", "1", "2", "3", "4"}


def test_preserved_descriptor_can_be_used(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    (work / "file").write_text("through the descriptor\n")
    one = container(bundle().shell("cat <&3"))
    one.bundle.save()
    run = one.runtime.command("run", "--preserve-fds=1", "--bundle", str(one.bundle.path), one.id)
    done = subprocess.run(
        ["sh", "-c", f'exec 3<{work}/file; exec "$@"', "sh", *run],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "through the descriptor\n"


@deviates(runc="passes on descriptors of its own")
def test_missing_preserved_descriptors(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """The program gets the open ones; the runtime uses none of the other numbers."""
    (work / "words").write_text("")
    one = container(bundle("probe"))
    one.bundle.save()
    run = one.runtime.command("run", "--preserve-fds=7", "--bundle", str(one.bundle.path), one.id)
    script = f'exec "$0" "$@" 5<{work}/words'
    facts = json.loads(execute(["/bin/sh", "-c", script, *run]).ok().out)
    assert set(facts["fds"]) == {"0", "1", "2", "5"}


@deviates(crun="does not set LISTEN_FDS")
def test_socket_activation(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """A-108: LISTEN_FDS and LISTEN_PID as systemd sets them."""
    (work / "file").write_text("activated\n")
    one = container(bundle().shell("echo $LISTEN_FDS $LISTEN_PID; cat <&3"))
    one.bundle.save()
    run = one.runtime.command("run", "--bundle", str(one.bundle.path), one.id)
    assert activated(run, work / "file").ok().out == "1 1\nactivated\n"


TELL = "echo $$ $LISTEN_FDS $LISTEN_PID $LISTEN_FDNAMES; cat <&3; cat <&4"


@judge_by("ociruntime")
@pytest.mark.parametrize("pids", ["own", "shared"])
@pytest.mark.parametrize("verb", ["run", "exec"])
def test_activation_by_the_program_s_own_pid(
    container: MakeContainer, bundle: MakeBundle, work: Path, verb: str, pids: str
) -> None:
    """LISTEN_PID is the pid in the container; further descriptors follow."""
    for number in (3, 4):
        (work / f"file{number}").write_text(f"text {number}\n")
    made = bundle() if pids == "own" else bundle().without_namespace("pid")
    made.process["env"] = ["PATH=/bin", "LISTEN_PID=99", "LISTEN_FDNAMES=old"]
    one = container(made.shell(TELL) if verb == "run" else made)
    if verb == "run":
        one.bundle.save()
        words = ["run", "--preserve-fds=1", "--bundle", str(one.bundle.path), one.id]
    else:
        one.started()
        words = ["exec", "--preserve-fds=1", one.id, "sh", "-c", TELL]
    files = (work / "file3", work / "file4")
    done = activated(one.runtime.command(*words), *files, names="web").ok()
    first, *rest = done.out.splitlines()
    pid, count, listen_pid, names = first.split()
    assert (count, listen_pid, names) == ("1", pid, "web")
    assert (pid == "1") == (verb == "run" and pids == "own")
    assert rest == ["text 3", "text 4"]


@judge_by("ociruntime")
def test_activation_of_another_process(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """The environment was inherited from another process: nothing is passed on."""
    one = container(bundle("/bin/probe"))
    env = {"PATH": os.environ["PATH"], "LISTEN_FDS": "1", "LISTEN_PID": "1"}
    facts = json.loads(one.run(env=env).ok().out)
    assert set(facts["fds"]) == {"0", "1", "2"}
    assert not [name for name in facts["env"] if name.startswith("LISTEN_")]


@judge_by("ociruntime")
def test_missing_socket(container: MakeContainer) -> None:
    one = container()
    one.bundle.save()
    words = one.runtime.command("create", "--bundle", str(one.bundle.path), one.id)
    activated(words, count=2).failed("LISTEN_FDS=2: descriptor 3 is not open")


def test_waiting_process_keeps_the_streams_alone(container: MakeContainer) -> None:
    """Between create and start, it has only the streams and its gate open."""
    one = container().created()
    targets = {fd.name: os.readlink(fd) for fd in Path(f"/proc/{one.pid}/fd").iterdir()}
    for number, target in targets.items():
        if number in "012":
            continue
        special = target.startswith(("socket:", "pipe:", "anon_inode:", "/memfd:"))
        assert special or target.endswith(("exec.fifo", "/fifo", "gate", "start")), targets


def test_runtime_holds_no_pipe_of_the_caller(container: MakeContainer, bundle: MakeBundle) -> None:
    """Only the container keeps stderr open: an engine waits for its end of file."""
    reader, writer = os.pipe()
    one = container(bundle().shell("exec >/dev/null 2>&1; exec sleep 100"))
    one.bundle.save()
    process = one.runtime.popen(
        "create", "--bundle", str(one.bundle.path), "--pid-file", str(one.pid_file), one.id,
        stdout=writer, stderr=writer,
    )  # fmt: skip
    os.close(writer)
    assert process.wait(20) == 0
    one.exists = True
    one.start().silent()
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b""
    assert one.status == "running"
