"""runtime.md: operations."""

from __future__ import annotations

import os
import signal

from conformance.case import case, table
from conformance.context import Context

LONG = "a" * 1024


@case("RT-OP-01")
def all_operations(c: Context) -> None:
    """A container can be created, queried, started, killed and deleted."""
    box = c.create()
    box.state()
    box.start()
    box.kill()
    box.wait()
    box.delete()


@table(
    (("RT-CREATE-01",), "create"),
    (("RT-START-01",), "start"),
    (("RT-KILL-01",), "kill"),
    (("RT-DELETE-01",), "delete"),
)
def without_id(c: Context, verb: str) -> None:
    """{0} without an ID fails."""
    bundle = c.bundle().save()
    c.failed(c.call(verb, cwd=bundle.path), "no id")


@case("RT-CREATE-01", "BUNDLE-01")
def without_bundle(c: Context) -> None:
    """Create fails if the bundle does not exist or has no config.json."""
    empty = c.directory / "empty"
    empty.mkdir()
    for path in (empty, c.directory / "nowhere"):
        result = c.call("create", "--bundle", str(path), c.id())
        c.failed(result, "no bundle")


@table(
    ("empty", ""),
    ("dots", ".."),
    ("slash", "{0}/a"),
    ids=("RT-CREATE-02", "RT-CREATE-03"),
)
def bad_id(c: Context, _name: str, id: str) -> None:
    """An invalid ID is rejected and creates no container ({0})."""
    box, result = c.attempt_create(c.bundle(), id=id.format(c.token))
    c.failed(result, f"the id {box.id[:40]!r}")
    c.containers.clear()
    if c.root.exists():
        entries = [path.name for path in c.root.iterdir() if not path.name.startswith(".")]
        c.equal(entries, [], "entries in the state directory")


@table(("blank", "{0} a"), ("long", LONG), ids="RT-CREATE-02")
def unusual_id(c: Context, _name: str, id: str) -> None:
    """An ID that a runtime need not accept ({0}) is rejected, or is the container's ID."""
    box, result = c.attempt_create(c.bundle(), id=id.format(c.token))
    if result.ok:
        c.equal(box.state()["id"], box.id, "id in the state")
        return
    box.deleted = True


@case("RT-CREATE-02", "RT-CREATE-03")
def taken_id(c: Context) -> None:
    """A created container can still be started after a second create with its ID fails."""
    box = c.create(c.bundle("touch /out/ran", "sleep"))
    c.failed(c.attempt_create(c.bundle(), id=box.id)[1], "an id that was taken")
    c.containers.pop()
    c.equal(box.status, "created", "status of the first container")
    box.start()
    c.until(box.file("/out/ran").exists, "the first container's program did not run")


@case("RT-CREATE-04")
def create_makes_container(c: Context) -> None:
    """Create makes a container that did not exist before."""
    name = c.id()
    c.failed(c.call("state", name), "not created yet")
    c.equal(c.create(id=name).status, "created", "status")


@case("RT-CREATE-05")
def properties_after_create(c: Context) -> None:
    """Mounts, hostname and kernel parameters are applied before start."""
    bundle = c.bundle(hostname="applied", linux={"sysctl": {"kernel.msgmax": "4321"}})
    bundle.mount("/tmp", "tmpfs", "tmpfs", "size=64k")
    box = c.create(bundle)
    points = [one.point for one in box.mountinfo()]
    c.expect("/tmp" in points, "no mount on /tmp")
    c.need_root("needs to enter the container's namespaces")
    words = ["-t", str(box.pid), "-u", "-i", "cat"]
    files = ["/proc/sys/kernel/hostname", "/proc/sys/kernel/msgmax"]
    shown = c.tool("nsenter", *words, *files).out.split()
    c.equal(shown, ["applied", "4321"], "hostname and msgmax")


@table(
    ("hostname", {"hostname": 5}),
    ("args", {"process": {"args": "sleep"}}),
    ("namespace type", {"linux": {"namespaces": [{"type": "nonsense"}]}}),
    ("limit type", {"process": {"rlimits": [{"type": "RLIMIT_X", "soft": 1, "hard": 1}]}}),
    ids=("RT-CREATE-07", "RT-CREATE-08"),
)
def unusable_property(c: Context, name: str, changes: dict[str, object]) -> None:
    """An invalid {0} is rejected, and no container is created."""
    c.refused(c.bundle(**changes), f"{name} {changes}")


@case("RT-START-02", "RT-START-03")
def start_twice(c: Context) -> None:
    """Starting a container twice fails, and the second start has no effect."""
    bundle = c.bundle("append /out/runs once", "sleep").hook("poststart")
    box = c.started(bundle)
    c.until(box.file("/out/runs").exists, "the program did not run")
    hooks = bundle.words()
    c.failed(box.attempt("start"), "the container was running")
    c.equal(box.file("/out/runs").read_text(), "once\n", "what the program left")
    c.equal(bundle.words(), hooks, "hooks that ran")
    c.equal(box.state().get("pid"), box.pid, "pid")


