"""Hooks: time, place, input, and the effect of their failure."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.bundle import Bundle, Json
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer

CREATE_KINDS = ("prestart", "createRuntime", "createContainer")
ALL_KINDS = (*CREATE_KINDS, "startContainer", "poststart", "poststop")
OF_THE_HOST = ("prestart", "createRuntime", "poststart", "poststop")
PID_FROM_STDIN = r"""pid=$(tr , '\n' | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')"""
OWN_POSTSTART = "runs poststart at the end of create, before the program exists"


def shell_hook(script: str, **more: Any) -> Json:  # noqa: ANN401
    """Return a hook that works both on the host and in the container."""
    hook: Json = {"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"]}
    hook.update(more)
    return hook


def log_everywhere(bundle: Bundle, kinds: tuple[str, ...], script: str = "echo KIND") -> Path:
    """Add hooks of each kind that append to one file, at the same path inside and outside."""
    log = bundle.path / "log"
    log.mkdir()
    (log / "lines").touch()
    bundle.bind(log, str(log))
    for kind in kinds:
        command = f"{script.replace('KIND', kind)} >> {log}/lines"
        bundle.hooks.setdefault(kind, []).append(shell_hook(command))
    return log / "lines"


def namespaces_of(pid: int | str) -> set[str]:
    return {os.readlink(f"/proc/{pid}/ns/{link}") for link in ("mnt", "net", "ipc", "uts", "pid")}


