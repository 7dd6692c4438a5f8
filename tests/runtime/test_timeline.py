"""``--timeline``: every operation of the plan with its time, and nothing without the option."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundle import Bundle
from tests.support.peers import judge_by
from tests.support.plugin import TAG, MakeBundle
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")


def events(file: Path, lane: int) -> list[dict[str, Any]]:
    found = json.loads(file.read_text())["traceEvents"]
    return [each for each in found if each["ph"] == "X" and each["tid"] == lane]


def planned(runtime: Runtime, made: Bundle) -> list[str]:
    text = runtime("plan", "--format", "json", str(made.path)).ok().out
    return [each["operation"] for each in json.loads(text)["operations"]]


def check_order(found: list[dict[str, Any]]) -> None:
    starts = [each["ts"] for each in found]
    assert starts == sorted(starts)
    assert all(each["dur"] >= 0 for each in found)


def test_create(runtime: Runtime, bundle: MakeBundle, work: Path) -> None:
    made, file = bundle().save(), work / "times.json"
    runtime("create", "--timeline", str(file), "--bundle", str(made.path), TAG).silent()
    runtime("delete", "--force", TAG).silent()
    operations, phases = events(file, 2), events(file, 1)
    for each in (operations, phases):
        check_order(each)
    names = planned(runtime, made)
    until = names.index("wait_start")
    assert [each["name"] for each in operations[1 : until + 1]] == names[:until]
    assert [each["args"]["number"] for each in operations[1:]] == list(range(1, len(operations)))
    for phase in ("start the interpreter", "read config.json", "compile the plan"):
        assert phase in [each["name"] for each in phases]
    assert "record the container" in [each["name"] for each in phases]


@pytest.mark.parametrize("namespace", ["time", "user"])
def test_run_goes_on_to_the_program(
    runtime: Runtime, bundle: MakeBundle, work: Path, namespace: str
) -> None:
    """Also if the init is a child of the executor, in another time namespace."""
    made, file = bundle().args("true"), work / "times.json"
    if namespace == "user":
        made.user_namespace()
    else:
        made.namespace("time")
        made.linux["timeOffsets"] = {"monotonic": {"secs": 100000}}
    made.save()
    runtime("run", "--timeline", str(file), "--bundle", str(made.path), TAG).silent()
    operations = events(file, 2)
    check_order(operations)
    assert [each["name"] for each in operations[1:]] == planned(runtime, made)
    assert operations[-1]["ts"] < 60_000_000, "microseconds"


def test_a_filter_does_not_meet_it(runtime: Runtime, bundle: MakeBundle, work: Path) -> None:
    """After the filter is loaded, the clock is not read: a filter could kill for it."""
    made, file = bundle().args("true"), work / "times.json"
    rule = {"names": ["clock_gettime"], "action": "SCMP_ACT_KILL_PROCESS"}
    made.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    made.save()
    runtime("run", "--timeline", str(file), "--bundle", str(made.path), TAG).silent()
    assert events(file, 2)[-1]["name"] == "seccomp"


def test_picture(runtime: Runtime, bundle: MakeBundle, work: Path) -> None:
    made, file = bundle().args("true").save(), work / "times.svg"
    runtime("run", "--timeline", str(file), "--bundle", str(made.path), TAG).silent()
    words = "".join(ET.parse(file).getroot().itertext())
    for each in ("pivot root", "compile the plan", "µs"):
        assert each in words


def test_a_create_that_fails(runtime: Runtime, bundle: MakeBundle, work: Path) -> None:
    """Up to the failed operation."""
    made, file = bundle().bind("/nowhere/at/all", "/data").save(), work / "times.json"
    command = ("create", "--timeline", str(file), "--bundle", str(made.path), TAG)
    runtime(*command).failed("/nowhere/at/all")
    assert events(file, 2)[-1]["name"] == "bind"
    assert events(file, 1)[-1]["name"] == "undo"


@pytest.mark.parametrize("name", ["times.png", "nowhere/times.svg"])
def test_refused_before_anything_is_made(
    runtime: Runtime, bundle: MakeBundle, work: Path, name: str
) -> None:
    made = bundle().save()
    file = str(work / name)
    runtime("create", "--timeline", file, "--bundle", str(made.path), TAG).failed("imeline", name)
    assert not runtime.root.exists() or not list(runtime.root.glob(f"*{TAG}*"))


def test_debug_tells_the_step(runtime: Runtime, bundle: MakeBundle) -> None:
    made = bundle().bind("/nowhere/at/all", "/data").save()
    told = runtime("--debug", "create", "--bundle", str(made.path), TAG).failed("failed: ").err
    names = planned(runtime, made)
    step = next(
        int(line.partition("failed: ")[2].split()[0])
        for line in told.splitlines()
        if "failed: " in line
    )
    assert names[step - 1] == "bind"
    assert f"operation {step} of {len(names)}" in told
    for words in ("done: ", "ociruntime plan --bundle", "strace -f", "mounts[6]"):
        assert words in told
