"""``list``: a table for people, JSON for programs, ids for scripts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeContainer
from tests.support.runtime import Runtime

WORDS = "has words of its own"


@deviates(crun=WORDS)
def test_empty(runtime: Runtime, work: Path) -> None:
    there = Runtime(runtime.path, work)
    assert there("list").ok().out.split() == ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
    assert json.loads(there("list", "--format", "json").ok().out) in ([], None)
    assert there("list", "-q").ok().out == ""


@deviates(crun=WORDS)
def test_table(container: MakeContainer, runtime: Runtime) -> None:
    first, second = container().created(), container().started()
    rows = [line.split() for line in runtime("list").ok().out.splitlines()]
    assert rows[0] == ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
    found = {row[0]: row for row in rows[1:]}
    for one, status in ((first, "created"), (second, "running")):
        row = found[one.id]
        assert row[1:4] == [str(one.pid), status, str(one.bundle.path)]
        assert row[4] == one.state()["created"]
        assert row[5] == "root"


@deviates(crun=WORDS)
def test_json(container: MakeContainer, runtime: Runtime) -> None:
    one = container().created()
    (entry,) = json.loads(runtime("list", "--format=json").ok().out)
    state = one.state()
    for key in ("id", "pid", "status", "bundle", "created", "ociVersion"):
        assert entry[key] == state[key], key
    assert entry["rootfs"] == str(one.bundle.rootfs)
    assert entry["owner"] == "root"


def test_quiet(container: MakeContainer, runtime: Runtime) -> None:
    ids = sorted(one.id for one in (container().created(), container().created()))
    assert sorted(runtime("list", "-q").ok().out.split()) == ids
    assert sorted(runtime("list", "--quiet").ok().out.split()) == ids


def test_stopped(container: MakeContainer, runtime: Runtime) -> None:
    one = container().started()
    one.kill("KILL").silent()
    one.wait()
    (entry,) = json.loads(runtime("list", "-f", "json").ok().out)
    assert (entry["status"], entry["pid"]) == ("stopped", 0)


def test_unknown_format(runtime: Runtime) -> None:
    assert runtime("list", "--format", "xml").status == 1


@deviates(crun="fails")
def test_broken_entry_does_not_hide_the_others(container: MakeContainer, runtime: Runtime) -> None:
    one = container().created()
    junk = runtime.root / "junk"
    junk.mkdir()
    (junk / "state.json").write_text("{")
    try:
        result = runtime("list", "-q")
        assert result.status == 0
        assert one.id in result.out.split()
    finally:
        (junk / "state.json").unlink()
        junk.rmdir()


@judge_by("ociruntime")
def test_broken_entry_is_named(runtime: Runtime) -> None:
    junk = runtime.root / "junk"
    junk.mkdir(parents=True)
    (junk / "state.json").write_text("{")
    try:
        warned = runtime("list").ok()
        assert warned.out.count("\n") == 1
        assert "junk" in warned.err
        quiet = Runtime(runtime.path, runtime.root, "--log-level=error")
        assert quiet("list").ok().err == ""
    finally:
        (junk / "state.json").unlink()
        junk.rmdir()