@deviates(runc=OWN_POSTSTART)
def test_order(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-LIFE-05 to -17: each kind in its command, in the order of the specification."""
    one = bundle()
    lines = log_everywhere(one, ALL_KINDS)
    one.shell(f"echo program >> {lines}; exec sleep 100")
    made = container(one).created()
    assert lines.read_text().split() == list(CREATE_KINDS)
    made.start().silent()
    assert processes.until(lambda: "program" in lines.read_text())
    seen = lines.read_text().split()
    assert seen.index("startContainer") < seen.index("program")
    assert set(seen) == {*ALL_KINDS, "program"} - {"poststop"}
    made.delete("--force").silent()
    assert lines.read_text().split()[-1] == "poststop"


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_several_of_a_kind_run_in_listed_order(
    container: MakeContainer, bundle: MakeBundle, kind: str
) -> None:
    """CFG-HOOK-07."""
    one = bundle()
    lines = log_everywhere(one, ())
    one.hooks[kind] = [shell_hook(f"echo {number} >> {lines}") for number in (1, 2, 3)]
    made = container(one).started()
    made.delete("--force").silent()
    assert lines.read_text().split() == ["1", "2", "3"]


@pytest.mark.parametrize("kind", ALL_KINDS)
@deviates(runc="inside it is the program's pid and no container's", crun="words of its own")
def test_state_on_stdin(container: MakeContainer, bundle: MakeBundle, kind: str) -> None:
    """CFG-HOOK-08, RT-STATE-08, A-07 to A-09: state, then the end of the stream."""
    one = bundle()
    one.config["annotations"] = {"a.b": "c"}
    log = log_everywhere(one, (kind,), "cat")
    made = container(one).started()
    pid = made.pid
    made.delete("--force").silent()
    state = json.loads(log.read_text())
    assert state["id"] == made.id
    assert state["bundle"] == str(one.path)
    assert state["annotations"] == {"a.b": "c"}
    expected = {"startContainer": "created", "poststart": "running", "poststop": "stopped"}
    assert state["status"] == expected.get(kind, "creating")
    if kind in ("createContainer", "startContainer"):
        assert state["pid"] == 1
    elif kind != "poststop":
        assert state["pid"] == pid


@pytest.mark.parametrize("kind", OF_THE_HOST)
def test_namespaces_of_the_runtime(container: MakeContainer, bundle: MakeBundle, kind: str) -> None:
    """CFG-HOOK-PRE-03, -CRT-03, -PST-02, -PSP-02."""
    one = bundle()
    script = "for kind in mnt net ipc uts pid; do readlink /proc/self/ns/$kind; done"
    lines = log_everywhere(one, (kind,), f"{{ {script}; }}")
    container(one).started().delete("--force").silent()
    assert set(lines.read_text().split()) == namespaces_of("self")


@pytest.mark.parametrize("kind", OF_THE_HOST)
@deviates(runc="poststop runs where the caller is")
def test_working_directory_is_the_bundle(
    container: MakeContainer, bundle: MakeBundle, kind: str
) -> None:
    """A-11."""
    one = bundle()
    lines = log_everywhere(one, (kind,), "pwd")
    container(one).started().delete("--force").silent()
    assert lines.read_text() == f"{one.path}\n"


@pytest.mark.parametrize("kind", ["createContainer", "startContainer"])
def test_namespaces_of_the_container(
    container: MakeContainer, bundle: MakeBundle, kind: str
) -> None:
    """CFG-HOOK-CCT-04, -SCT-03."""
    one = bundle()
    script = "for kind in mnt net ipc uts pid; do readlink /proc/self/ns/$kind; done"
    lines = log_everywhere(one, (kind,), f"{{ {script}; }}")
    made = container(one).started()
    expected = namespaces_of(made.pid)
    got = set(lines.read_text().split())
    # Before pivot_root /proc is still the host's, in which "self" does not exist for it.
    assert got <= expected
    assert got or kind == "createContainer"


def test_create_container_is_resolved_on_the_host(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """CFG-HOOK-CCT-01, -03: a program of the host mounts something that the container sees."""
    one = bundle("cat", "/data/name")
    (work / "data").mkdir()
    (work / "data" / "name").write_text("mounted by the hook\n")
    (one.rootfs / "data").mkdir()
    tool = work / "host-only-tool"
    tool.write_text(f"#!/bin/sh\nexec mount --bind {work}/data {one.rootfs}/data\n")
    tool.chmod(0o755)
    one.hooks["createContainer"] = [{"path": str(tool), "env": ["PATH=/bin:/usr/bin:/sbin"]}]
    result = container(one).run().ok()
    assert result.out == "mounted by the hook\n"


def test_start_container_is_resolved_inside(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-HOOK-SCT-02."""
    one = bundle("cat", "/mark")
    tool = one.rootfs / "opt-tool"
    tool.write_text("#!/bin/sh\necho inside > /mark\n")
    tool.chmod(0o755)
    one.hooks["startContainer"] = [{"path": "/opt-tool", "env": ["PATH=/bin"]}]
    assert container(one).run().ok().out == "inside\n"


def test_start_container_has_the_environment_of_the_process(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """HOME of the user included; one that has variables of its own gets those alone."""
    one = bundle("cat", "/none", "/own")
    (one.rootfs / "etc").mkdir(exist_ok=True)
    (one.rootfs / "etc/passwd").write_text("some:x:0:0::/home/some:/bin/sh\n")
    one.process["env"] = ["PATH=/bin", "A=1"]
    script = ["sh", "-c", "echo $A-$HOME- > /$0"]
    one.hooks["startContainer"] = [
        {"path": "/bin/sh", "args": [*script, "none"]},
        {"path": "/bin/sh", "args": [*script, "own"], "env": ["B=2"]},
    ]
    assert container(one).run().ok().out == "1-/home/some-\n--\n"


@pytest.mark.parametrize("kind", ["prestart", "createRuntime"])
def test_environment_is_built_before(
    container: MakeContainer, bundle: MakeBundle, kind: str
) -> None:
    """CFG-HOOK-PRE-01, -CRT-01: namespaces exist, the pid is that of the init."""
    one = bundle()
    script = f"{PID_FROM_STDIN}; readlink /proc/$pid/ns/net"
    lines = log_everywhere(one, (kind,), f"{{ {script}; }}")
    made = container(one).created()
    assert lines.read_text().strip() == os.readlink(f"/proc/{made.pid}/ns/net")


def test_mounts_are_there_for_create_runtime(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-HOOK-CRT-01."""
    one = bundle().mount("/scratch", "tmpfs", "scratch-of-the-test")
    script = f"{PID_FROM_STDIN}; grep -c scratch-of-the-test /proc/$pid/mountinfo"
    lines = log_everywhere(one, ("createRuntime",), f"{{ {script}; }}")
    container(one).created()
    assert lines.read_text().strip() == "1"


def test_arguments_and_environment(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-HOOK-03, -04: the whole argv, the whole environment."""
    one = bundle()
    lines = one.path / "lines"
    script = f'{{ printf "%s|" "$0" "$@"; tr "\\0" "|" < /proc/$$/environ; }} > {lines}'
    one.hooks["createRuntime"] = [
        {
            "path": "/bin/sh",
            "args": ["other-name", "-c", script, "zero", "one two", ""],
            "env": ["A=1", "B=x y", "PATH=/usr/bin:/bin"],
        }
    ]
    container(one).created()
    assert lines.read_text() == "zero|one two||A=1|B=x y|PATH=/usr/bin:/bin|"


def test_hook_that_reads_nothing(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-HOOK-08: neither hangs nor kills the runtime with SIGPIPE."""
    one = bundle()
    one.config["annotations"] = {"large": "x" * 200000}
    for kind in ALL_KINDS:
        one.hooks[kind] = [{"path": "/bin/true", "env": []}]
    container(one).started().delete("--force").silent()


@pytest.mark.parametrize("kind", OF_THE_HOST)
def test_hook_gets_no_descriptors(container: MakeContainer, bundle: MakeBundle, kind: str) -> None:
    one = bundle()
    lines = log_everywhere(one, (kind,), "ls /proc/self/fd | wc -l")
    container(one).started().delete("--force").silent()
    assert int(lines.read_text()) <= 4


FAILURES = {
    "status": (shell_hook("echo boom >&2; exit 3"), ("3",)),
    "signal": (shell_hook("kill -KILL $$"), ()),
    "missing": ({"path": "/no/such/hook"}, ("/no/such/hook",)),
    "timeout": (shell_hook("sleep 5", timeout=1), ()),
}


@pytest.mark.parametrize("kind", CREATE_KINDS)
@pytest.mark.parametrize("how", FAILURES)
@deviates(runc="1.1 does not run poststop then, and leaves a timed out hook's children")
def test_failure_in_create(
    container: MakeContainer, bundle: MakeBundle, kind: str, how: str
) -> None:
    """RT-LIFE-06, -08, -10: an error, nothing left, and poststop has run (A-04)."""
    one = bundle()
    lines = log_everywhere(one, ("poststop",))
    hook, words = FAILURES[how]
    one.hooks[kind] = [hook]
    made = container(one)
    result = made.create()
    result.failed(*words)
    assert kind in result.err
    assert "poststop" in lines.read_text()
    assert not made.pid_file.exists()
    assert made.runtime("state", made.id).status == 1


@deviates(runc="does not name the kind")
def test_output_of_a_failing_hook_is_in_the_error(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    one = bundle()
    one.hooks["createRuntime"] = [shell_hook("echo the reason >&2; exit 3")]
    container(one).create().failed("createRuntime", "the reason", "3")


def test_hooks_after_a_failing_one_do_not_run(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle()
    lines = log_everywhere(one, ())
    one.hooks["createRuntime"] = [shell_hook("exit 1"), shell_hook(f"echo second >> {lines}")]
    one.hooks["createContainer"] = [shell_hook(f"echo third >> {lines}")]
    assert container(one).create().status == 1
    assert lines.read_text() == ""


@pytest.mark.parametrize("kind", CREATE_KINDS)
def test_id_is_free_after_a_failing_hook(
    container: MakeContainer, bundle: MakeBundle, kind: str
) -> None:
    one = bundle()
    one.hooks[kind] = [shell_hook("exit 1")]
    made = container(one)
    assert made.create().status == 1
    del one.hooks[kind]
    made.created()


@deviates(runc="start reports success", crun="start reports success")
def test_failure_in_start_container(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-LIFE-12, A-05: start fails, the program never runs, poststop does."""
    one = bundle()
    lines = log_everywhere(one, ("poststop",))
    one.shell(f"echo program >> {lines}")
    one.hooks["startContainer"] = [shell_hook("echo boom; exit 3")]
    made = container(one).created()
    result = made.start()
    assert result.status == 1
    assert "startContainer" in result.err
    assert processes.until(lambda: not processes.alive(made.pid))
    made.delete("--force").ok()
    assert lines.read_text().split() == ["poststop"]


@deviates(runc=OWN_POSTSTART)
def test_failure_in_poststart(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-LIFE-15, A-06: since 1.3 fatal; the container is ended and gone, poststop has run."""
    one = bundle()
    lines = log_everywhere(one, ("poststop",))
    one.hooks["poststart"] = [shell_hook("exit 3")]
    made = container(one).created()
    result = made.start()
    result.failed("poststart")
    assert not processes.alive(made.pid)
    assert made.runtime("state", made.id).status == 1
    assert lines.read_text().split() == ["poststop"]
    made.exists = False


@deviates(runc=OWN_POSTSTART)
def test_poststart_sees_the_program(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-HOOK-PST-01, A-01: after the exec, before start returns."""
    one = bundle("/bin/probe", "sleep")
    lines = log_everywhere(one, ())
    made = container(one)
    script = f"readlink /proc/$(cat {made.pid_file})/exe >> {lines}"
    one.hooks["poststart"] = [shell_hook(script)]
    made.started()
    assert lines.read_text().strip().endswith("/bin/probe")


@deviates(runc="stops at the first and fails")
def test_failure_in_poststop_is_a_warning(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-LIFE-18, A-03: the others run, delete succeeds, and a warning is logged."""
    one = bundle()
    lines = log_everywhere(one, ())
    one.hooks["poststop"] = [shell_hook("exit 3"), shell_hook(f"echo second >> {lines}")]
    made = container(one).started()
    made.runtime = made.runtime.logging_to(one.path / "log.json")
    made.delete("--force").ok()
    assert "poststop" in (one.path / "log.json").read_text()
    assert lines.read_text() == "second\n"
    assert made.runtime("state", made.id).status == 1


def test_poststop_comes_after_the_end(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-HOOK-PSP-01: the cgroup is gone already, the hooks are those of create."""
    one = bundle()
    lines = log_everywhere(one, ())
    made = container(one)
    find = f"find /sys/fs/cgroup -maxdepth 4 -name {made.id} | wc -l >> {lines}"
    one.hooks["poststop"] = [shell_hook(find)]
    made.created()
    (one.path / "config.json").unlink()
    made.delete("--force").silent()
    assert lines.read_text().strip() == "0"


@deviates(runc="leaves the children of the hook")
def test_timeout_ends_the_hook_and_its_children(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """CFG-HOOK-06; the watch sees a process that stays."""
    one = bundle()
    one.hooks["createRuntime"] = [shell_hook("sleep 5 & sleep 5; true", timeout=1)]
    began = time.monotonic()
    container(one).create().failed("createRuntime")
    assert time.monotonic() - began < 30
    assert processes.until(lambda: not processes.descendants(), 3)
    processes.end(processes.descendants())


@pytest.mark.parametrize(
    ("hook", "path"),
    [
        ({"path": "true"}, "hooks.poststop[0].path"),
        ({"path": "/bin/true", "timeout": 0}, "hooks.poststop[0].timeout"),
        ({"path": "/bin/true", "timeout": -1}, "hooks.poststop[0].timeout"),
        ({}, "hooks.poststop[0].path"),
    ],
)
@deviates(runc="does not look before it is time", crun="does not look before it is time")
def test_bad_hooks_are_refused_at_create(
    container: MakeContainer, bundle: MakeBundle, hook: Json, path: str
) -> None:
    """CFG-HOOK-01, -02, -05; A-12, A-13."""
    one = bundle()
    one.hooks["poststop"] = [hook]
    container(one).create().failed(path)


@deviates(runc="does not look at hooks", crun="does not look at hooks")
def test_state_while_a_hook_runs_inside(container: MakeContainer, bundle: MakeBundle) -> None:
    """It returns at once; the container is still created."""
    one = bundle()
    os.mkfifo(one.rootfs / "fifo")
    one.hooks["startContainer"] = [shell_hook("cat /fifo")]
    made = container(one).created()
    starting = made.runtime.popen("start", made.id)
    try:
        assert {made.status for _ in range(30)} == {"created"}
        assert starting.poll() is None
    finally:
        (one.rootfs / "fifo").write_text("go on")
    assert starting.wait(20) == 0
    assert made.status == "running"
