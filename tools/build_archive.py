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
from collections.abc import Iterable
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import TypeVar

NAME = "modules.bin"
WITHOUT_DOCSTRINGS = 2
STRING_ANNOTATIONS = __future__.annotations.compiler_flag

# Modules (without "ociruntime.") that each command imports for a plain container.
NEEDED = {
    "create": """
        runtime.cli.main runtime.cli.create runtime.spec.check_schema runtime.spec.schema
        runtime.spec.validate_linux runtime.cgroups.resources runtime.cgroups.device_policy
        runtime.cgroups.device_enforcement runtime.host.seccomp_cache
    """,
    "exec": "runtime.cli.main runtime.cli.exec runtime.cgroups.cgroup base.foreground",
    # For an image that is in the store; run is prepare with additions.
    "ocipod run": """
        pods.cli.main pods.cli.run_pods commandline.progress pods.operations.prepare_pod
        pods.net.net_option
        pods.net.network_configs pods.net.resolv_conf images.store.store images.fetch
        images.model.settings_files images.unpack.tree_store pods.store.lock
        pods.store.manifest_file
        pods.bundle.overlay pods.bundle.private_mount_namespace pods.monitor.monitor
        pods.bundle.write_bundle
    """,
    "ocipod monitor": "pods.cli.main pods.cli.monitor pods.monitor.hibernation",
}
# Program that prints the names of these modules and of all that they import, in the order in which
# their execution completes: each after the modules that it imports. They come from the archive, as
# their sources import more.
ORDER = """
import sys
sys.path.insert(0, sys.argv[1])
from ociruntime.startup.archive import Archive, use_archive
load, loaded = Archive.exec_module, []
def record(archive, module):
    load(archive, module)
    loaded.append(module.__name__)
Archive.exec_module = record
use_archive(sys.argv[1], "")
for name in sys.argv[2:]:
    __import__("ociruntime." + name)
print(*loaded)
"""


def needed_by(command: str, directory: Path) -> list[str]:
    """Return the names of all modules that the command needs, in the order to load them.

    ``directory`` is the package, which has an archive already.
    """
    interpreter = [sys.executable, "-I", "-S", "-B", "-c", ORDER, str(directory.parent)]
    modules = NEEDED[command].split()
    done = subprocess.run([*interpreter, *modules], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def module_name(source: Path, directory: Path) -> str:
    """Return a source's module name, such as ``ociruntime.runtime.cli.main``."""
    parts = [directory.name, *source.relative_to(directory).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# (is a package, size and mtime of the source)
Entry = tuple[bool, int, int]
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
        if node.value is None and isinstance(node.target, ast.Attribute):
            return ast.copy_location(ast.Pass(), node)
        if self._is_in_class or node.value is None or is_type_alias(node):
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
        """Remove imports and type aliases that only annotations use.

        The rules for types (mypy --strict) forbid other modules to import such a name from here.
        """
        self.generic_visit(node)
        used = used_names(node.body)
        node.body = [needed for part in node.body for needed in needed_part(part, used)]
        return node


def is_type_alias(statement: ast.stmt) -> bool:
    """Return whether this is ``Name: TypeAlias = ...``."""
    annotation = getattr(statement, "annotation", None)
    return isinstance(annotation, ast.Name) and annotation.id == "TypeAlias"


def used_names(statements: Iterable[ast.stmt]) -> set[str]:
    """Return the names that code uses, other than in annotations and type aliases."""
    used = {"ClassVar"}  # dataclasses look for it
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            used.add(node.id)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            used.update(ast.literal_eval(node.value))
        if isinstance(node, ast.stmt) and is_type_alias(node):
            continue
        hidden = getattr(node, "annotation", None)
        pending += [child for child in ast.iter_child_nodes(node) if child is not hidden]
    return used


def needed_part(statement: ast.stmt, used: set[str]) -> list[ast.stmt]:
    """Return what must stay of a module's statement: an import may lose names, or be empty."""
    if isinstance(statement, ast.AnnAssign) and is_type_alias(statement):
        return [statement] if ast.unparse(statement.target) in used else []
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return [statement]
    statement.names = [
        alias
        for alias in statement.names
        if (alias.asname or alias.name.partition(".")[0]) in used or alias.asname == alias.name
    ]
    return [statement] if statement.names else []


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


def compile_all(directory: Path, *, installed: bool) -> dict[str, tuple[Entry, bytes]]:
    """Return module's name -> its entry and its marshalled code, for the package ``directory``."""
    found = {}
    for source in sorted(directory.rglob("*.py")):
        shown = str(Path(directory.name) / source.relative_to(directory))
        code = compile_module(source.read_bytes(), shown)
        facts = source.stat()
        mtime = 0 if installed else int(facts.st_mtime)
        entry = (source.name == "__init__.py", facts.st_size, mtime)
        found[module_name(source, directory)] = entry, marshal.dumps(code)
    return found


def pack(modules: dict[str, tuple[Entry, bytes]], ahead: dict[str, list[str]]) -> bytes:
    """Return the content of the archive; ``ahead`` is command -> modules to load at once."""
    entries = {name: entry for name, (entry, _) in modules.items()}
    codes = [code for _, code in modules.values()]
    for command, names in ahead.items():
        entries[f":{command}"] = (False, 0, 0)
        codes.append(marshal.dumps([(name, marshal.loads(modules[name][1])) for name in names]))
    # The offsets depend on the index's length, but not the reverse: marshal writes every int below
    # 2**31 in 5 bytes. So an index with wrong offsets has the right length.
    index = _index(entries, codes, 0)
    start = 24 + len(index)
    index = _index(entries, codes, start)
    head = MAGIC_NUMBER.ljust(16, b"\0") + len(index).to_bytes(8, "little")
    assert 24 + len(index) == start
    return head + index + b"".join(codes)


def _index(entries: dict[str, Entry], codes: list[bytes], start: int) -> bytes:
    index = {}
    for (name, (is_package, size, mtime)), code in zip(entries.items(), codes, strict=True):
        index[name] = (start, len(code), is_package, size, mtime)
        start += len(code)
    # Version 2 of marshal writes no references to equal objects, with which the length would vary.
    return marshal.dumps(index, 2)


def replace(target: Path, content: bytes) -> None:
    """Write a file atomically."""
    temporary = target.with_suffix(".new")
    temporary.write_bytes(content)
    temporary.rename(target)


def main() -> int:
    if "no_debug_ranges" not in sys._xoptions:
        # Without columns (only tracebacks show them) the code takes a tenth less memory, which
        # every command copies with the snapshot.
        command = [sys.executable, "-X", "no_debug_ranges", *sys.argv]
        return subprocess.run(command, check=False).returncode
    directory = Path(sys.argv[1]).resolve()
    modules = compile_all(directory, installed="--installed" in sys.argv[2:])
    replace(directory / NAME, pack(modules, {}))
    ahead = {command: needed_by(command, directory) for command in NEEDED}
    replace(directory / NAME, pack(modules, ahead))
    return 0


if __name__ == "__main__":
    sys.exit(main())
