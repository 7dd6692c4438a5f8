"""``run``: create, start, wait and delete in one command, in the foreground or detached."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.container import Container
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime, content


def test_streams_are_the_container_s(container: MakeContainer, bundle: MakeBundle) -> None:
    result = container(bundle().shell("echo to out; echo to err >&2")).run().ok()
    assert (result.out, result.err) == ("to out\n", "to err\n")


def test_stdin_reaches_the_container(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    (work / "input").write_text("a line\n")
    with (work / "input").open("rb") as file:
        assert container(bundle("cat")).run(stdin=file).ok().out == "a line\n"


def test_stdin_from_a_pipe_ends(container: MakeContainer, bundle: MakeBundle) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"piped\n")
    os.close(writer)
    with os.fdopen(reader, "rb") as stdin:
        assert container(bundle("cat")).run(stdin=stdin).ok().out == "piped\n"


@pytest.mark.parametrize("status", [0, 1, 42, 255])
def test_exit_status(container: MakeContainer, bundle: MakeBundle, status: int) -> None:
    assert container(bundle().shell(f"exit {status}")).run().status == status


def test_death_by_signal_is_128_and_more(container: MakeContainer, bundle: MakeBundle) -> None:
    """SIGKILL comes from outside: the init cannot signal itself."""
    one = container(bundle().shell("kill -KILL $$").without_namespace("pid"))
    assert one.run().status == 128 + signal.SIGKILL


def test_container_is_gone_afterwards(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle("true"))
    one.run().silent()
    assert one.runtime("state", one.id).status == 1


@deviates(crun="1.8 knows no --keep")
def test_keep_leaves_it_stopped(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle().shell("exit 3"))
    assert one.run("--keep").status == 3
    assert one.status == "stopped"
    one.delete().silent()


@pytest.mark.parametrize("flag", ["-d", "--detach"])
def test_detached(container: MakeContainer, bundle: MakeBundle, flag: str) -> None:
    one = container(bundle().shell("echo here; sleep 100"))
    one.create(flag, verb="run").ok()
    assert one.status == "running"
    assert processes.parent(one.pid) == os.getpid()
    one.wait_output("here")
    one.delete("--force").silent()


def test_pid_file_of_a_foreground_run(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle().shell("exit 0"))
    one.run("--pid-file", str(one.pid_file)).silent()
    assert one.pid_file.read_bytes().isdigit()
    one.pid_file.unlink()


def running(one: Container, errors: Path) -> subprocess.Popen[bytes]:
    """Start a foreground run; its stdout is ``out`` next to the bundle."""
    one.bundle.save()
    with (one.bundle.path / "out").open("wb") as out, errors.open("wb") as err:
        return one.runtime.popen(
            "run", "--bundle", str(one.bundle.path), one.id, stdout=out, stderr=err
        )


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1", "USR2", "QUIT", "CONT", "ALRM"])
def test_signals_are_forwarded(
    container: MakeContainer, bundle: MakeBundle, work: Path, name: str
) -> None:
    script = f"trap 'echo got {name}; exit 6' {name}; echo ready; while :; do sleep 0.05; done"
    one = container(bundle().shell(script))
    process = running(one, work / "errors")
    out = one.bundle.path / "out"
    assert processes.until(lambda: "ready" in out.read_text())
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.wait(20) == 6
    assert f"got {name}" in out.read_text()
    assert (work / "errors").read_text() == ""


def test_killed_from_outside(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    one = container(bundle().shell("echo ready; exec sleep 100"))
    process = running(one, work / "errors")
    assert processes.until(lambda: "ready" in (one.bundle.path / "out").read_text())
    one.kill("KILL").silent()
    assert process.wait(20) == 128 + signal.SIGKILL
    assert one.runtime("state", one.id).status == 1


def test_killed_runtime_leaves_the_container(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """The container does not depend on the command that created it."""
    one = container(bundle().shell("echo ready; exec sleep 100"))
    process = running(one, work / "errors")
    assert processes.until(lambda: "ready" in (one.bundle.path / "out").read_text())
    one.exists = True
    process.kill()
    process.wait()
    assert one.status == "running"
    one.delete("--force").silent()


def test_orphans_end_with_the_container(container: MakeContainer, bundle: MakeBundle) -> None:
    """Without a pid namespace they outlive the init; ``run`` removes the cgroup."""
    script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 4"
    one = container(bundle().shell(script).without_namespace("pid"))
    assert one.run(timeout=30).status == 4


def test_large_output_is_complete(container: MakeContainer, bundle: MakeBundle) -> None:
    with tempfile.TemporaryFile() as out:
        one = container(bundle().shell("head -c 3000000 /dev/zero | tr '\\0' x"))
        one.bundle.save()
        process = one.runtime.popen("run", "--bundle", str(one.bundle.path), one.id, stdout=out)
        assert process.wait(30) == 0
        assert content(out) == "x" * 3000000


def test_failing_create_is_the_runtime_s_status(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    container(bundle("/bin/nothere")).run().failed("/bin/nothere")


def test_duplicate_id(container: MakeContainer, bundle: MakeBundle) -> None:
    """The container that has the id is not deleted by the failed run."""
    one = container().started()
    container(bundle("true"), one.id).run().failed("exists")
    assert one.status == "running"


INTERRUPTED = """
import sys
from ociruntime.base import foreground
from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.run import run

class SignalQueue:
    def __init__(self):
        raise KeyboardInterrupt("now")

foreground.SignalQueue = SignalQueue
run(Context(sys.argv[1], Log()), CreateOptions(sys.argv[2], sys.argv[3], detach=False))
"""


@deviates(runc="looks into ociruntime", crun="looks into ociruntime")
def test_a_signal_before_it_can_be_handed_on(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, work: Path
) -> None:
    """Between creation and start: nothing is left behind."""
    one = container(bundle("sleep", "1000"))
    one.bundle.save()
    paths = (str(runtime.root), one.id, str(one.bundle.path))
    # -P: the installed package, also where the sources are
    done = subprocess.run(
        [sys.executable, "-P", "-c", INTERRUPTED, *paths],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    assert b"KeyboardInterrupt: now" in done.stderr
    assert not (runtime.root / one.id).exists()
    runtime("state", one.id).failed("does not exist")
