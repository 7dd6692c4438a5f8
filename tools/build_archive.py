"""Write the archive of compiled modules: ``build_archive.py DIRECTORY [--installed]``.

DIRECTORY is that of the package.  With --installed the sources' mtimes are left out, because
an installer gives them new ones.  The format is described in ociruntime/archive.py.
"""

from __future__ import annotations

import marshal
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path

NAME = "modules.bin"
WITHOUT_DOCSTRINGS = 2

# Names of the modules that `create` needs, each behind those that it imports.
ORDER = """
import sys
from importlib.machinery import SourceFileLoader
sys.path.insert(0, sys.argv[1])
load, loaded = SourceFileLoader.exec_module, []
def note(loader, module):
    load(loader, module)
    loaded.append(module.__name__)
SourceFileLoader.exec_module = note
import ociruntime.cli.main, ociruntime.cli.create
print(*(name for name in loaded if name.partition(".")[0] == "ociruntime"))
"""


def needed_by_create(directory: Path) -> list[str]:
    """Found out by importing them, without extension modules or anything installed."""
    command = [sys.executable, "-I", "-S", "-B", "-c", ORDER, str(directory.parent)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.split()


def module_name(source: Path, directory: Path) -> str:
    """``ociruntime.cli.main`` for .../ociruntime/cli/main.py."""
    parts = [directory.name, *source.relative_to(directory).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def build(directory: Path, installed: bool) -> bytes:
    """The archive's bytes."""
    codes: list[bytes] = []
    entries = {}
    for source in sorted(directory.rglob("*.py")):
        name = module_name(source, directory)
        shown = str(Path(directory.name) / source.relative_to(directory))
        code = compile(
            source.read_bytes(), shown, "exec", dont_inherit=True, optimize=WITHOUT_DOCSTRINGS
        )
        facts = source.stat()
        mtime = 0 if installed else int(facts.st_mtime)
        entries[name] = (source.name == "__init__.py", facts.st_size, mtime)
        codes.append(marshal.dumps(code))
    compiled = dict(zip(entries, codes, strict=True))
    ahead = [(name, marshal.loads(compiled[name])) for name in needed_by_create(directory)]
    entries[""] = (False, 0, 0)
    codes.append(marshal.dumps(ahead))
    # Offsets depend on the index's length, and that on the offsets: numbers of fixed width
    # (marshal writes an int below 2**31 in 5 bytes) make the first guess right.
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
    # Version 2 has no references between equal objects, whose number could change the length.
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
