"""Files of known deviations: write, read and update them without losing a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import deviations
from conformance.deviations import Deviation
from conformance.driver import Runtime, identify, tell_apart
from conformance.runner.outcome import FAIL, PASS, SKIP, Outcome


def outcome(case: str, status: str, message: str = "") -> Outcome:
    return Outcome("one 1.0", case, ("CFG-HOST-01",), status, message)


def deviation(
    case: str, reason: str = "why", sometimes: bool = False, on: tuple[str, ...] = ()
) -> Deviation:
    return Deviation(case, ("CFG-HOST-01",), reason, sometimes, on)


def test_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    listed = [
        deviation('a::b["x\\]', 'a "quoted"\ttab'),
        deviation("c::d", sometimes=True, on=("v2", "user")),
    ]
    file.write_text(deviations.dump("one 1.0", listed))
    assert list(deviations.load(file).values()) == listed


def test_update_keeps_reasons() -> None:
    known = {name: deviation(name) for name in ("kept", "fixed", "skipped", "not-run")}
    known["odd"] = deviation("odd", sometimes=True)
    outcomes = [
        outcome("kept", FAIL, "now otherwise"),
        outcome("fixed", PASS),
        outcome("skipped", SKIP),
        outcome("odd", PASS),
        outcome("new", FAIL, "in /tmp/oci-abc_/oc12abx7/x at 2026-01-02T03:04:05Z"),
    ]
    found = {one.case: one.reason for one in deviations.updated(outcomes, known, "v1")}
    assert found.keys() == {"kept", "fixed", "skipped", "not-run", "odd", "new"}
    assert found["kept"] == "why"
    assert found["new"] == "unexplained: in ID/x at TIME"


def test_update_is_about_one_kind_of_host() -> None:
    known = {
        "everywhere": deviation("everywhere"),
        "here": deviation("here", on=("v2",)),
        "here-too": deviation("here-too", on=("v1", "v2")),
        "there": deviation("there", on=("v1",)),
    }
    outcomes = [outcome("new", FAIL, "x"), outcome("there", FAIL, "x")]
    outcomes += [outcome(name, PASS) for name in ("everywhere", "here", "here-too")]
    found = {one.case: one.on for one in deviations.updated(outcomes, known, "v2")}
    assert found == {
        "everywhere": ("v1", "systemd", "user"),
        "here-too": ("v1",),
        "there": ("v1", "v2"),
        "new": ("v2",),
    }


def test_expectations_of_a_kind_of_host() -> None:
    known = {name: deviation(name, on=on) for name, on in (("a", ()), ("b", ("v2",)))}
    assert deviations.seen_on(known, "v1").keys() == {"a"}
    assert deviations.seen_on(known, "v2").keys() == {"a", "b"}


def test_incomplete_file(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('["a::b"]\nclauses = ["X"]\n')
    with pytest.raises(ValueError, match=r"x\.toml: a::b"):
        deviations.load(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text('["a::b"]\nclauses = ["X"]\nreason = "y"\non = ["v3"]\n')
    with pytest.raises(ValueError, match="on: unknown kind of host in v3"):
        deviations.load(tmp_path / "x.toml")


def test_names_of_files() -> None:
    runtime = identify(Path("/x"), "runc version 1.1.5+ds1\ncommit: x")
    assert deviations.file_for(runtime).name == "runc-1.1.5.toml"


def test_builds_of_one_version_are_told_apart() -> None:
    one, other, third = (
        Runtime(Path(path), "runc", version)
        for path, version in (("/a/runc", "1.1.5"), ("/b/runc", "1.1.5"), ("/c/runc", "1.2.0"))
    )
    told = tell_apart([one, other, third, one])
    assert [each.label for each in told] == [
        "runc 1.1.5 (/a/runc)",
        "runc 1.1.5 (/b/runc)",
        "runc 1.2.0",
        "runc 1.1.5 (/a/runc #2)",
    ]
    assert {deviations.file_for(each).name for each in told} == {
        "runc-1.1.5.toml",
        "runc-1.2.0.toml",
    }
    assert [each.label for each in tell_apart([one, third])] == ["runc 1.1.5", "runc 1.2.0"]


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("1.1.5", "1.1.5"),
        ("1.1.6", "1.1.5"),
        ("1.1.12", "1.1.10"),
        ("1.2.0", "1.1.10"),
        ("1.3.1", "1.3"),
        ("2.0", "1.3"),
        ("unknown", "1.3"),
    ],
)
def test_the_nearest_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, nearest: str
) -> None:
    monkeypatch.setattr(deviations, "DIRECTORY", tmp_path)
    for name in ("runc-1.1.5", "runc-1.1.10", "runc-1.3", "runc-x-9.9", "crun-1.2.0"):
        (tmp_path / f"{name}.toml").touch()
    found = deviations.nearest(Runtime(Path("/x"), "runc", version))
    assert found == tmp_path / f"runc-{nearest}.toml"
    assert deviations.nearest(Runtime(Path("/x"), "youki", version)) is None
