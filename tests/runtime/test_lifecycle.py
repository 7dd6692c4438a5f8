"""The states of a container, and the commands that change them."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

RFC3339_WITH_ZONE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def test_whole_life(container: MakeContainer) -> None:
    one = container()
    one.create().silent()
    assert one.status == "created"
    one.start().silent()
    assert one.status == "running"
    one.kill("KILL").silent()
    assert one.wait() == 128 + signal.SIGKILL
    assert one.status == "stopped"
    one.delete().silent()
    assert one.runtime("state", one.id).status == 1


def test_state_document(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-STATE-01..11, and the members that runc's callers decode."""
    annotated = bundle()
    annotated.config["annotations"] = {"org.example.key": "value", "org.example.empty": ""}
    one = container(annotated).created()
    state = one.state()
    assert re.fullmatch(r"\d+\.\d+\.\d+(-\S+)?", state["ociVersion"])
    assert state["id"] == one.id
    assert state["pid"] == one.pid
    assert state["bundle"] == str(annotated.path)
    assert state["annotations"] == {"org.example.key": "value", "org.example.empty": ""}
    assert RFC3339_WITH_ZONE.fullmatch(state["created"])
    one.start().silent()
    assert one.state()["created"] == state["created"]
    one.kill("KILL").silent()
    one.wait()
    assert one.state()["pid"] == 0
    assert one.state()["annotations"] == {"org.example.key": "value", "org.example.empty": ""}


def test_state_without_annotations(container: MakeContainer) -> None:
    assert container().created().state().get("annotations", {}) == {}


def test_pid_file_has_digits_alone(container: MakeContainer) -> None:
    """Containerd calls Atoi on its content."""
    one = container().created()
    content = one.pid_file.read_bytes()
    assert re.fullmatch(rb"[1-9][0-9]*", content)
    assert processes.alive(int(content))


def test_pid_file_replaces_an_existing_one(container: MakeContainer) -> None:
    """CRI-O creates an empty one first."""
    one = container()
    one.pid_file.write_text("")
    one.created()
    assert processes.alive(one.pid)


@deviates(crun="relative to the bundle")
def test_relative_pid_file_is_relative_to_the_caller(container: MakeContainer, work: Path) -> None:
    one = container()
    one.create("--pid-file", "here", cwd=work).silent()
    assert processes.alive(int((work / "here").read_text()))
    one.pid_file.write_text((work / "here").read_text())


def test_init_is_orphaned_to_the_subreaper(container: MakeContainer) -> None:
    """A process in between would hide the exit status from conmon and the shim."""
    one = container().created()
    assert processes.parent(one.pid) == os.getpid()
    one.start().silent()
    assert processes.parent(one.pid) == os.getpid()


def test_exit_status_reaches_the_subreaper(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle().shell("exit 42")).started()
    assert one.wait() == 42
    assert one.status == "stopped"


