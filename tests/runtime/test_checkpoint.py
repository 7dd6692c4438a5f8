"""``checkpoint`` and ``restore``, with a CRIU that works on this kernel."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.criu import working_criu
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Result, content
from tests.support.terminal import ConsoleSocket

pytestmark = judge_by("ociruntime")
UNFILTERED = pytest.mark.needs_call(reason="CRIU cannot work behind a seccomp filter")

# By the bytes of a file: a number in it would be gone for a moment at each step.
COUNT = "while :; do echo >>/count; sleep 0.05; done"


class Checkpoint:
    """An image directory, and the commands that write and read it."""

    def __init__(self, one: Container, place: Path) -> None:
        self.one = one
        self.images = place / "images"
        self.criu = working_criu()
        self.restoring = 0  # pid of the last ``restore``

    def write(self, *flags: str) -> Result:
        flags = (*flags, "--image-path", str(self.images), self.one.id)
        result = self.one.runtime("--criu", self.criu, "checkpoint", *flags)
        if result.status == 0 and not {"--leave-running", "--pre-dump"} & set(flags):
            self.one.exists = False
            processes.reap_orphans()
        return result

    def read(self, *flags: str) -> Result:
        """Run ``restore --detach`` with the container's own output."""
        return self.restore("--detach", *flags)

    def restore(self, *flags: str) -> Result:
        """Run ``restore``; without ``--detach``, it lasts until the program exits."""
        one = self.one
        one.bundle.save()
        words = ["--image-path", str(self.images), "--bundle", str(one.bundle.path)]
        words += ["--pid-file", str(one.pid_file), *flags, one.id]
        with (self.images / "said").open("w+b") as said:
            process = subprocess.Popen(
                one.runtime.command("--criu", self.criu, "restore", *words),
                stdin=subprocess.DEVNULL,
                stdout=one._output,
                stderr=said,
            )
            self.restoring = process.pid
            process.wait()
            one.exists = process.returncode == 0 and "--detach" in flags
            return Result(words, process.returncode, "", content(said))


MakeCheckpoint = Callable[[Container], Checkpoint]


@pytest.fixture
def checkpoint(work: Path, nothing_left: None) -> MakeCheckpoint:
    """A checkpoint of a container."""
    working_criu()
    # CRIU notes every hierarchy that there is, and has to find them all again; one that no process
    # has mounted any more is gone by then, because it mounts and unmounts it itself.
    assert processes.until(cgroupfs.let_go_of_unmounted, 30)
    return lambda one: Checkpoint(one, work)


def count(bundle: Bundle) -> int:
    return (bundle.rootfs / "count").stat().st_size


def counts_on(bundle: Bundle) -> int:
    """Wait until the count increases; return the previous one."""
    before = count(bundle)
    assert processes.until(lambda: count(bundle) > before, 10)
    return before


def with_named_output(one: Container) -> Container:
    """CRIU restores a file only by its name, so use one that is not temporary or unlinked."""
    one._output.close()
    one._output = (one.bundle.path / "output").open("w+b")
    return one


def counting(container: MakeContainer, bundle: MakeBundle) -> Container:
    made = bundle().shell(COUNT)
    one = with_named_output(container(made)).started()
    assert processes.until(lambda: (made.rootfs / "count").exists() and count(made) > 3, 10)
    return one


