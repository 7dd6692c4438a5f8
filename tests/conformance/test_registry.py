"""The registry is complete: each clause has a case, or a reason why it cannot have one."""

from __future__ import annotations

import tomllib
from collections import Counter

from conformance import deviations
from conformance.case import discover
from conformance.clauses import LEVELS, registry, version_key
from tests.support import project

EXPECTED = sorted(deviations.DIRECTORY.glob("*-[0-9]*.toml"))  # NAME-VERSION


def test_each_clause_has_a_case_or_a_reason() -> None:
    shown = {id for one in discover() for id in one.clauses}
    bare = [id for id, one in registry().items() if id not in shown and not one.reason]
    assert bare == []


def test_no_case_for_what_cannot_be_observed() -> None:
    shown = {id for one in discover() for id in one.clauses}
    assert [id for id in shown if registry()[id].reason] == []


def test_entries() -> None:
    for id, one in registry().items():
        assert one.level in LEVELS, id
        assert one.source.partition("#")[0].endswith(".md"), id
        assert (1, 0, 0) <= version_key(one.since) <= (1, 3, 0), id
        assert one.text == one.text.strip(), id
        assert not one.text.endswith("."), id


def test_sizes_of_the_registry() -> None:
    with (project.ROOT / "conformance" / "clauses.toml").open("rb") as file:
        assert len(tomllib.load(file)) == len(registry()) >= 401


def test_case_names_are_unique() -> None:
    names = Counter(one.path for one in discover())
    assert [name for name, count in names.items() if count > 1] == []


def test_expected_files_name_cases_and_clauses() -> None:
    cases = {one.path: one for one in discover()}
    assert EXPECTED
    for file in EXPECTED:
        for name, deviation in deviations.load(file).items():
            assert name in cases, file.name
            assert set(deviation.clauses) == set(cases[name].clauses), f"{file.name}: {name}"


def test_a_clause_belongs_to_a_case_only_once() -> None:
    twice = [one.path for one in discover() if len(set(one.clauses)) < len(one.clauses)]
    assert twice == []
