"""The layers: who may import whom, no circles, nothing happens in ``__init__.py``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

import ociruntime
import ociruntime.api
from tests.support import project

BASE = {"errors", "linux", "log", "paths", "programs", "trusted"}
ALLOWED: dict[str, set[str]] = {
    "ociruntime": {"api"},
    "errors": set(),
    "linux": set(),
    "log": {"errors", "trusted"},
    "paths": set(),
    "programs": {"errors", "trusted"},
    "trusted": {"errors"},
    "spec": BASE,
    "plan": BASE | {"spec"},
    "executor": BASE | {"spec", "plan", "_shim"},
    "cgroups": BASE | {"spec", "_shim"},
    "host": BASE | {"spec", "_shim", "_seccomp"},
    "handlers": BASE | {"spec"},
    "runtime": BASE | {"spec", "plan", "executor", "host", "cgroups", "handlers"},
    "doctor": BASE | {"spec", "plan", "executor", "host", "cgroups", "runtime", "_shim"},
    "snapshot_programs": set(),
    "snapshot": {"errors", "trusted", "host", "snapshot_programs"},
    "snapshot_process": {"archive", "snapshot", "snapshot_programs", "_shim"},
    "cli": BASE | {"spec", "runtime", "doctor", "snapshot", "snapshot_programs"},
    "api": BASE | {"runtime", "host"},
    "fault": set(),
    "image": BASE | {"fault", "_shim"},
    "net": BASE | {"fault", "host", "_shim"},
    "monitor": BASE | {"fault", "host", "_shim"},
    "pod": BASE | {"fault", "host", "image", "net", "monitor", "_shim"},
    "ocipod": BASE
    | {"fault", "host", "image", "net", "monitor", "pod", "cli", "archive", "snapshot"},
    "manager": BASE | {"fault", "host", "monitor", "pod", "_shim"},
    "ocid": BASE | {"manager", "host", "cli", "archive", "snapshot"},
    "ocictl": BASE | {"cli", "host", "archive", "snapshot"},
    "archive": set(),
    "__main__": {"archive", "cli"},
}
# Plain values that pass between layers which otherwise do not know each other.
VALUES = {
    "ociruntime.plan.codec",
    "ociruntime.plan.facts",
    "ociruntime.plan.operations",
    "ociruntime.plan.ops",
    "ociruntime.plan.plan",
    "ociruntime.spec.json_text",
}
# The types of documents; at run time they would bring the typing module.
TYPES_ONLY = {"ociruntime.spec.document"}

MODULES = {
    project.module_name(path): path
    for path in project.with_suffix(".py")
    if path.is_relative_to(project.PACKAGE)
}


class Import:
    """``name``: the module or the member imported; ``typing``: only the type checker sees it."""

    def __init__(self, name: str, line: int, typing: bool) -> None:
        self.name = name
        self.line = line
        self.typing = typing

    @property
    def module(self) -> str:
        """The project's module that is meant: ``from a.b import c`` may mean ``a.b.c``."""
        return self.name if self.name in MODULES else self.name.rpartition(".")[0]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(node: ast.AST, typing: bool = False) -> Iterator[Import]:
    """All below ``node``, also in functions; relative ones are refused by a lint rule."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, typing)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                yield Import(f"{child.module}.{alias.name}", child.lineno, typing)
        else:
            yield from imports(child, typing or is_type_checking(child))


def own_imports(module: str) -> list[Import]:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return [found for found in imports(tree) if found.name.split(".")[0] == "ociruntime"]


def layer(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "ociruntime"


def test_arrows_point_down() -> None:
    assert {layer(module) for module in MODULES} == ALLOWED.keys(), "a layer is in no drawing"
    wrong = [
        f"{module}, line {found.line}: {layer(module)} must not import {found.name}"
        for module in MODULES
        for found in own_imports(module)
        if layer(found.name) not in ALLOWED[layer(module)] | {layer(module), "__version__"}
        and found.module not in VALUES
    ]
    assert wrong == []


def test_values_know_no_layer() -> None:
    """What passes between layers may not bring one of them along."""
    for module in VALUES & MODULES.keys():
        for found in own_imports(module):
            allowed = layer(found.name) in BASE or found.module in VALUES or found.typing
            assert allowed, f"{module} imports {found.name}"


def test_document_types_stay_out_of_the_run_time() -> None:
    wrong = [
        f"{module}, line {found.line}"
        for module in MODULES
        for found in own_imports(module)
        if found.module in TYPES_ONLY and not found.typing
    ]
    assert wrong == []


def test_no_circles() -> None:
    graph = {
        module: {found.module for found in own_imports(module) if not found.typing} - {module}
        for module in MODULES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail("imports go round: " + " -> ".join(circle.args[1]))


def test_package_files_hold_no_logic() -> None:
    for path in MODULES.values():
        if path.name != "__init__.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{path}: one sentence says what the package is"
        if path.parent != project.PACKAGE:
            assert tree.body[1:] == [], path


def test_the_package_itself_only_names_what_others_may_use() -> None:
    """Every command loads it: the names come from api.py when they are asked for."""
    tree = ast.parse((project.PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    assert [type(node) for node in tree.body if not isinstance(node, ast.Assign)] == [
        ast.Expr,
        ast.If,
    ]
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert functions == ["__getattr__"]
    typed = [found.name.rpartition(".") for found in imports(tree) if found.typing]
    assert typed.pop() == ("ociruntime.api", ".", "__dict__")
    assert [name for _, _, name in typed] == ociruntime.__all__ == ociruntime.api.__all__


def test_a_wrong_arrow_is_seen() -> None:
    tree = ast.parse("if TYPE_CHECKING:\n    import a.b\ndef f():\n    from c import d\n")
    assert [(one.name, one.line, one.typing) for one in imports(tree)] == [
        ("a.b", 2, True),
        ("c.d", 4, False),
    ]
