"""runtime.md: scope, state of a container, query state."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from conformance.case import case, table
from conformance.clauses import version_key
from conformance.context import Context
from conformance.documents import is_semver, state_faults


@case("RT-SCOPE-01")
def separate_calls(c: Context) -> None:
    """Calls that share only the user and the state root operate on the same container."""
    box = c.create()
    elsewhere: dict[str, Any] = {
        "cwd": Path("/"),
        "env": {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"},
    }
    for words in (["state"], ["start"], ["kill", "KILL"]):
        result = box.attempt(*words, **elsewhere)
        c.expect(result.ok, f"{words[0]} from elsewhere: {result.complaint}")
    box.wait()
    c.expect(box.attempt("delete", **elsewhere).ok, "delete from elsewhere failed")
    box.deleted = True


@case("RT-STATE-01")
def state_version(c: Context) -> None:
    """The state's ociVersion is a valid version, and not above what the runtime supports."""
    version = c.create().state().get("ociVersion")
    c.expect(is_semver(version), f"ociVersion is no version as of SemVer: {version!r}")
    features = c.call("features")
    if features.ok:
        highest = features.json().get("ociVersionMax", "")
        above = version_key(str(version)) > version_key(highest)
        c.expect(not above, f"ociVersion {version} is above ociVersionMax {highest}")


@case("RT-STATE-02", "RT-QUERY-03")
def state_id(c: Context) -> None:
    """The ID in the state is the one given to create."""
    box = c.create()
    c.equal(box.state().get("id"), box.id, "id")


@case("RT-STATE-03")
def id_is_unique(c: Context) -> None:
    """A second container with the same ID is rejected, and the first is not affected."""
    box = c.started()
    pid = box.pid
    _, result = c.attempt_create(c.bundle(), id=box.id)
    c.containers.pop()
    c.failed(result, "the id was taken")
    c.equal(box.state().get("status"), "running", "status of the first container")
    c.equal(box.state().get("pid"), pid, "pid of the first container")


@case("RT-STATE-04", "RT-STATE-05")
def statuses(c: Context) -> None:
    """The status is created after create, running after start and stopped after exit."""
    box = c.create()
    c.equal(box.status, "created", "after create")
    box.start()
    c.equal(box.status, "running", "after start")
    box.kill()
    box.wait()
    c.equal(box.status, "stopped", "after the end")


@case("RT-STATE-05")
def stopped_by_itself(c: Context) -> None:
    """A container is stopped when its program has exited."""
    box = c.run(c.bundle("exit 3"))
    c.equal(box.status, "stopped", "after exit")


@case("RT-STATE-05")
def stopped_before_start(c: Context) -> None:
    """A created container is stopped if its process is killed from outside."""
    box = c.create()
    os.kill(box.pid, signal.SIGKILL)
    box.wait()
    c.equal(box.status, "stopped", "after SIGKILL to the waiting process")


@case("RT-STATE-05")
def creating_in_hooks(c: Context) -> None:
    """Hooks that run during create get the status creating."""
    bundle = c.bundle().hook("createRuntime")
    c.create(bundle)
    notes = bundle.hooked()
    c.expect(notes, "the createRuntime hook did not run")
    c.equal(json.loads(notes[0]["stdin"]).get("status"), "creating", "status in the hook")


@case("RT-STATE-06")
def frozen_state(c: Context) -> None:
    """The status of a frozen container is running, or a value used only for this state."""
    c.need_root()
    box = c.started()
    groups = box.cgroups()
    if "freezer" in groups:
        switch, frozen, thawed = groups["freezer"] / "freezer.state", "FROZEN", "THAWED"
    elif (groups.get("", Path("/")) / "cgroup.freeze").exists():
        switch, frozen, thawed = groups[""] / "cgroup.freeze", "1", "0"
    else:
        c.skip("the host has no freezer")
    switch.write_text(frozen)
    status = box.status
    switch.write_text(thawed)
    defined = {"creating", "created", "stopped"}
    c.expect(status not in defined, f"a frozen running container is {status!r}")
    c.equal(box.status, "running", "status after thawing")