def mount_table(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    return sorted(" ".join(line.split(" - ")[0].split(" ")[3:6]) for line in lines)


@UNFILTERED
def test_a_program_counts_on(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    one = counting(container, bundle)
    pid, cgroups = one.pid, Path(f"/proc/{one.pid}/cgroup").read_text()
    written = checkpoint(one)
    written.write().silent()
    assert one.runtime("state", one.id).status == 1  # deleted, as with runc and crun
    assert not processes.alive(pid)
    stopped = count(one.bundle)
    written.read().ok()
    assert counts_on(one.bundle) >= stopped - 1
    assert count(one.bundle) < stopped + 200  # it did not begin again, nor did it lose count
    state = one.state()
    assert (state["status"], state["pid"]) == ("running", one.pid)
    assert Path(f"/proc/{one.pid}/cgroup").read_text() == cgroups
    assert one.exec("echo", "inside").ok().out == "inside\n"
    assert one.runtime("start", one.id).status == 1
    one.kill("KILL").silent()
    assert one.wait() == 128 + 9
    assert one.status == "stopped"
    one.delete().silent()


@UNFILTERED
def test_what_runs_on(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    one = counting(container, bundle)
    written = checkpoint(one)
    written.write("--leave-running").silent()
    assert one.status == "running"
    counts_on(one.bundle)
    assert json.loads((written.images / "ociruntime.json").read_text())["version"] == 1
    assert (written.images / "dump.log").exists()


@UNFILTERED
def test_a_paused_container(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    one = counting(container, bundle)
    one.runtime("pause", one.id).silent()
    written = checkpoint(one)
    written.write().silent()
    written.read().ok()
    counts_on(one.bundle)


def test_memory_beforehand(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    one = counting(container, bundle)
    before = checkpoint(one)
    before.images = before.images / "first"
    done = before.write("--pre-dump")
    if "pages have changed" in done.err:
        assert one.status == "running"
        pytest.skip(done.err)
    done.silent()
    assert one.status == "running"
    counts_on(one.bundle)
    written = checkpoint(one)
    written.images = before.images.parent / "second"
    written.write("--parent-path", "../first").silent()
    written.read().ok()
    counts_on(one.bundle)


@UNFILTERED
def test_mounts_are_as_before(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint, work: Path
) -> None:
    """CRIU forgets the flags of all but the first mount with the same source."""
    (work / "shared").mkdir()
    made = bundle().shell(COUNT)
    made.bind(work / "shared", "/first", "ro", "nosuid", "noexec", "nodev")
    made.bind(work / "shared", "/second", "ro", "nosuid", "noexec", "nodev")
    made.bind(work / "shared", "/third")
    one = with_named_output(container(made)).started()
    before = mount_table(one.pid)
    written = checkpoint(one)
    written.write().silent()
    written.read().ok()
    assert mount_table(one.pid) == before
    assert one.exec("sh", "-c", "touch /second/file").status != 0
    one.exec("sh", "-c", "touch /third/file").ok()


@UNFILTERED
def test_a_mount_that_config_json_no_longer_has(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint, work: Path
) -> None:
    (work / "data").mkdir()
    made = bundle().shell(COUNT).bind(work / "data", "/data")
    written = checkpoint(with_named_output(container(made)).started())
    written.write().silent()
    made.config["mounts"].pop()
    result = written.read()
    assert result.status == 1
    assert "mount at '/data'" in result.err


def test_a_source_that_was_exchanged_is_refused(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint, work: Path
) -> None:
    """By its path, the restore would bind-mount another file."""
    (work / "source").mkdir()
    one = with_named_output(
        container(bundle().shell(COUNT).bind(work / "source", "/data"))
    ).started()
    (work / "source").rename(work / "other")
    (work / "source").mkdir()
    result = checkpoint(one).write()
    assert result.status == 1
    assert "no mount in config.json matches it" in result.err
    assert one.status == "running"


@UNFILTERED
def test_config_json_has_the_last_word_on_privileges(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    made = bundle().shell(COUNT).capabilities("CAP_KILL", "CAP_NET_RAW")
    one = with_named_output(container(made)).started()
    written = checkpoint(one)
    written.write().silent()
    made.capabilities("CAP_KILL")
    result = written.read()
    assert result.status == 1
    assert "process.capabilities.bounding has no CAP_NET_RAW" in result.err
    assert one.runtime("state", one.id).status == 1


@pytest.mark.parametrize("shared", ["host", "joined"])
@UNFILTERED
def test_a_restore_judges_no_other_process(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint, shared: str
) -> None:
    """Others in the pid namespace have more privileges, and survive a refusal."""
    made = bundle().shell(COUNT).capabilities("CAP_KILL")
    if shared == "host":
        bystander = subprocess.Popen(["sleep", "1000"])
        pidfd = os.pidfd_open(bystander.pid)
        made.without_namespace("pid")
    else:
        # Its init reaps what it adopts, so that the pid is free again.
        other = container(bundle().shell("sleep 1000 & while :; do wait; done")).started()
        pidfd = os.pidfd_open(other.pid)
        made.namespace("pid", f"/proc/{other.pid}/ns/pid")
    one = with_named_output(container(made)).started()
    assert processes.until((made.rootfs / "count").exists, 10)
    try:
        written = checkpoint(one)
        written.write().silent()
        written.read().ok()
        counts_on(made)
        assert not select.select([pidfd], [], [], 0)[0]
        one.delete("--force").ok()
        processes.reap_orphans()  # its pid is free again
        made.capabilities()
        refused = written.read()
        assert refused.status == 1
        assert "process.capabilities.bounding has no CAP_KILL" in refused.err
        assert not select.select([pidfd], [], [], 0)[0]
    finally:
        os.close(pidfd)
        if shared == "host":
            bystander.kill()
            bystander.wait()


def test_a_failed_dump_leaves_it_running(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    """A deleted file is too large for the images."""
    large = "dd if=/dev/zero of=/large bs=1048576 count=2 2>/dev/null; exec 9</large; rm /large"
    made = bundle().shell(f"{large}; {COUNT}")
    one = with_named_output(container(made)).started()
    assert processes.until(lambda: (made.rootfs / "count").exists() and count(made) > 3, 10)
    written = checkpoint(one)
    result = written.write()
    assert result.status == 1
    assert f'checkpoint container "{one.id}": criu: ' in result.err.replace("\\", "")
    assert f"{written.images}/dump.log" in result.err
    assert one.status == "running"
    counts_on(one.bundle)


@UNFILTERED
def test_output_goes_on(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    """Standard output is a file of the host."""
    script = "echo before; while [ ! -e /go ]; do sleep 0.05; done; echo after; sleep 100"
    one = with_named_output(container(bundle().shell(script))).started()
    one.wait_output("before")
    written = checkpoint(one)
    written.write().silent()
    written.read().ok()
    (one.bundle.rootfs / "go").touch()
    one.wait_output("after")
    assert one.output == "before\nafter\n"


@UNFILTERED
def test_foreground(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    made = bundle().shell("while [ ! -e /go ]; do sleep 0.05; done; exit 42")
    one = with_named_output(container(made)).started()
    written = checkpoint(one)
    written.write().silent()
    (made.rootfs / "go").touch()
    assert written.restore().status == 42
    assert one.runtime("state", one.id).status == 1


@UNFILTERED
def test_signals_from_the_first_moment_on(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    """A signal right after the restore is forwarded to the program."""
    made = bundle().shell("trap 'exit 9' USR1; while :; do echo >>/count; done")
    one = with_named_output(container(made)).started()
    assert processes.until((made.rootfs / "count").exists, 10)
    written = checkpoint(one)
    written.write().silent()
    before = count(made)

    def poke() -> None:
        while count(made) == before:
            time.sleep(0.0005)
        os.kill(written.restoring, signal.SIGUSR1)

    with ThreadPoolExecutor() as pool:
        poking = pool.submit(poke)
        assert written.restore().status == 9
        poking.result()


@UNFILTERED
def test_a_terminal(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint, work: Path
) -> None:
    made = bundle().shell("while read line; do echo got $line; done")
    made.process["terminal"] = True
    one = container(made)
    first, second = ConsoleSocket(work / "first"), ConsoleSocket(work / "second")
    one.created("--console-socket", str(first.path))
    terminal = first.receive()
    one.start().silent()
    written = checkpoint(one)
    written.write().silent()
    terminal.close()
    written.read("--console-socket", str(second.path)).ok()
    terminal = second.receive()
    terminal.write("words\n")
    terminal.read_until("got words")
    for each in (terminal, first, second):
        each.close()


@UNFILTERED
def test_a_network_namespace_by_path(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    holder = container().started()
    made = bundle().shell(COUNT).namespace("network", f"/proc/{holder.pid}/ns/net")
    one = with_named_output(container(made)).started()
    written = checkpoint(one)
    written.write().silent()
    written.read().ok()
    assert os.path.samefile(f"/proc/{one.pid}/ns/net", f"/proc/{holder.pid}/ns/net")


@UNFILTERED
def test_hooks_see_the_new_process(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint, work: Path
) -> None:
    one = counting(container, bundle)
    written = checkpoint(one)
    written.write().silent()
    args = ["sh", "-c", f"cat >{work}/state"]
    one.bundle.hooks["createRuntime"] = [{"path": "/bin/sh", "args": args}]
    written.read().ok()
    assert json.loads((work / "state").read_text())["pid"] == one.pid


@UNFILTERED
def test_a_failed_hook_leaves_nothing(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    one = counting(container, bundle)
    written = checkpoint(one)
    written.write().silent()
    one.bundle.hooks["createRuntime"] = [{"path": "/bin/false"}]
    result = written.read()
    assert result.status == 1
    assert "hooks.createRuntime[0]" in result.err
    assert one.runtime("state", one.id).status == 1


def test_what_does_not_run(container: MakeContainer, checkpoint: MakeCheckpoint) -> None:
    one = container().created()
    result = checkpoint(one).write()
    assert result.status == 1
    assert "in created state" in result.err


@UNFILTERED
def test_id_in_use(
    container: MakeContainer, bundle: MakeBundle, checkpoint: MakeCheckpoint
) -> None:
    one = counting(container, bundle)
    written = checkpoint(one)
    written.write("--leave-running").silent()
    result = written.read()
    one.exists = True
    assert result.status == 1
    assert "already exists" in result.err
