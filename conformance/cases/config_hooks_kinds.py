"""config.md: when and where hooks of each kind run."""

from __future__ import annotations

import json
import os
from pathlib import Path

from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.cases.config_hooks import live, note_of
from conformance.container import Container
from conformance.context import Context


def namespaces_outside(c: Context) -> Json:
    """Return the runtime's namespaces as a mapping from kind to inode."""
    found: Json = json.loads(c.probe_on_host().out)["namespaces"]
    return found


def built(c: Context, kind: str) -> tuple[Bundle, Container, Json]:
    """Create a container with one hook of this kind; return bundle, container and record."""
    bundle = c.bundle().mount("/tmp", "tmpfs", "tmpfs", "size=64k")
    # Inside, the pid is that of the inner namespace and /proc still the host's.
    mounts = "read=/proc/self/mountinfo" if kind == "createContainer" else "read=/proc/%p/mountinfo"
    asks = ["stat=/proc/%p/ns/net", "stat=/proc/%p/ns/mnt", mounts]
    box = c.create(bundle.hook(kind, *asks))
    return bundle, box, note_of(c, bundle, kind)


@table(
    ("CFG-HOOK-PRE-01", "prestart"),
    ("CFG-HOOK-CRT-01", "createRuntime"),
    ("CFG-HOOK-CCT-01", "createContainer"),
)
def environment_made(c: Context, kind: str) -> None:
    """During create, a {0} hook runs after the mounts and before the change of root."""
    bundle, box, note = built(c, kind)
    (text,) = note["read"].values()
    points = {line.split()[4] for line in str(text).splitlines()}
    wanted = {str(bundle.rootfs / name) for name in ("proc", "tmp")}
    c.expect(wanted <= points, f"not among the mounts: {sorted(wanted - points)}")
    box.start()
    c.equal(len(bundle.hooked(kind)), 1, f"runs of the {kind} hook after start")


@table(("CFG-HOOK-PRE-01", "prestart"), ("CFG-HOOK-CRT-01", "createRuntime"))
def namespaces_made(c: Context, kind: str) -> None:
    """A {0} hook can reach the container's namespaces through the pid in the state."""
    _, box, note = built(c, kind)
    for name in ("net", "mnt"):
        link = note["stat"][f"/proc/%p/ns/{name}"].get("link")
        c.equal(link, f"{name}:[{box.namespace(name)}]", f"{name} namespace that the hook found")


@table(
    ("CFG-HOOK-PRE-02", "createRuntime", "prestart"),
    ("CFG-HOOK-CCT-02", "createContainer", "createRuntime"),
)
def kinds_in_order(c: Context, later: str, earlier: str) -> None:
    """All {1} hooks run before any {0} hook, regardless of their order in the config."""
    bundle = c.bundle().hook(later).hook(earlier, word="first").hook(earlier, word="second")
    c.create(bundle)
    c.equal(bundle.words(), ["first", "second", later], "hooks in the order of time")


@table(
    ("CFG-HOOK-PRE-03", "prestart"),
    (("CFG-HOOK-CRT-02", "CFG-HOOK-CRT-03"), "createRuntime"),
    ("CFG-HOOK-PST-02", "poststart"),
    ("CFG-HOOK-PSP-02", "poststop"),
)
def outside(c: Context, kind: str) -> None:
    """A {0} hook is a host program and runs in the runtime's namespaces."""
    bundle = c.bundle().hook(kind)
    bundle.namespace("cgroup")
    live(c, bundle)
    note = note_of(c, bundle, kind)
    c.equal(note["namespaces"], namespaces_outside(c), "namespaces")
    host = os.stat("/")
    c.equal(note["root"], {"device": host.st_dev, "inode": host.st_ino}, "root directory")


@table(
    ("CFG-HOOK-PRE-03", "prestart"),
    ("CFG-HOOK-CRT-02", "createRuntime"),
    ("CFG-HOOK-CCT-03", "createContainer"),
    ("CFG-HOOK-PST-02", "poststart"),
    ("CFG-HOOK-PSP-02", "poststop"),
)
def path_outside(c: Context, kind: str) -> None:
    """The path of a {0} hook is a host path, even if it also exists in the container."""
    bundle = c.bundle()
    tool = c.directory / "tool"
    tool.write_bytes(bundle.probe.read_bytes())
    tool.chmod(0o755)
    decoy = bundle.rootfs / str(tool).lstrip("/")
    decoy.parent.mkdir(parents=True)
    decoy.write_text("no program")
    decoy.chmod(0o755)
    mark = bundle.log / "mark"
    live(c, bundle.raw_hook(kind, {"path": str(tool), "args": ["probe", "touch", str(mark)]}))
    c.expect(mark.exists(), f"the {kind} hook did not run")


@case("CFG-HOOK-CCT-01")
def mount_in_hook(c: Context) -> None:
    """A createContainer hook's mount under the root directory is visible to the program."""
    bundle = c.bundle("facts stat=/var", "sleep")
    target = bundle.rootfs / "var"
    bundle.hook("createContainer", then=[f"try mount tmpfs {target} tmpfs 0", "exit 0"])
    box = c.started(bundle)
    found = box.wait_for_reports()[0]["stat"]["/var"]["filesystem"]
    c.equal(found, 0x01021994, "file system of the directory that was mounted on")


def inside(c: Context, kind: str, bundle: Bundle) -> tuple[Container, Json]:
    """Start a container with a hook of this kind; return it and the hook's record."""
    box = c.started(bundle.hook(kind))
    return box, note_of(c, bundle, kind)