def test_program_waits_for_start(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-LIFE-03, RT-CREATE-06: after that, it is the program, not the runtime."""
    one = container(bundle().shell("echo alive > /mark; exec sleep 100")).created()
    mark = one.bundle.rootfs / "mark"
    assert not processes.until(mark.exists, 0.3)
    assert b"sleep" not in Path(f"/proc/{one.pid}/cmdline").read_bytes()
    pid = one.pid
    one.start().silent()
    assert processes.until(mark.exists)
    assert processes.until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes())


def test_config_is_taken_at_create(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-LIFE-04, RT-CREATE-09: later edits, or its removal, have no effect."""
    one = container(bundle().shell("echo first; exec sleep 100"))
    one.created()
    (one.bundle.path / "config.json").write_text("{}")
    one.start().silent()
    one.wait_output("first")
    (one.bundle.path / "config.json").unlink()
    assert one.status == "running"
    one.delete("--force").silent()


def test_bundle_is_made_absolute(container: MakeContainer, runtime: Runtime) -> None:
    """RT-STATE-09."""
    one = container()
    one.bundle.save()
    runtime("create", "--bundle", one.bundle.path.name, one.id, cwd=one.bundle.path.parent).ok()
    one.exists = True
    assert one.state()["bundle"] == str(one.bundle.path)


def test_bundle_defaults_to_the_working_directory(
    container: MakeContainer, runtime: Runtime
) -> None:
    one = container()
    one.bundle.save()
    runtime("create", one.id, cwd=one.bundle.path).ok()
    one.exists = True
    assert one.state()["bundle"] == str(one.bundle.path)


def test_second_start_is_refused(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-START-02 and -03."""
    one = container(bundle().shell("echo once; exec sleep 100")).started()
    one.wait_output("once")
    pid = one.pid
    one.start().failed()
    assert (one.status, one.state()["pid"]) == ("running", pid)
    assert one.output.count("once") == 1


def test_start_of_a_stopped_container_is_refused(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    one = container(bundle("true")).started()
    one.wait()
    one.start().failed()
    assert one.status == "stopped"


@pytest.mark.parametrize("verb", ["state", "start", "kill", "delete"])
@deviates(crun="words of its own")
def test_unknown_id(runtime: Runtime, verb: str) -> None:
    """Engines search for this message."""
    runtime(verb, "no-such-container").failed("does not exist")


@pytest.mark.parametrize("verb", ["create", "state", "start", "kill", "delete"])
def test_id_is_required(runtime: Runtime, verb: str, work: Path) -> None:
    result = runtime(verb, cwd=work)
    assert result.status != 0
    assert result.err


def test_forced_delete_of_an_unknown_id_is_silent(runtime: Runtime) -> None:
    runtime("delete", "--force", "no-such-container").silent()
    runtime("delete", "-f", "no-such-container").silent()


def test_delete_of_a_running_container_is_refused(container: MakeContainer) -> None:
    """RT-DELETE-02 and -03."""
    one = container().started()
    one.delete().failed()
    assert one.status == "running"
    assert processes.alive(one.pid)


def test_delete_of_a_created_container(container: MakeContainer) -> None:
    """Stricter than the text, but every engine relies on it."""
    one = container().created()
    pid = one.pid
    one.delete().silent()
    assert not processes.alive(pid)


@pytest.mark.parametrize("phase", ["created", "running", "stopped"])
def test_forced_delete_in_each_phase(container: MakeContainer, phase: str) -> None:
    one = container().created()
    if phase != "created":
        one.start().silent()
    if phase == "stopped":
        one.kill("KILL").silent()
        one.wait()
    one.delete("--force").silent()
    assert one.runtime("state", one.id).status == 1


@deviates(crun="parses in order")
def test_delete_takes_the_option_behind_the_id(container: MakeContainer) -> None:
    one = container().started()
    one.runtime("delete", one.id, "--force").silent()
    one.exists = False


@pytest.mark.parametrize("own_pid_namespace", [True, False])
@deviates(runc="warns of each cgroup that it has to try again")
def test_forced_delete_ends_all_processes(
    container: MakeContainer, bundle: MakeBundle, own_pid_namespace: bool
) -> None:
    """Without a pid namespace, only the cgroup identifies them."""
    many = bundle().shell("for i in 1 2 3; do setsid sleep 1000 & done; echo ready; sleep 1000")
    if not own_pid_namespace:
        many.without_namespace("pid")
    one = container(many).started()
    one.wait_output("ready")
    assert processes.until(lambda: len(processes.descendants()) >= 4)
    one.delete("--force").silent()
    assert processes.until(lambda: not processes.descendants(), 3)


def test_id_is_free_after_delete(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-DELETE-06."""
    one = container(bundle("true"))
    for _ in range(5):
        one.started()
        one.wait()
        one.delete().silent()


def test_id_in_use_is_refused(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime
) -> None:
    """RT-STATE-03, RT-CREATE-02 and -03: the first container is unchanged."""
    first = container().created()
    second = container(bundle(), first.id)
    refused = second.create()
    refused.failed("exists")
    assert not second.pid_file.exists()
    assert first.status == "created"
    first.start().silent()
    assert first.status == "running"
    container(bundle(), first.id).create().failed("exists")
    first.kill("KILL").silent()
    first.wait()
    container(bundle(), first.id).create().failed("exists")
    assert first.status == "stopped"


@deviates(crun="takes blanks and letters of any script")
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "a\nb", "ä", "x" * 1024])
def test_bad_id(container: MakeContainer, bundle: MakeBundle, name: str) -> None:
    """RT-CREATE-02."""
    one = container(bundle())
    one.bundle.save()
    result = one.runtime("create", "--bundle", str(one.bundle.path), "--", name)
    assert result.status == 1
    assert result.err


@pytest.mark.parametrize("name", ["a", "A-b_c.d+e", "0", "x" * 200])
def test_good_id(container: MakeContainer, bundle: MakeBundle, name: str) -> None:
    one = container(bundle(), name).started()
    assert one.state()["id"] == name
    one.delete("--force").silent()


def test_separate_processes_and_a_second_root(
    container: MakeContainer, runtime: Runtime, work: Path
) -> None:
    """RT-SCOPE-01: every command finds it in the same root, none in another."""
    one = container().created()
    other = Runtime(runtime.path, work / "other-root")
    assert other("state", one.id).status == 1
    assert json.loads(runtime("state", one.id).out)["status"] == "created"


@deviates(crun="relative to the bundle")
def test_root_may_be_relative(container: MakeContainer, runtime: Runtime, work: Path) -> None:
    one = container()
    one.bundle.save()
    path = str(runtime.path)
    there = Runtime(runtime.path, Path("relative"))
    there("create", "--bundle", str(one.bundle.path), one.id, cwd=work).ok()
    assert (work / "relative" / one.id).is_dir(), path
    there("start", one.id, cwd=work).silent()
    absolute = Runtime(runtime.path, work / "relative")
    absolute("delete", "--force", one.id).silent()


def test_state_directory_is_private(container: MakeContainer, runtime: Runtime) -> None:
    """Another user can neither read it nor signal through its files."""
    one = container().created()
    assert (runtime.root / one.id).stat().st_mode & 0o066 == 0
    assert runtime.root.stat().st_mode & 0o077 == 0
