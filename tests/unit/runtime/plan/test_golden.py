"""Each case of tests/golden: the explained plan is the expected one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.explain import plan_document
from ociruntime.runtime.plan.plan import encode
from tests.support import golden


@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    assert golden.difference(case) == "", "see tools/update_golden.py"


@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.name)
def test_files_of_a_case(case: Path) -> None:
    name, _ = golden.expected(case)
    assert {path.name for path in case.iterdir()} == {"config.json", "facts.json", name}


@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.name)
def test_plan_fits_the_wire_and_json(case: Path) -> None:
    name, _ = golden.expected(case)
    if name == "error.txt":
        return
    plan = golden.plan_of(case)
    wire = encode(plan)
    assert int.from_bytes(wire[4:8], "little") == len(wire)
    assert json.loads(json.dumps(plan_document(plan)))["operations"]


def test_config_is_only_read() -> None:
    config = json.loads((golden.GOLDEN / "docker/config.json").read_text(encoding="utf-8"))
    before = json.dumps(config)
    compile_plan(config, golden.host_facts({"apparmor": "self/attr/exec"}), golden.request({}))
    assert json.dumps(config) == before


def test_there_are_cases() -> None:
    assert len(golden.CASES) >= 25
