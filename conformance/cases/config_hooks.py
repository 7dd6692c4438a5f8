"""config.md: rules for all hooks; config_hooks_kinds.py has those for each kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context
from conformance.documents import state_faults
from conformance.driver import Result

CREATE_KINDS = ("prestart", "createRuntime", "createContainer")
KINDS = (*CREATE_KINDS, "startContainer", "poststart", "poststop")
ALL = [(kind,) for kind in KINDS]


def live(c: Context, bundle: Bundle) -> Container:
    """Create, start and delete a container after its init exits, so that all hooks run."""
    box = c.run(bundle.does("exit 0"))
    box.delete()
    return box


def upto(c: Context, bundle: Bundle, kind: str) -> Result:
    """Call the operation that runs hooks of this kind; return its result unchecked."""
    box, result = c.attempt_create(bundle)
    if not result.ok or kind in CREATE_KINDS:
        return result
    if kind != "poststop":
        return box.attempt("start")
    box.kill("KILL")
    box.wait()
    result = box.attempt("delete")
    box.deleted = result.ok
    return result


def note_of(c: Context, bundle: Bundle, kind: str) -> Json:
    """Return what the only hook of this kind recorded.

    Wait for the record, but not for the end of the hook.
    """
    c.until(lambda: bundle.hooked(kind), f"no {kind} hook ran")
    notes = bundle.hooked(kind)
    c.equal(len(notes), 1, f"runs of the {kind} hook")
    return notes[0]


@table(*ALL, ids="CFG-HOOK-01")
def no_path(c: Context, kind: str) -> None:
    """A {0} hook without a path is rejected."""
    c.refused(c.bundle().raw_hook(kind, {"args": ["probe", "exit", "0"]}), f"{kind} without path")


@table(*ALL, ids="CFG-HOOK-02")
def relative_path(c: Context, kind: str) -> None:
    """A {0} hook with a relative path is rejected, even if the bundle has that file."""
    bundle = c.bundle()
    (bundle.path / "bin").mkdir()
    os.link(bundle.probe, bundle.path / "bin/probe")
    bundle.raw_hook(kind, {"path": "bin/probe", "args": ["probe", "exit", "0"]})
    c.refused(bundle, f"path of a {kind} hook: bin/probe")


@table(*ALL, ids="CFG-HOOK-03")
def args(c: Context, kind: str) -> None:
    """The args of a {0} hook are its whole argument vector, including argv[0]."""
    bundle = c.bundle().hook(kind, "two words")
    live(c, bundle)
    entry = bundle.config["hooks"][kind][0]
    c.equal(note_of(c, bundle, kind)["argv"], entry["args"], "argv")


@case("CFG-HOOK-03")
def no_args(c: Context) -> None:
    """A hook without args runs with no arguments after argv[0]."""
    script = c.directory / "hook"
    script.write_text(f'#!/bin/sh\necho "$#" >> {c.directory}/count\n')
    script.chmod(0o755)
    c.tool("sh", "-c", ":")
    c.create(c.bundle().raw_hook("createRuntime", {"path": str(script)}))
    count = c.directory / "count"
    c.equal(count.read_text() if count.exists() else None, "0\n", "number of further words")


@table(*ALL, ids="CFG-HOOK-04")
def env(c: Context, kind: str) -> None:
    """The env of a {0} hook is its entire environment."""
    listed = ["B=2", "A=with=sign", "EMPTY="]
    bundle = c.bundle().hook(kind, env=listed)
    live(c, bundle)
    c.equal(note_of(c, bundle, kind)["env"], listed, "environment")


@table(
    *[(f"{kind} {value}", kind, value) for kind in KINDS for value in (0, -1)], ids="CFG-HOOK-05"
)
def bad_timeout(c: Context, name: str, kind: str, value: int) -> None:
    """A hook timeout of 0 or less is rejected ({0})."""
    bundle = c.bundle().hook(kind, timeout=value)
    c.refused(bundle, f"timeout of a hook: {name}")
    c.equal(bundle.words(), [], "hooks that ran")


@table(*ALL, ids="CFG-HOOK-06")
def hook_times_out(c: Context, kind: str) -> None:
    """A {0} hook that exceeds its timeout is terminated and counts as failed."""
    word = f"{kind}-{c.token}"
    bundle = c.bundle().hook(kind, word=word, then=["sleep 100"], timeout=1)
    result = upto(c, bundle, kind)
    note_of(c, bundle, word)
    if kind != "poststop":
        c.failed(result, f"a {kind} hook that does not end")
    c.expect(
        0.9 < result.seconds < 6, f"{result.verb} took {result.seconds:.1f} s, timeout was 1 s"
    )
    running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _has_word(path, word)]
    c.equal(running, [], "the hook's processes")


def _has_word(path: Path, word: str) -> bool:
    """Return whether ``path``, a cmdline file in /proc, has ``word`` among its arguments."""
    try:
        return word.encode() in path.read_bytes().split(b"\0")
    except OSError:
        return False


def mark_of(bundle: Bundle, kind: str) -> tuple[str, Path]:
    """Return a file that such a hook can create: its path for the hook and on the host."""
    if kind == "startContainer":
        return "/out/mark", bundle.rootfs / "out/mark"
    return str(bundle.log / "mark"), bundle.log / "mark"


@table(*ALL, ids="CFG-HOOK-06")
def hook_in_time(c: Context, kind: str) -> None:
    """A {0} hook that ends before its timeout is not interrupted."""
    bundle = c.bundle()
    name, mark = mark_of(bundle, kind)
    bundle.hook(kind, timeout=10, then=["sleep 1.2", f"touch {name}"])
    result = upto(c, bundle, kind)
    c.expect(result.ok, f"{result.verb} failed: {result.complaint}")
    c.until(mark.exists, "the hook did not come to its end")


@table(*ALL, ids="CFG-HOOK-07")
def order(c: Context, kind: str) -> None:
    """The {0} hooks run in the order listed, one after the other."""
    bundle = c.bundle()
    file = "/out/order" if kind == "startContainer" else str(bundle.log / "order")
    for word, rest in (("c", "0.2"), ("a", "0.1"), ("b", "0")):
        then = [f"append {file} {word}", f"sleep {rest}", f"append {file} {word}"]
        bundle.hook(kind, word=word, then=then)
    live(c, bundle)
    noted = bundle.rootfs / "out/order" if kind == "startContainer" else bundle.log / "order"
    c.expect(noted.exists(), f"no {kind} hook ran")
    c.equal(noted.read_text().split(), list("ccaabb"), "begins and ends of the hooks")


@table(*ALL, ids="CFG-HOOK-08")
def state_on_input(c: Context, kind: str) -> None:
    """A {0} hook receives the complete container state on its standard input."""
    annotations = {"org.example.a": "b"}
    bundle = c.bundle(annotations=annotations).hook(kind)
    box = live(c, bundle)
    state = json.loads(note_of(c, bundle, kind)["stdin"] or "null")
    c.equal(state_faults(state), [], "faults of the state")
    c.equal((state["id"], state["bundle"]), (box.id, str(bundle.path)), "id and bundle")
    c.equal(state.get("annotations"), annotations, "annotations")


@table(*ALL, ids="CFG-HOOK-08")
def input_not_read(c: Context, kind: str) -> None:
    """A {0} hook need not read its input, even if the state exceeds the pipe buffer."""
    bundle = c.bundle(annotations={"org.example.long": "x" * 300_000})
    probe = "/bin/probe" if kind == "startContainer" else str(bundle.probe)
    name, mark = mark_of(bundle, kind)
    bundle.raw_hook(kind, {"path": probe, "args": ["probe", "touch", name]})
    live(c, bundle)
    c.expect(mark.exists(), f"the {kind} hook did not run")
