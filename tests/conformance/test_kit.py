"""ociruntime under the conformance kit: met clauses stay met, deviations are listed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import deviations
from conformance.clauses import registry
from conformance.report import document
from conformance.report.run import Run
from conformance.runner.outcome import FAIL, PASS
from tests.support import project
from tests.support.plugin import runtime_path
from tests.support.runtime import kind_of
from tools.spec_coverage import FAILED, MEANINGS, OTHERWISE, TESTED, UNSHOWN

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]
PAGE = project.ROOT / "docs" / "spec-coverage.md"
# On another kind of host other clauses are skipped, and a listed one may be met.
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root")}


# The sections of the kit that the ordinary run tries; `./dev test --all` tries all of them.
SAMPLE = ("bundle_json::", "runtime_lifecycle::", "runtime_state::", "linux_cgroups_path::")


def _run(pytestconfig: pytest.Config, place: Path, *options: str) -> Run:
    """Run the kit on the runtime under test; skips if that is a peer."""
    path = runtime_path(pytestconfig)
    if os.geteuid() != 0 or path is None or kind_of(path) != "ociruntime":
        pytest.skip("needs root and ociruntime")
    result = place / "result.json"
    command = [sys.executable, "-m", "conformance", "--runtime", str(path), "--jobs", "2"]
    command += ["--report", f"json={result}", *options]
    done = subprocess.run(
        command, cwd=project.ROOT, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert result.exists(), done.stdout + done.stderr
    return document.load(result)


@pytest.fixture(scope="module")
def run(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All cases, which takes minutes."""
    return _run(pytestconfig, tmp_path_factory.mktemp("kit"))


def _changed(run: Run) -> list[str]:
    """Return the cases whose outcome is not as in conformance/expected, with their messages."""
    texts = {one.case: one.text for one in run.outcomes}
    return [f"{case} {how}: {texts[case]}".rstrip(": ") for (_, case), how in run.changed.items()]


def test_nothing_has_changed_in_a_sample(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    run = _run(pytestconfig, tmp_path, *(f"--filter={section}" for section in SAMPLE))
    assert len(run.outcomes) > 80
    assert _changed(run) == []


@pytest.mark.long
def test_nothing_has_changed(run: Run) -> None:
    """A new failure is a bug; a listed deviation that passes must be removed from the list."""
    assert run.runtimes[0].label in run.known, "no known deviations: conformance/expected"
    assert _changed(run) == []


@pytest.mark.long
def test_listed_cases_exist(run: Run) -> None:
    (known,) = run.known.values()
    assert known.keys() - {one.case for one in run.outcomes} == set()


@pytest.mark.long
def test_every_deviation_is_explained(run: Run) -> None:
    (known,) = run.known.values()
    bare = [one.case for one in known.values() if one.reason.startswith(deviations.UNEXPLAINED)]
    assert bare == []


@pytest.mark.long
def test_page_is_up_to_date(run: Run) -> None:
    """docs/spec-coverage.md has each clause, and does not call one met that fails here."""
    state = "|".join(MEANINGS)
    rows = re.findall(rf"^\| ([A-Za-z0-9-]+): .*? \| \[?({state})[\]: ]", text(PAGE), re.M)
    states = dict(rows)
    assert states.keys() == registry().keys(), "run ./dev conformance"
    (verdicts,) = run.verdicts.values()
    wrong = [
        f"{id}: {verdict.status}, but {states[id]} on the page"
        for id, verdict in verdicts.items()
        # What fails on another host may pass here, but not the other way round.
        if (verdict.status == FAIL and states[id] not in {FAILED, OTHERWISE})
        or (verdict.status == PASS and states[id] in {TESTED, UNSHOWN})
    ]
    assert wrong == [], "run ./dev conformance"


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