@case("RT-START-02", "RT-START-03")
def start_stopped(c: Context) -> None:
    """Starting a stopped container fails, and the container stays stopped."""
    box = c.run(c.bundle("append /out/runs once"))
    c.failed(box.attempt("start"), "the container was stopped")
    c.equal(box.status, "stopped", "status")
    c.equal(box.file("/out/runs").read_text(), "once\n", "what the program left")


@case("RT-START-02")
def start_unknown(c: Context) -> None:
    """Starting an unknown container fails."""
    c.failed(c.call("start", c.id()), "an unknown id")


@case("RT-START-05", "CFG-PROC-01")
def start_without_process(c: Context) -> None:
    """Create or start fails if the config has no process."""
    bundle = c.bundle()
    del bundle.config["process"]
    c.refused(bundle, "start without process", or_start=True)


@case("RT-KILL-02")
def kill_unknown(c: Context) -> None:
    """Killing an unknown container fails."""
    c.failed(c.call("kill", c.id(), "TERM"), "an unknown id")


@case("RT-KILL-02", "RT-KILL-03")
def kill_stopped(c: Context) -> None:
    """Killing a stopped container fails and changes nothing."""
    box = c.run(c.bundle("exit 0"))
    c.failed(box.attempt("kill", "KILL"), "the container was stopped")
    c.equal(box.status, "stopped", "status")


@table(
    ("name", "USR1", signal.SIGUSR1),
    ("full name", "SIGUSR2", signal.SIGUSR2),
    ("number", "1", signal.SIGHUP),
    ("TERM", "TERM", signal.SIGTERM),
    ("real-time", str(signal.SIGRTMIN + 3), signal.SIGRTMIN + 3),
    ids="RT-KILL-04",
)
def kill_delivers(c: Context, _name: str, word: str, number: int) -> None:
    """Kill sends the signal to the container's process ({0})."""
    trapped = " ".join(str(int(one)) for one in (1, 10, 12, 15, signal.SIGRTMIN + 3))
    box = c.started(c.bundle(f"trap /out/signals {trapped}", "sleep"))
    notes = box.file("/out/signals")
    c.until(lambda: notes.exists() and notes.read_text(), "the program did not run")
    box.kill(word)
    c.until(lambda: len(notes.read_text().split()) > 1, f"no signal arrived for {word}")
    c.equal(notes.read_text().split(), ["ready", str(int(number))], "signals that arrived")


@case("RT-KILL-04")
def kill_created(c: Context) -> None:
    """Sending KILL to a created container stops it, and its program never runs."""
    box = c.create(c.bundle("touch /out/ran"))
    box.kill("KILL")
    box.wait()
    c.equal(box.status, "stopped", "status")
    c.expect(not box.file("/out/ran").exists(), "the program ran")


@case("RT-DELETE-02", "RT-DELETE-03")
def delete_running(c: Context) -> None:
    """Deleting a running container fails, and the container keeps running."""
    box = c.started()
    c.failed(box.attempt("delete"), "the container was running")
    c.equal(box.status, "running", "status")
    os.kill(box.pid, 0)


@case("RT-DELETE-02", "RT-DELETE-03")
def delete_created(c: Context) -> None:
    """Deleting a created container fails, and the container can still be started."""
    box = c.create(c.bundle("touch /out/ran", "sleep"))
    c.failed(box.attempt("delete"), "the container was created, not stopped")
    box.start()
    c.until(box.file("/out/ran").exists, "the program did not run")


@case("RT-DELETE-02")
def delete_unknown(c: Context) -> None:
    """Deleting an unknown container fails."""
    c.failed(c.call("delete", c.id()), "an unknown id")


@case("RT-DELETE-04")
def delete_stopped(c: Context) -> None:
    """Deleting a stopped container removes it."""
    box = c.run(c.bundle("exit 0"))
    box.delete()
    c.failed(box.attempt("state"), "the container was deleted")


@case("RT-DELETE-05")
def delete_leaves_the_rest(c: Context) -> None:
    """Delete keeps cgroups that others created, joined namespaces and sources of bind mounts."""
    c.need_root()
    source = c.directory / "data"
    source.mkdir()
    (source / "kept").write_text("kept")
    parent = c.make_cgroups("parent")
    other = c.started()
    bundle = c.bundle("exit 0").namespace("network", other.proc("ns/net"))
    bundle.bind(source, "/tmp")
    if not c.runtime.systemd:
        bundle.linux["cgroupsPath"] = f"{parent}/{bundle.path.name}"
    inode = other.namespace("net")
    box = c.run(bundle)
    box.delete()
    c.expect((source / "kept").exists(), "the source of a bind mount was emptied")
    c.equal(other.namespace("net"), inode, "network namespace")
    for group in c.made_cgroups:
        c.expect(group.exists(), f"{group}, the parent cgroup, was removed")


@case("RT-DELETE-06")
def id_again(c: Context) -> None:
    """An ID can be reused as soon as its container is deleted."""
    name = c.id()
    for _ in range(5):
        box = c.create(id=name)
        box.kill("KILL")
        box.wait()
        box.delete()
