"""runtime.md: lifecycle, errors, warnings."""

from __future__ import annotations

import time

from conformance import cgroups
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context

CREATE_HOOKS = ("prestart", "createRuntime", "createContainer")
FAILING = {
    "prestart": "RT-LIFE-06",
    "createRuntime": "RT-LIFE-08",
    "createContainer": "RT-LIFE-10",
}


@case("RT-LIFE-01")
def environment_after_create(c: Context) -> None:
    """Namespaces, mounts and the cgroup exist before start."""
    box = c.create(c.bundle().mount("/tmp", "tmpfs", "tmpfs", "size=64k"))
    outside = c.probe_on_host().json()["namespaces"]
    for kind in ("pid", "mnt", "ipc", "uts", "net"):
        c.expect(box.namespace(kind) != outside[kind], f"{kind} namespace is the runtime's")
    points = {one.point for one in box.mountinfo()}
    for point in ("/proc", "/dev", "/tmp"):
        c.expect(point in points, f"no mount on {point} after create")
    if c.host.root:
        c.expect(cgroups.named(box.id), "no cgroup after create")


@table(
    ("file system", {"mounts": [{"destination": "/x", "type": "nosuchfs", "source": "none"}]}),
    ("source", {"mounts": [{"destination": "/x", "source": "/nowhere", "options": ["bind"]}]}),
    ("root", {"root": {"path": "nowhere"}}),
    ("namespace", {"linux": {"namespaces": [{"type": "network", "path": "/nowhere"}]}}),
    ids=("RT-LIFE-02", "RT-CREATE-07", "RT-CREATE-08"),
)
def impossible(c: Context, _what: str, changes: dict[str, object]) -> None:
    """Create fails if the {0} does not exist."""
    c.refused(c.bundle(**changes), f"{changes}")


@case("RT-LIFE-03", "RT-CREATE-06", "RT-START-04", "RT-LIFE-13")
def program_waits_for_start(c: Context) -> None:
    """The program does not run until start."""
    box = c.create(c.bundle("touch /out/ran", "sleep"))
    time.sleep(0.3)
    c.expect(not box.file("/out/ran").exists(), "the program ran during create")
    c.expect(b"/out/ran" not in box.proc("cmdline").read_bytes(), "args are applied in create")
    box.start()
    c.until(box.file("/out/ran").exists, "the program did not run after start")


@case("RT-LIFE-04", "RT-CREATE-09")
def later_edits(c: Context) -> None:
    """Changing and removing config.json after create has no effect."""
    bundle = c.bundle("touch /out/old", "facts", hostname="old").hook("poststop", word="old")
    box = c.create(bundle)
    bundle.does("touch /out/new", "facts").change(hostname="new", hooks={"poststop": []})
    bundle.hook("poststop", word="new").hook("startContainer", word="new").save()
    box.start()
    box.wait()
    (bundle.path / "config.json").unlink()
    c.expect(box.file("/out/old").exists(), "the program of the original config did not run")
    c.expect(not box.file("/out/new").exists(), "the program of the edited config ran")
    c.equal(box.reports[0]["hostname"], "old", "hostname")
    box.delete()
    c.equal(bundle.words(), ["old"], "hooks that ran")


@table(
    ("RT-LIFE-05", "prestart"),
    ("RT-LIFE-07", "createRuntime"),
    ("RT-LIFE-09", "createContainer"),
)
def hook_in_create(c: Context, kind: str) -> None:
    """Create runs the {0} hooks."""
    bundle = c.bundle().hook(kind)
    c.create(bundle)
    c.equal(bundle.words(), [kind], "hooks that ran during create")


@case("RT-LIFE-05", "RT-LIFE-07", "RT-LIFE-09")
def order_of_hooks_in_create(c: Context) -> None:
    """Create runs prestart, createRuntime and createContainer hooks, in that order."""
    bundle = c.bundle()
    for kind in reversed(CREATE_HOOKS):
        bundle.hook(kind)
    c.create(bundle)
    c.equal(bundle.words(), list(CREATE_HOOKS), "hooks that ran during create")


@table(
    *((FAILING[kind], f"{kind} {how}", kind, how) for kind in CREATE_HOOKS for how in ("exit 1",)),
    ("RT-LIFE-08", "createRuntime killed", "createRuntime", "die KILL"),
)
def failing_hook_in_create(c: Context, _name: str, kind: str, how: str) -> None:
    """If a hook fails ({0}), create fails, leaves no container and runs poststop hooks."""
    bundle = c.bundle().hook(kind, then=[how]).hook("poststop")
    c.refused(bundle, f"a {kind} hook that ends by {how}")
    c.equal(bundle.words(), [kind, "poststop"], "hooks that ran")
    box = c.create(c.bundle(), id=bundle.path.name)
    c.equal(box.status, "created", "a new container of the same id")


@case("RT-LIFE-08")
def missing_hook_program(c: Context) -> None:
    """Create fails if the program of a createRuntime hook does not exist."""
    bundle = c.bundle().raw_hook("createRuntime", {"path": "/nowhere/hook"})
    c.refused(bundle, "a hook without a program")


@case("RT-LIFE-11")
def start_container_hook(c: Context) -> None:
    """Start runs the startContainer hooks; create does not."""
    bundle = c.bundle().hook("startContainer")
    box = c.create(bundle)
    c.equal(bundle.words(), [], "hooks that ran during create")
    box.start()
    c.until(bundle.words, "the hook did not run")
    c.equal(bundle.words(), ["startContainer"], "hooks that ran during start")


