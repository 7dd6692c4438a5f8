"""Write the archive of compiled modules: ``build_archive.py DIRECTORY [--installed]``.

DIRECTORY is the package ociruntime, where the archive is written. With --installed the sources'
mtimes are omitted, because an installer changes them. The format is described in
ociruntime/startup/archive.py.
"""

from __future__ import annotations
import __future__

import ast
import marshal
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import TypeVar

NAME = "modules.bin"
WITHOUT_DOCSTRINGS = 2
FOR_ANNOTATIONS = ("typing", "collections.abc")
STRING_ANNOTATIONS = __future__.annotations.compiler_flag

# Modules (without "ociruntime.") that each command imports for a plain container.
NEEDED = {
    "create": """
        runtime.cli.main runtime.cli.create runtime.spec.check_shape runtime.spec.shape
        runtime.spec.validate_linux runtime.cgroups.resources runtime.cgroups.device_policy
        runtime.cgroups.device_enforcement runtime.host.seccomp_cache
    """,
    "exec": "runtime.cli.main runtime.cli.exec runtime.cgroups.group base.foreground",
    # For an image that is in the store; run is prepare with additions.
    "ocipod run": """
        pods.cli.main pods.cli.run_pods commandline.progress pods.operations.prepare
        pods.net.net_option
        pods.net.configuration pods.net.resolver images.store.store images.fetch
        images.model.settings images.unpack.tree_store pods.store.lock pods.store.manifest_file
        pods.bundle.overlay pods.bundle.private_mount_namespace pods.supervisor.supervise
        pods.bundle.write_bundle
    """,
    "ocipod monitor": "pods.cli.main pods.cli.monitor pods.supervisor.hibernated_state",
}
# Program that prints the names of these modules and of all that they import, in the order in which
# their execution completes: each after the modules that it imports.
ORDER = """
import sys
from importlib import import_module
from importlib.machinery import SourceFileLoader
sys.path.insert(0, sys.argv[1])
load, loaded = SourceFileLoader.exec_module, []
def record(loader, module):
    load(loader, module)
    loaded.append(module.__name__)
SourceFileLoader.exec_module = record
for name in sys.argv[2:]:
    import_module("ociruntime." + name)
print(*(name for name in loaded if name.partition(".")[0] == "ociruntime"))
"""


def needed_by(command: str, directory: Path) -> list[str]:
    """Return the names of all modules that the command needs, in the order to load them."""
    interpreter = [sys.executable, "-I", "-S", "-B", "-c", ORDER, str(directory.parent)]
    modules = NEEDED[command].split()
    done = subprocess.run([*interpreter, *modules], check=True, capture_output=True, text=True)
    return done.stdout.split()


def module_name(source: Path, directory: Path) -> str:
    """Return a source's module name, such as ``ociruntime.runtime.cli.main``."""
    parts = [directory.name, *source.relative_to(directory).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


Scope = TypeVar("Scope", ast.FunctionDef, ast.ClassDef)


class ForRunning(ast.NodeTransformer):
    """A transformer that removes code for type checkers: a tenth of the time to load a module.

    Annotations in classes stay, because dataclasses need them.
    """

    _is_in_class = False

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        return self._visit_body(node, is_class=False)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return self._visit_body(node, is_class=True)

    def _visit_body(self, node: Scope, *, is_class: bool) -> Scope:
        outside, self._is_in_class = self._is_in_class, is_class
        self.generic_visit(node)
        self._is_in_class = outside
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if self._is_in_class or node.value is None:
            return node
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Replace ``if TYPE_CHECKING:`` by its ``else`` branch."""
        self.generic_visit(node)
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse if is_typing else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        """Remove imports of ``__future__``, which a compiler flag replaces.

        At run time Python would search for that module's file.
        """
        return None if node.module == "__future__" else node

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Remove imports whose names only annotations used.

        ``collections.abc`` alone loads all of ``collections``: a twelfth of the snapshot's heap.
        """
        self.generic_visit(node)
        used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        return WithoutUnused(used).visit(node)  # type: ignore[no-any-return]


class WithoutUnused(ast.NodeTransformer):
    """A transformer that removes imports of typing modules, of names not in ``used``."""

    def __init__(self, used: set[str]) -> None:
        self.used = used

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if node.module not in FOR_ANNOTATIONS:
            return node
        node.names = [alias for alias in node.names if (alias.asname or alias.name) in self.used]
        return node if node.names else ast.copy_location(ast.Pass(), node)


def compile_module(source: bytes, shown: str) -> CodeType:
    """Compile a module; ``shown`` is its file's name in tracebacks."""
    code: CodeType = compile(
        ForRunning().visit(ast.parse(source)),
        shown,
        "exec",
        flags=STRING_ANNOTATIONS,
        dont_inherit=True,
        optimize=WITHOUT_DOCSTRINGS,
    )
    return code


def build(directory: Path, installed: bool) -> bytes:
    """Return the content of the archive of the package ``directory``."""
    codes: list[bytes] = []
    entries = {}
    for source in sorted(directory.rglob("*.py")):
        name = module_name(source, directory)
        shown = str(Path(directory.name) / source.relative_to(directory))
        code = compile_module(source.read_bytes(), shown)
        facts = source.stat()
        mtime = 0 if installed else int(facts.st_mtime)
        entries[name] = (source.name == "__init__.py", facts.st_size, mtime)
        codes.append(marshal.dumps(code))
    compiled = dict(zip(entries, codes, strict=True))
    for command in NEEDED:
        preload = [(name, marshal.loads(compiled[name])) for name in needed_by(command, directory)]
        entries[f":{command}"] = (False, 0, 0)
        codes.append(marshal.dumps(preload))
    # The offsets depend on the index's length, but not the reverse: marshal writes every int below
    # 2**31 in 5 bytes. So an index with wrong offsets has the right length.
    index = _index(entries, codes, 0)
    start = 24 + len(index)
    index = _index(entries, codes, start)
    head = MAGIC_NUMBER.ljust(16, b"\0") + len(index).to_bytes(8, "little")
    assert 24 + len(index) == start
    return head + index + b"".join(codes)


def _index(entries: dict[str, tuple[bool, int, int]], codes: list[bytes], start: int) -> bytes:
    index = {}
    for (name, (is_package, size, mtime)), code in zip(entries.items(), codes, strict=True):
        index[name] = (start, len(code), is_package, size, mtime)
        start += len(code)
    # Version 2 of marshal writes no references to equal objects, with which the length would vary.
    return marshal.dumps(index, 2)


def main() -> int:
    directory = Path(sys.argv[1]).resolve()
    target = directory / NAME
    temporary = target.with_suffix(".new")
    temporary.write_bytes(build(directory, "--installed" in sys.argv[2:]))
    temporary.rename(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
