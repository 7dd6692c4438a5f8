"""The numbers, tables and scorecard made from records."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from tests.fuzz import tried
from tests.soak import contention, invalid_configs, kernel_counters, score, scorecard, summary
from tests.soak.alive import percentile
from tests.soak.history import STATE, Operation
from tests.soak.journal import Journal
from tests.soak.scorecard import NOT_MEASURED, ROWS, Score, Sources

NOTHING = Sources({}, {}, {}, {}, {})
BURST = {"count": 2, "walls": [1, 2], "elapsed": 3, "cpus": [1], "failed": 0, "problems": []}
READING = {"own descriptors": 9, "dentries": 5000, "memory available (KiB)": 1000}


def test_percentile() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1)) == (
        50,
        99,
        100,
    )
    assert percentile([7.0], 0.01) == 7


def test_overlapping() -> None:
    times = [(0, 10), (2, 3), (4, 5), (11, 12), (12, 13), (20, 22), (21, 30)]
    operations = [Operation(0, STATE, began, ended, "x") for began, ended in times]
    assert contention.overlapping(operations) == 5


def readings(growth: float, lives: int = 2000) -> list[tuple[int, kernel_counters.Reading]]:
    """Return eight readings in which the dentries grow by that much per life, with noise."""
    found = []
    for number in range(8):
        done = lives * number // 7
        noise = 300 if number % 2 else 0
        found.append((done, {**READING, "dentries": 5000 + int(done * growth) + noise}))
    return found


def test_growth_is_seen_through_noise() -> None:
    assert kernel_counters.leaks_of([readings(0)]) == []
    assert "dentries: " in "".join(kernel_counters.leaks_of([readings(1)]))


def test_a_leak_grows_in_every_session() -> None:
    assert kernel_counters.leaks_of([readings(1), readings(0)]) == []
    assert kernel_counters.leaks_of([readings(1), readings(2)]) != []
    assert kernel_counters.leaks_of([readings(1), readings(0, 100)]) != []


def test_few_lives_show_nothing_of_the_machine() -> None:
    few = readings(1, 100)
    assert kernel_counters.leaks_of([few]) == []
    few[-1][1]["own descriptors"] += 100
    few[-2][1]["own descriptors"] += 100
    assert "own descriptors" in "".join(kernel_counters.leaks_of([few]))


def test_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "work")
    journal.add("lives", "runc", {"count": 3})
    journal.add("lives", "crun", {"count": 4})
    journal.add("lives", "runc", {"count": 5})
    again = Journal(tmp_path / "work")
    assert again.done("lives", "runc") == 8
    assert again.runtimes("lives") == ["runc", "crun"]
    assert again.records("burst") == []


def test_sessions_are_not_mixed(tmp_path: Path) -> None:
    """After a restart of the machine, the counters have other values."""
    journal = Journal(tmp_path)
    for session, start in (("1", 5000), ("2", 90_000)):
        for _ in range(4):
            reading = {**READING, "dentries": start}
            record = {"session": session, "count": 500, "reading": reading, "problems": []}
            journal.add("lives", "ociruntime", record)
    found = summary.summarize(journal)["lives"]["ociruntime"]
    assert (found["count"], found["in_a_row"], found["problems"]) == (4000, 2000, [])
    assert "4000" in summary.tables({"lives": {"ociruntime": found}})


def test_nothing_was_measured() -> None:
    table = scorecard.table({}).splitlines()
    assert scorecard.scores(NOTHING, {}) == {}
    assert len(table) == len(ROWS) + 2
    assert all(
        f"| {NOT_MEASURED} | {NOT_MEASURED} | {NOT_MEASURED} | no |" in row for row in table[2:]
    )


def soak(seconds: int, *problems: str) -> dict[str, dict[str, dict[str, Any]]]:
    one = {"seconds": seconds, "operations": 9, "hangs": 0, "problems": list(problems)}
    return {"contention": {"ociruntime": one}}


def test_a_row_is_met() -> None:
    """Only with the required count and no deviation."""
    rows = {
        True: soak(60),
        False: soak(59),
        None: soak(60, "not linearizable"),
    }
    for expected, each in rows.items():
        sources = dataclasses.replace(NOTHING, soak=each)
        line = line_of("R7", scorecard.scores(sources, {}))
        assert line.endswith("| yes |" if expected else "| no |")


def line_of(row: str, found: scorecard.Scores) -> str:
    return next(line for line in scorecard.table(found).splitlines() if f"| {row} |" in line)


def test_a_recorded_score_stays_until_as_much_was_measured() -> None:
    recorded = {"R7": {"ociruntime": Score(60, 0, "long ago"), "runc": Score(60, 183)}}
    for seconds, problem, expected in (
        (30, (), Score(60, 0, "long ago")),
        (60, (), Score(60, 0, "9 commands, 0 hang")),
        (30, ("left",), Score(30, 1, "9 commands, 0 hang")),
    ):
        sources = dataclasses.replace(NOTHING, soak=soak(seconds, *problem))
        found = scorecard.scores(sources, scorecard.from_json(scorecard.to_json(recorded)))
        assert found["R7"] == {"ociruntime": expected, "runc": Score(60, 183)}
    assert scorecard.scores(NOTHING, recorded) == recorded


def test_results_of_a_soak_without_its_records(tmp_path: Path) -> None:
    """The document that ./dev soak has made on another machine is enough."""
    (tmp_path / "soak").mkdir()
    (tmp_path / "soak" / "results.json").write_text(json.dumps(soak(60)))
    assert score.gather({}, tmp_path).soak == soak(60)
    Journal(tmp_path / "soak").add("burst", "runc", BURST)
    assert list(score.gather({}, tmp_path).soak) == ["burst"]


def test_scores_of_fuzzing_and_coverage(tmp_path: Path) -> None:
    assert score.gather({}, tmp_path).fuzzed == {}
    work = tmp_path / "fuzz"
    work.mkdir()
    for name, runs in (("plan", 7), ("plan", 3), ("walk", 5), ("argv", 90), ("go", 1)):
        tried.record(name, runs, ["crash-1"] if name == "argv" else [], work)
    (tmp_path / "bundles").mkdir()
    record = {"tried": 9, "created": 4, "failed": 0}
    (tmp_path / "bundles" / "runs.jsonl").write_text(f"{json.dumps(record)}\n" * 2)
    (tmp_path / "coverage").mkdir()
    count = {"lines": 10, "lines_reached": 9, "branches": 1000, "branches_reached": 899}
    coverage = {"tests": [{"folder": "unit", "whole": True}], "files": {}, "all": count}
    (tmp_path / "coverage" / "results.json").write_text(json.dumps(coverage))
    found = scorecard.scores(score.gather({}, tmp_path), {})
    assert found["F1"]["ociruntime"] == Score(90, 1, "argv 90")
    assert found["F2"]["ociruntime"] == Score(15, 0, "plan 10, walk 5")
    assert found["F3"]["ociruntime"] == Score(18, 0, "8 of them became containers")
    assert found["Q1"]["ociruntime"].count == 89
    assert "| 89 %; 899 of 1000, by the tests of unit |" in line_of("Q1", found)
    assert line_of("Q1", found).endswith("| no |")


def test_scores_where_calls_are_missing(tmp_path: Path) -> None:
    """A set that was not run, or a test that failed, leaves the row unmet."""
    assert score.old_kernels(tmp_path) == {}
    work = tmp_path / "old-kernel"
    work.mkdir()
    passed = "<testcase/>" * 2000 + '<testcase><skipped type="pytest.skip"/></testcase>'
    rows = []
    for name in score.OLD_KERNELS:
        (work / f"{name}.xml").write_text(f"<testsuites>{passed}</testsuites>")
        rows.append(line_of("S4", scorecard.scores(score.gather({}, tmp_path), {})))
    assert [row.endswith("| yes |") for row in rows] == [False] * 13 + [True]
    assert "| 14: no deviations; openat2-ENOSYS 2000 tests, openat2-EPERM 2000" in rows[-1]
    failed = f"<testsuites>{passed}<testcase><failure/></testcase></testsuites>"
    (work / "all-EPERM.xml").write_text(failed)
    row = line_of("S4", scorecard.scores(score.gather({}, tmp_path), {}))
    assert "| 14: 1 deviation;" in row
    assert row.endswith("| no |")


def test_runs_of_a_fuzzer() -> None:
    log = "INFO: Seed: 1\n#2\tINITED\n#1024\tpulse\n"
    assert tried.executions(log) == 1024
    assert tried.executions(f"{log}Done 2000 runs in 3 second(s)\n") == 2000
    assert tried.executions("killed\n") == 0


def test_scores_of_the_sweep() -> None:
    page = "| create | kill | 10 | 1 | 0 |\n| run | kill | 5 | 0 | 2 |\n| all | | 15 | 1 | 2 |\n"
    assert scorecard.of_page(page) == {"kill": (15, 2)}
    sweep: dict[str, list[dict[str, Any]]] = {
        "kill": [
            {"action": "kill command 0 1", "boundary": "0#1 open", "problems": []},
            {"action": "kill caller 0.1 1", "boundary": "0.1#1 open", "problems": ["left"]},
            {"action": "kill caller 0.1 9", "boundary": None, "problems": []},
        ]
    }
    measured = dataclasses.replace(NOTHING, sweep=sweep)
    assert scorecard.swept("kill")(measured, "ociruntime") == Score(2, 1)
    assert scorecard.swept("kill", others=True)(measured, "ociruntime") == Score(1, 1)
    assert scorecard.swept("kill")(measured, "runc") is None
    larger = dataclasses.replace(measured, swept={"kill": (15, 2)})
    assert scorecard.swept("kill")(larger, "ociruntime") == Score(15, 2)


def test_counts_of_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite><testcase/><testcase><failure/></testcase>"
        '<testcase><skipped type="pytest.skip"/></testcase>'
        '<testcase><skipped type="pytest.xfail"/></testcase></testsuite></testsuites>'
    )
    assert score.counts(report) == {"count": 3, "deviations": 2}


def test_invalid_configs() -> None:
    document = {"process": {"args": ["sh"], "terminal": False}}
    changes = invalid_configs.invalid(document, 1000)
    assert (("process", "terminal"), 7) in changes
    assert (("process", "args", 0), True) in changes
    assert all(
        invalid_configs.changed(document, path, value) != document for path, value in changes
    )
    assert invalid_configs.name_of(("process", "args", 0)) == "args"
    assert document == {"process": {"args": ["sh"], "terminal": False}}