def _started_badly(c: Context, bundle: Bundle) -> Container:
    box = c.create(bundle)
    c.failed(box.attempt("start"), "a hook failed")
    return box


def _is_over(c: Context, box: Container) -> None:
    state = box.attempt("state")
    status = state.json().get("status") if state.ok else "gone"
    c.expect(status in {"stopped", "gone"}, f"after the failed start the container is {status}")


@case("RT-LIFE-12")
def failing_start_container_hook(c: Context) -> None:
    """If a startContainer hook fails, start fails and the program never runs."""
    bundle = c.bundle("touch /out/ran", "sleep").hook("startContainer", then=["exit 1"])
    box = _started_badly(c, bundle)
    _is_over(c, box)
    c.expect(not box.file("/out/ran").exists(), "the program ran")


@case("RT-LIFE-12")
def destroyed_after_start_container_hook(c: Context) -> None:
    """If a startContainer hook fails, the container is destroyed and poststop hooks run."""
    bundle = c.bundle().hook("startContainer", then=["exit 1"]).hook("poststop")
    box = c.create(bundle)
    box.attempt("start")
    c.until(lambda: "poststop" in bundle.words(), "no poststop hook ran", 2)
    c.expect(not box.attempt("state").ok, "the container still exists")


@case("RT-LIFE-13")
def program_runs(c: Context) -> None:
    """Start runs the program with its arguments and standard streams."""
    box = c.run(c.bundle("echo one two", "complain three", "exit 7"))
    c.equal(box.out, "one two\n", "standard output")
    c.equal(box.err, "three\n", "standard error")
    c.expect(box.exit_status in {7, None}, f"exit status {box.exit_status}")


@case("RT-LIFE-14")
def poststart_hook(c: Context) -> None:
    """Start runs the poststart hooks; create does not."""
    bundle = c.bundle().hook("poststart")
    box = c.create(bundle)
    c.equal(bundle.words(), [], "hooks that ran during create")
    box.start()
    c.equal(bundle.words(), ["poststart"], "hooks that ran during start")


@case("RT-LIFE-15")
def failing_poststart_hook(c: Context) -> None:
    """If a poststart hook fails, start fails and the container is destroyed.

    The poststop hooks run.
    """
    bundle = c.bundle().hook("poststart", then=["exit 1"]).hook("poststop")
    box = _started_badly(c, bundle)
    _is_over(c, box)
    c.equal(bundle.words(), ["poststart", "poststop"], "hooks that ran")
    c.expect(not box.attempt("state").ok, "the container still exists")


@case("RT-LIFE-16", "RT-DELETE-04")
def delete_undoes(c: Context) -> None:
    """Delete removes the container's processes, cgroups, mounts and files."""
    box = c.run(c.bundle("background session", "exit 0").without_namespace("time"))
    groups = cgroups.named(box.id)
    box.delete()
    for group in groups:
        c.expect(not group.exists(), f"{group} is still there")
    entries = [path.name for path in c.root.iterdir() if not path.name.startswith(".")]
    c.equal(entries, [], "entries in the state directory")


@case("RT-LIFE-17")
def poststop_hook(c: Context) -> None:
    """Delete runs the poststop hooks; they do not run before delete."""
    bundle = c.bundle("exit 0").hook("poststop")
    box = c.run(bundle)
    c.equal(box.status, "stopped", "status after the end")
    c.equal(bundle.words(), [], "hooks that ran before delete")
    box.delete()
    c.equal(bundle.words(), ["poststop"], "hooks that ran during delete")


@case("RT-LIFE-18")
def failing_poststop_hook(c: Context) -> None:
    """If a poststop hook fails, delete still succeeds and the other hooks still run."""
    bundle = c.bundle("exit 0").hook("poststop", word="one", then=["exit 1"])
    box = c.run(bundle.hook("poststop", word="two"))
    result = box.attempt("delete")
    c.equal(bundle.words(), ["one", "two"], "hooks that ran")
    c.expect(result.ok, f"delete failed: {result.complaint}")
    c.expect(not box.attempt("state").ok, "the container still exists")


@case("RT-ERR-01")
def failing_operations_change_nothing(c: Context) -> None:
    """Failed operations leave a running container and its environment unchanged."""
    box = c.started()
    pid = box.pid
    c.failed(box.attempt("start"), "start of a running container")
    c.failed(box.attempt("delete"), "delete of a running container")
    c.failed(box.attempt("kill", "NOSUCHSIGNAL"), "an unknown signal")
    c.failed(c.attempt_create(c.bundle(), id=box.id)[1], "an id that was taken")
    c.containers.pop()
    c.equal((box.status, box.state().get("pid")), ("running", pid), "status and pid")


@case("RT-WARN-01", "CFG-CAP-01")
def unknown_capability(c: Context) -> None:
    """An unknown capability in the config does not stop the container from running.

    It is worth a warning.
    """
    bundle = c.bundle("exit 0")
    bundle.process["capabilities"]["bounding"].append("CAP_NOBODY_KNOWS")
    box = c.run(bundle)
    c.expect(box.exit_status in {0, None}, f"exit status {box.exit_status}")