@table(
    *[
        (id, f"{kind} {more}", kind, more)
        for id, kind in (
            ("CFG-HOOK-CCT-04", "createContainer"),
            ("CFG-HOOK-SCT-03", "startContainer"),
        )
        for more in ("plain", "cgroup", "user")
    ]
)
def in_namespaces(c: Context, name: str, kind: str, more: str) -> None:
    """The hook runs in all of the container's namespaces ({0})."""
    bundle = c.bundle()
    if more == "user":
        c.need_root("ordinary users always have a user namespace")
        bundle.user_namespace()
        # Root of that namespace may not pass through the home directories of the host.
        bundle.probe = c.directory / "probe"
        bundle.probe.write_bytes(c.probe_program.read_bytes())
        bundle.probe.chmod(0o755)
    elif more == "cgroup":
        bundle.namespace("cgroup")
    box, note = inside(c, kind, bundle)
    kinds = note["namespaces"].keys() - {"time"}
    c.expect(kinds, "the hook saw no namespaces")
    wanted = {one: box.namespace(one) for one in kinds}
    c.equal({one: note["namespaces"][one] for one in kinds}, wanted, f"namespaces, {name}")


@case("CFG-HOOK-SCT-03")
def in_root(c: Context) -> None:
    """A startContainer hook runs with the container's root directory."""
    bundle = c.bundle()
    root = os.stat(bundle.rootfs)
    _, note = inside(c, "startContainer", bundle)
    c.equal(note["root"], {"device": root.st_dev, "inode": root.st_ino}, "root directory")


@case("CFG-HOOK-SCT-01")
def start_hook_before_program(c: Context) -> None:
    """The startContainer hooks run during start and end before the program begins."""
    bundle = c.bundle("append /out/order program", "sleep")
    bundle.hook("startContainer", then=["sleep 0.3", "append /out/order hook"])
    box = c.create(bundle)
    c.equal(bundle.words(), [], "hooks that ran during create")
    box.start()
    noted = box.file("/out/order")
    c.until(lambda: noted.exists() and "program" in noted.read_text(), "the program did not run")
    c.equal(noted.read_text().split(), ["hook", "program"], "order")


@case("CFG-HOOK-SCT-02")
def start_hook_inside(c: Context) -> None:
    """The path of a startContainer hook is resolved in the container."""
    bundle = c.bundle("sleep").hook("startContainer")
    c.expect(not Path("/bin/probe").exists(), "the host has a /bin/probe")
    c.started(bundle)
    note_of(c, bundle, "startContainer")


@case("CFG-HOOK-SCT-02")
def start_hook_on_host(c: Context) -> None:
    """A startContainer hook whose path exists only on the host is an error."""
    bundle = c.bundle("touch /out/ran")
    entry = {"path": str(bundle.probe), "args": ["probe", "exit", "0"]}
    c.refused(bundle.raw_hook("startContainer", entry), "a program of the host", or_start=True)
    c.expect(not (bundle.rootfs / "out/ran").exists(), "the program ran")


@case("CFG-HOOK-PST-01")
def after_program(c: Context) -> None:
    """The poststart hooks run during start, after the program has been executed."""
    bundle = c.bundle("sleep").hook("poststart", "read=/proc/%p/cmdline")
    # Gives hooks that do not wait for the program enough time to be too early.
    bundle.raw_hook("startContainer", {"path": "/bin/probe", "args": ["probe", "sleep", "0.3"]})
    box = c.create(bundle)
    c.equal(bundle.words(), [], "hooks that ran during create")
    box.start()
    seen = str(note_of(c, bundle, "poststart")["read"]["/proc/%p/cmdline"])
    c.equal(seen.split("\0")[:2], ["/bin/probe", "sleep"], "what the container's process was")


@case("CFG-HOOK-PST-01")
def before_end_of_start(c: Context) -> None:
    """Start does not return before the poststart hooks have ended."""
    bundle = c.bundle("sleep")
    mark = bundle.log / "mark"
    box = c.create(bundle.hook("poststart", then=["sleep 0.5", f"touch {mark}"]))
    c.expect(not mark.exists(), "the hook ran during create")
    box.start()
    c.expect(mark.exists(), "start returned before the hook had ended")


@case("CFG-HOOK-PSP-01")
def after_deletion(c: Context) -> None:
    """The poststop hooks run after the container's process and cgroups are gone."""
    c.need_root("ordinary users may have no cgroup to look for")
    bundle = c.bundle("sleep")
    box = c.create(bundle)
    groups = sorted({path for path in box.cgroups().values() if c.token in str(path)})
    box.kill("KILL")
    box.wait()
    box.delete()
    c.expect(groups, "the container had no cgroup of its own")
    again = c.create(bundle.hook("poststop", *[f"stat={path}" for path in groups]))
    again.start()
    again.kill("KILL")
    again.wait()
    again.delete()
    found = note_of(c, bundle, "poststop")["stat"]
    c.equal(found, {str(path): {"error": "ENOENT"} for path in groups}, "cgroups in the hook")


@case("CFG-HOOK-PSP-01")
def before_end_of_delete(c: Context) -> None:
    """The poststop hooks run only during delete, which returns after they have ended."""
    bundle = c.bundle("exit 0")
    mark = bundle.log / "mark"
    box = c.run(bundle.hook("poststop", then=["sleep 0.5", f"touch {mark}"]))
    c.equal(bundle.words(), [], "hooks that ran before delete")
    box.delete()
    c.expect(mark.exists(), "delete returned before the hook had ended")
