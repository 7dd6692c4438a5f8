"""The layers: allowed imports, no cycles, nothing executed in ``__init__.py``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

import ociruntime
import ociruntime.runtime.api
from tests.support import project
from tools.build_archive import ForRunning

# A room here is a package (a folder of modules); those of the four products contain others.
PRODUCTS = ("runtime", "images", "pods", "manager")
BASE = {"base", "_system_calls"}
RUNTIME_HOST = BASE | {"runtime.spec", "_seccomp"}
IMAGES = {"images.model", "images.tar", "images.unpack", "images.store"}
PODS = BASE | {"pods.net", "pods.loop", "pods.store", "pods.manifest", "pods.bundle"}
PROGRAM = BASE | {"commandline", "startup"}
# Package -> the packages that its modules may import, besides itself; each is above those.
ALLOWED: dict[str, set[str]] = {
    "ociruntime": {"runtime"},
    "base": {"_system_calls"},
    "startup": BASE,
    "commandline": BASE,
    "runtime.spec": BASE,
    "runtime.plan": BASE | {"runtime.spec"},
    "runtime.executor": BASE | {"runtime.spec", "runtime.plan"},
    "runtime.cgroups": BASE | {"runtime.spec"},
    "runtime.host": RUNTIME_HOST,
    "runtime.handlers": BASE | {"runtime.spec"},
    "runtime.lifecycle": RUNTIME_HOST
    | {f"runtime.{room}" for room in ("plan", "executor", "host", "cgroups", "handlers")},
    "runtime.engines": BASE | {"runtime.executor"},
    "runtime.check": RUNTIME_HOST
    | {f"runtime.{room}" for room in ("plan", "executor", "host", "cgroups", "lifecycle")}
    | {"runtime.engines"},
    "runtime.cli": PROGRAM
    | {"runtime.spec", "runtime.lifecycle", "runtime.check", "runtime.engines"},
    "runtime": BASE | {"runtime.lifecycle", "runtime.host"},
    "images.model": BASE,
    "images.tar": BASE | {"images.model"},
    "images.unpack": BASE | {"images.model", "images.tar"},
    "images.store": BASE | IMAGES - {"images.store"},
    "images.registry": BASE | {"images.model", "images.store"},
    "images.trust": BASE | {"images.model", "images.store", "images.registry"},
    "images.formats": BASE | IMAGES | {"images.trust"},
    "images": BASE | IMAGES | {"images.registry", "images.trust", "images.formats"},
    "pods.net": BASE,
    "pods.loop": BASE,
    "pods.store": BASE | {"pods.loop"},
    "pods.manifest": BASE | {"commandline", "pods.net"},
    "pods.bundle": PODS - {"pods.bundle"},
    "pods.garbage": PODS,
    "pods.kvm": PODS | {"pods.garbage", "commandline"},
    "pods.operations": PODS | IMAGES | {"images", "pods.kvm", "commandline"},
    "pods.monitor": PODS | {"pods.kvm", "commandline"},
    "pods.cli": PROGRAM
    | PODS
    | IMAGES
    | {"images", "images.registry", "images.trust", "images.formats"}
    | {"pods.garbage", "pods.kvm", "pods.operations", "pods.monitor"},
    "pods": set(),
    "manager.containers": PODS | IMAGES | {"commandline", "images"},
    "manager.api": PODS | {"manager.containers"},
    "manager.client": PROGRAM,
    "manager.daemon": PROGRAM | {"manager.api", "manager.containers"},
    "manager": set(),
    "__main__": {"startup", "runtime.cli"},
}
# Plain values that pass between layers which otherwise do not know each other.
VALUES = {
    "ociruntime.runtime.plan.plan",
    "ociruntime.runtime.plan.facts",
    "ociruntime.runtime.plan.operation_constructors",
    "ociruntime.runtime.plan.operation_table",
    "ociruntime.base.json_text",
}
# The types of documents; at run time they would bring the typing module.
TYPES_ONLY = {"ociruntime.runtime.spec.config_types"}

MODULES = {
    project.module_name(path): path
    for path in project.with_suffix(".py")
    if path.is_relative_to(project.PACKAGE)
}


class Import:
    """An import: ``name`` is the module or member; ``typing``: only the type checker sees it."""

    def __init__(self, name: str, line: int, typing: bool) -> None:
        self.name = name
        self.line = line
        self.typing = typing

    @property
    def module(self) -> str:
        """Return the project's module: ``from a.b import c`` may mean ``a.b.c``."""
        return self.name if self.name in MODULES else self.name.rpartition(".")[0]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(node: ast.AST, typing: bool = False) -> Iterator[Import]:
    """Yield all imports below ``node``, also in functions; a lint rule refuses relative ones."""
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
    """Return the package of a module or one of its members."""
    parts = name.split(".")[1:]
    if len(parts) > 1 and parts[0] in PRODUCTS and is_room(".".join(parts[:2])):
        return ".".join(parts[:2])
    return parts[0] if parts else "ociruntime"


def is_room(name: str) -> bool:
    path = MODULES.get(f"ociruntime.{name}")
    return path is not None and path.name == "__init__.py"


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


def test_rooms_stand_above_one_another() -> None:
    """Packages that import each other, even indirectly, would be a cycle."""
    TopologicalSorter(ALLOWED).prepare()


def test_values_know_no_layer() -> None:
    """Types that are passed between layers must not import a layer."""
    for module in VALUES & MODULES.keys():
        for found in own_imports(module):
            allowed = layer(found.name) == "base" or found.module in VALUES or found.typing
            assert allowed, f"{module} imports {found.name}"


def test_document_types_stay_out_of_the_run_time() -> None:
    """The archive's compiler removes imports used only by annotations."""
    for module, path in MODULES.items():
        compiled = ForRunning().visit(ast.parse(path.read_text(encoding="utf-8")))
        assert {found.module for found in imports(compiled)} & TYPES_ONLY == set(), module


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
    """Every command loads it: names are imported from api.py on first use."""
    tree = ast.parse((project.PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    assert [type(node) for node in tree.body if not isinstance(node, ast.Assign)] == [
        ast.Expr,
        ast.If,
    ]
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert functions == ["__getattr__"]
    typed = [found.name.rpartition(".") for found in imports(tree) if found.typing]
    assert typed.pop() == ("ociruntime.runtime.api", ".", "__dict__")
    assert [name for _, _, name in typed] == ociruntime.__all__ == ociruntime.runtime.api.__all__


def test_a_wrong_arrow_is_seen() -> None:
    tree = ast.parse("if TYPE_CHECKING:\n    import a.b\ndef f():\n    from c import d\n")
    assert [(one.name, one.line, one.typing) for one in imports(tree)] == [
        ("a.b", 2, True),
        ("c.d", 4, False),
    ]
