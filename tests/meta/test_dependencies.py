"""Every dependency is declared with a range and explained; nothing else is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import project

SETTINGS = tomllib.loads((project.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (project.ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
EXTRAS: dict[str, list[str]] = SETTINGS["project"]["optional-dependencies"]
RUN_TIME: list[str] = SETTINGS["project"]["dependencies"]
# Where the name to import is not the name to install.
IMPORT_NAMES = {
    "grpcio-tools": "grpc",
    "pytest-timeout": "pytest_timeout",
}
PARTS = {"_cffi_backend": "cffi"}


def package(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return match[0]


def section(title: str) -> list[list[str]]:
    """Return the rows of the table below a heading."""
    text = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_run_time_page() -> None:
    declared: dict[str, set[str]] = {package(one): set() for one in RUN_TIME}
    for extra, requirements in EXTRAS.items():
        if extra == "dev":
            continue
        for name in map(package, requirements):
            if name != "ociruntime":
                declared.setdefault(name, set()).add(extra)
    explained = {
        name: set(extras.split(", ")) if extras else set()
        for name, extras, _ in section("At run time")
    }
    assert explained == declared


def test_development_page() -> None:
    explained = {row[0] for row in section("To develop (extra `dev`)")}
    assert explained == {package(one) for one in EXTRAS["dev"]}


def test_build_page() -> None:
    explained = {row[0] for row in section("To build")}
    assert {package(one) for one in SETTINGS["build-system"]["requires"]} <= explained


@pytest.mark.parametrize(
    "requirement",
    [
        *RUN_TIME,
        *(one for name, extra in EXTRAS.items() if name != "dev" for one in extra),
    ],
)
def test_ranges(requirement: str) -> None:
    own = requirement.startswith("ociruntime[")
    assert own or (">=" in requirement and ",<" in requirement)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module or "")
    first = {name.split(".")[0] for name in names}
    return {PARTS.get(name, name) for name in first}


def allowed_imports(path: Path) -> set[str]:
    shipped = path.is_relative_to(project.PACKAGE)
    declared = [*RUN_TIME]
    for extra, requirements in EXTRAS.items():
        if extra != "dev" or not shipped:
            declared += requirements
    if not shipped:
        declared += SETTINGS["build-system"]["requires"]
    allowed = {IMPORT_NAMES.get(name, name) for name in map(package, declared)}
    allowed |= set(sys.stdlib_module_names) | {"ociruntime"}
    if not shipped:
        # conftest.py's directory and the script's own
        allowed |= {"tests", "conformance", "bench", "tools"} | {
            one.stem for one in path.parent.iterdir()
        }
    return allowed


def test_imports_are_declared() -> None:
    undeclared = {
        project.name_of(path): names
        for path in project.with_suffix(".py")
        if (names := imported(path) - allowed_imports(path))
    }
    assert undeclared == {}