@case("RT-STATE-07")
def state_pid(c: Context) -> None:
    """The pid is the container's process while it is alive, and is absent or 0 afterwards."""
    box = c.create()
    pid = box.state().get("pid")
    c.equal(pid, box.pid, "pid after create")
    c.expect(box.namespace("mnt") != os.stat("/proc/self/ns/mnt").st_ino, "pid is no container's")
    box.start()
    c.equal(box.state().get("pid"), pid, "pid after start")
    program = b"/bin/probe\0"
    c.until(lambda: box.proc("cmdline").read_bytes().startswith(program), "pid is no container's")
    box.kill()
    box.wait()
    c.equal(box.state().get("pid", 0), 0, "pid after the end")


@table(
    ("createRuntime", False),
    ("prestart", False),
    ("createContainer", True),
    ("startContainer", True),
    ("poststart", False),
    ids="RT-STATE-08",
)
def pid_in_hook(c: Context, kind: str, inside: bool) -> None:
    """The pid in a {0} hook's state is valid in the PID namespace where the hook runs."""
    bundle = c.bundle().hook(kind, "read=/proc/%p/comm")
    box = c.create(bundle)
    pid = box.pid
    box.start()
    notes = bundle.hooked()
    c.expect(notes, f"the {kind} hook did not run")
    told = json.loads(notes[0]["stdin"]).get("pid")
    c.equal(told, 1 if inside else pid, "pid in the hook's state")


@case("RT-STATE-09")
def relative_bundle(c: Context) -> None:
    """The state has an absolute path for a bundle that is given by a relative path."""
    bundle = c.bundle()
    box = c.create(bundle, path=bundle.path.name, cwd=bundle.path.parent)
    c.equal(box.state().get("bundle"), str(bundle.path), "bundle")


@case("RT-STATE-09")
def bundle_is_working_directory(c: Context) -> None:
    """The state has an absolute path for a bundle that is the working directory."""
    bundle = c.bundle()
    box = c.create(bundle, path=".", cwd=bundle.path)
    c.equal(box.state().get("bundle"), str(bundle.path), "bundle")


@case("RT-STATE-10")
def annotations_in_state(c: Context) -> None:
    """The state has the config's annotations, including one with an empty value."""
    wanted = {"org.example.colour": "blue", "org.example.empty": ""}
    box = c.create(c.bundle(annotations=wanted))
    found = box.state().get("annotations") or {}
    c.equal({key: found.get(key) for key in wanted}, wanted, "annotations")


@case("RT-STATE-10")
def no_annotations_in_state(c: Context) -> None:
    """The annotations in the state are absent or empty if the config has none."""
    c.equal(c.create().state().get("annotations", {}), {}, "annotations")


@case("RT-STATE-11", "RT-QUERY-03")
def state_schema(c: Context) -> None:
    """The state matches the schema when the container is created, running and stopped."""
    box = c.create(c.bundle(annotations={"org.example.a": "b"}))
    found = {"created": state_faults(box.state())}
    box.start()
    found["running"] = state_faults(box.state())
    box.kill()
    box.wait()
    found["stopped"] = state_faults(box.state())
    faults = [f"{status}: {fault}" for status, all in found.items() for fault in all]
    c.expect(not faults, "; ".join(faults))


@case("RT-QUERY-01")
def state_without_id(c: Context) -> None:
    """Calling state without an ID fails."""
    c.failed(c.call("state"), "no id")


@case("RT-QUERY-02")
def state_of_unknown(c: Context) -> None:
    """Calling state for an unknown container fails and prints no state."""
    result = c.failed(c.call("state", c.id()), "an unknown id")
    c.expect('"status"' not in result.out, f"printed a state: {result.out!r}")


@case("RT-QUERY-02", "RT-DELETE-04")
def state_after_delete(c: Context) -> None:
    """Calling state for a deleted container fails."""
    box = c.create()
    box.delete("--force")
    c.failed(box.attempt("state"), "the container was deleted")
