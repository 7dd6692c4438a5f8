"""All modules of the package in one file, compiled: half the time of importing them singly.

Python looks for each module in every directory of the path, opens, checks and reads its
``.pyc``; with the archive a module costs one ``stat`` and one ``read``.  A command of a
container's life loads up to 70 modules, more than the interpreter itself takes to start.

    archive = magic of the interpreter's bytecode (16 bytes, NUL-padded)
              length of the index (8 bytes, little endian)
              index, marshalled: {name: (offset, size, is package, source size, source mtime)}
              code objects, marshalled

``tools/build_archive.py`` writes it when the package is built.  A module whose source has
changed since, or an archive of another interpreter, is passed over: Python then finds the
source as usual.  A source mtime of 0 is not compared (installed files get new ones).
"""

from __future__ import annotations

import marshal
import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    Entry = tuple[int, int, bool, int, int]

NAME = "modules.bin"
HEAD = 24  # bytes in front of the index
MAGIC = MAGIC_NUMBER.ljust(16, b"\0")


class Archive:
    """A finder and loader (importlib.abc) of what one archive holds."""

    __slots__ = ("_directory", "_fd", "_index")

    def __init__(self, fd: int, index: dict[str, Entry], directory: str) -> None:
        self._fd = fd
        self._index = index
        self._directory = directory  # that holds the package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As importlib.abc.MetaPathFinder has it."""
        del path, target
        entry = self._index.get(name)
        if entry is None:
            return None
        _, _, is_package, size, modified = entry
        stem = f"{self._directory}/{name.replace('.', '/')}"
        source = f"{stem}/__init__.py" if is_package else f"{stem}.py"
        try:
            now = posix.stat(source)
        except OSError:
            return None
        if now.st_size != size or (modified and int(now.st_mtime) != modified):
            return None
        spec = ModuleSpec(name, self, origin=source, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [stem]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """As importlib.abc.Loader has it: the usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        """As importlib.abc.Loader has it."""
        offset, size, _, _, _ = self._index[module.__name__]
        exec(marshal.loads(posix.pread(self._fd, size, offset)), module.__dict__)  # noqa: S102, S302


def use_archive(directory: str) -> None:
    """Let the modules below ``directory`` be found in its archive, if it has a fitting one."""
    try:
        fd = posix.open(f"{directory}/ociruntime/{NAME}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return
    head = posix.read(fd, HEAD)
    if head[:16] != MAGIC:
        posix.close(fd)
        return
    index = marshal.loads(posix.read(fd, int.from_bytes(head[16:], "little")))  # noqa: S302
    sys.meta_path.insert(0, Archive(fd, index, directory))
