"""docs/spec-coverage.md names only existing clauses, cases and tests."""

from __future__ import annotations

import ast
import re

from conformance.case import discover
from conformance.clauses import registry
from tests.support import project
from tools import spec_coverage

PAGE = (project.ROOT / "docs" / "spec-coverage.md").read_text(encoding="utf-8")
LINK = re.compile(r"\[([a-z ]+)\]\([^)]*\)")
ROWS = [LINK.sub(r"\1", line) for line in PAGE.splitlines() if re.match(r"\| [A-Z]+-", line)]


def test_every_clause_has_its_row() -> None:
    wanted = [
        f"{one.id}: {' '.join(one.text.split())}".replace("|", "\\|").replace("<", "&lt;")
        for one in registry().values()
    ]
    assert [re.split(r"(?<!\\)\|", row)[1].strip() for row in ROWS] == wanted


def test_every_state_is_explained() -> None:
    states = {re.split(r"(?<!\\)\|", row)[3].strip().partition(":")[0] for row in ROWS}
    assert states <= spec_coverage.MEANINGS.keys()


def test_cases_of_the_page_exist() -> None:
    known = {one.path for one in discover()}
    named = set(re.findall(r"`(\w+::[^`]+)`", "\n".join(ROWS)))
    assert named
    assert named - known == set()


def test_tests_for_what_no_host_shows() -> None:
    """The tests and their clauses exist."""
    for clause, apart in spec_coverage.tested_apart().items():
        assert clause in registry()
        assert apart.why
        assert apart.tests, clause
        for test in apart.tests:
            file, _, name = test.partition("::")
            tree = ast.parse((project.ROOT / file).read_text(encoding="utf-8"))
            functions = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
            assert name in functions, test
