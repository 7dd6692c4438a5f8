"""``kill``: which signal reaches whom, in each state."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.support import processes
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer

TRAP = "trap 'echo got USR1; exit 7' USR1; echo ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize("word", ["USR1", "SIGUSR1", "usr1", "sigusr1", "10"])
def test_kill_by_name_and_number(container: MakeContainer, bundle: MakeBundle, word: str) -> None:
    one = container(bundle().shell(TRAP)).started()
    one.wait_output("ready")
    one.kill(word).silent()
    assert one.wait() == 7
    assert "got USR1" in one.output


def test_kill_sends_term_by_default(container: MakeContainer, bundle: MakeBundle) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    one = container(bundle().shell(script)).started()
    one.wait_output("ready")
    one.kill().silent()
    assert one.wait() == 9


@pytest.mark.parametrize("own", [True, False], ids=["own pid namespace", "shared"])
@deviates(crun="its init ignores the signal")
def test_term_ends_a_created_container(
    container: MakeContainer, bundle: MakeBundle, own: bool
) -> None:
    """The kernel would drop it for a PID 1 without a handler."""
    made = bundle()
    one = container(made if own else made.without_namespace("pid")).created()
    one.kill("TERM").silent()
    assert processes.until(lambda: one.status == "stopped")
    one.delete().silent()


ANNOTATION = "org.opencontainers.image.stopSignal"


@pytest.mark.parametrize("word", ["37", "SIGRTMIN+3", "rtmin+3"])
@deviates(runc="always SIGTERM", crun="always SIGTERM")
def test_kill_sends_the_stop_signal_of_the_image(
    container: MakeContainer, bundle: MakeBundle, word: str
) -> None:
    """CFG-ANN-08.

    A signal on the command line overrides it, also SIGTERM.
    """
    script = "trap 'echo term' TERM; trap 'exit 11' 37; echo ready; while :; do sleep 0.05; done"
    made = bundle().shell(script)
    made.config["annotations"] = {ANNOTATION: word}
    one = container(made).started()
    one.wait_output("ready")
    one.kill("TERM").silent()
    one.wait_output("term")
    one.kill().silent()
    assert one.wait() == 11


@judge_by("ociruntime")
def test_kill_with_a_stop_signal_that_is_none(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle()
    made.config["annotations"] = {ANNOTATION: "SIG\nFOO"}
    one = container(made).started()
    one.kill().failed(f'annotations[\\"{ANNOTATION}\\"]: unknown signal', f"kill {one.id} SIGNAL")
    assert one.status == "running"
    one.kill("KILL").silent()


def test_kill_with_a_real_time_signal(container: MakeContainer, bundle: MakeBundle) -> None:
    script = "trap 'exit 11' 37; echo ready; while :; do sleep 0.05; done"
    one = container(bundle().shell(script)).started()
    one.wait_output("ready")
    one.kill("37").silent()
    assert one.wait() == 11


def test_kill_with_signal_zero_tests_for_life(container: MakeContainer) -> None:
    one = container().started()
    one.kill("0").silent()
    assert one.status == "running"


@pytest.mark.parametrize("word", ["FOO", "SIGFOO", "-1", "999", ""])
@deviates(runc="takes an empty word as 0")
def test_kill_with_an_unknown_signal(container: MakeContainer, word: str) -> None:
    one = container().started()
    one.runtime("kill", one.id, "--", word).failed()
    assert one.status == "running"


def test_kill_of_a_created_container(container: MakeContainer) -> None:
    """RT-KILL-04 in the created phase, RT-STATE-05: it then reads stopped."""
    one = container().created()
    one.kill("KILL").silent()
    one.wait()
    assert one.status == "stopped"
    one.start().failed()
    one.delete().silent()


def test_kill_of_a_stopped_container(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-KILL-02; containerd and CRI-O search for this message."""
    one = container(bundle("true")).started()
    one.wait()
    result = one.kill("KILL")
    assert result.status == 1
    if one.runtime.kind != "crun":
        assert "container not running" in result.err
    one.kill("KILL", everything=True).silent()
    one.kill("9", everything=True).silent()


def test_killed_init_is_stopped_before_it_is_reaped(container: MakeContainer) -> None:
    one = container().started()
    os.kill(one.pid, signal.SIGKILL)
    assert processes.until(lambda: not processes.alive(one.pid))
    assert one.status == "stopped"
    one.delete().silent()


@deviates(runc="1.1 reaches the init alone")
def test_kill_without_a_pid_namespace_reaches_all(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """A-96: SIGKILL then reaches the whole cgroup, even if the init has exited."""
    script = "setsid sleep 1000 & echo ready; exec sleep 1000"
    one = container(bundle().shell(script).without_namespace("pid")).started()
    one.wait_output("ready")
    assert processes.until(lambda: len(processes.descendants()) == 2)
    one.kill("KILL").silent()
    assert processes.until(lambda: not processes.descendants())


def test_other_signals_reach_the_init_alone(container: MakeContainer, bundle: MakeBundle) -> None:
    script = """
        setsid sleep 1000 & trap 'echo got; exit 3' USR1
        echo ready; while :; do sleep 0.05; done
    """
    one = container(bundle().shell(script).without_namespace("pid")).started()
    one.wait_output("ready")
    one.kill("USR1").silent()
    assert one.wait() == 3
    assert any("1000" in processes.describe(pid) for pid in processes.descendants())
    one.delete("--force").ok()


def test_reused_pid_is_not_taken_for_the_container(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """RT-KILL-03: the process that has the pid now is neither shown nor signalled."""
    one = container(bundle("true")).started()
    pid = one.pid
    one.wait()
    # Start times are counted in ticks: what starts in the container's own tick passes for it.
    time.sleep(2 / os.sysconf("SC_CLK_TCK"))
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    other = subprocess.Popen(["sleep", "1000"])
    try:
        if other.pid != pid:
            pytest.skip("the pid was taken by another process")
        assert (one.status, one.state()["pid"]) == ("stopped", 0)
        one.kill("KILL").failed()
        one.delete("--force").silent()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@judge_by("ociruntime", "crun")
def test_kill_and_delete_by_a_regular_expression(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    first, second = container().started(), container().started()
    runtime = first.runtime
    runtime("kill", "--regex", f"^({first.id}|{second.id})$", "KILL").silent()
    assert (first.wait(), second.wait()) == (137, 137)
    third = container().started()
    if runtime.kind == "ociruntime":
        refused = runtime("delete", "--regex", third.id[:-1]).failed(third.id, "not stopped")
        assert first.id not in refused.err
        runtime("kill", "--regex", "(", "KILL").failed("invalid regular expression")
        first.exists = second.exists = False
    runtime("delete", "--regex", "--force", f"^{third.id[:-1]}.$").silent()
    third.exists = first.exists = second.exists = False
    runtime("kill", "--regex", "^nobody$").silent()
    assert runtime("list", "-q").out == ""


def test_deleted_at_once(container: MakeContainer, bundle: MakeBundle) -> None:
    """After SIGKILL, `delete` waits until the init, here with many children, has exited."""
    script = "for i in $(seq 300); do sleep 1000 & done; echo ready; wait"
    one = container(bundle().shell(script)).started()
    one.wait_output("ready")
    one.kill("KILL").silent()
    one.delete().silent()
