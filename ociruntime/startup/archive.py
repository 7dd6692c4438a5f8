"""Import the package's modules from one file of compiled code, in half the usual time.

For each module, Python searches every directory of the path for it, and opens, checks and reads its
``.pyc``.  For a lifecycle command with up to 70 modules, that takes longer than the start of the
interpreter.  With the archive, a module costs one ``stat`` and one ``read``.

    archive = magic of the interpreter's bytecode (16 bytes, NUL-padded)
              length of the index (8 bytes, little endian)
              index, marshalled: {name: (offset, size, is package, source size, source mtime)}
              code objects, marshalled one by one; under a name like ":create" or ":exec", a
                  list of (name, code) of all modules that the command needs, each module after
                  the modules that it imports

``tools/build_archive.py`` writes the archive when the package is built.  An archive of another
version of Python is ignored, and so is a module whose source has changed since: Python then finds
the source as usual.  A source mtime of 0 is not compared, because installed files get new times.

This module, ``__main__.py`` and ``__init__.py`` do not import ``__future__``: Python would search
the standard library for it.  The archive's modules are compiled as if each of them began with
``from __future__ import annotations``.
"""

import marshal
import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

    Entry = tuple[int, int, bool, int, int]

NAME = "modules.bin"
HEAD = 24  # bytes in front of the index
MAGIC = MAGIC_NUMBER.ljust(16, b"\0")


class Archive:
    """An importer of the modules in one archive: a finder and loader of importlib.abc."""

    __slots__ = ("_directory", "_fd", "_index")

    def __init__(self, fd: int, index: "dict[str, Entry]", directory: str) -> None:
        self._fd = fd  # descriptor of the archive; -1: open it when needed
        self._index = index
        self._directory = directory  # directory that contains the package

    def _find(self, name: str) -> "Entry | None":
        if self._fd < 0:
            try:
                self._fd = _open(self._directory)
                self._index = _read_index(self._fd)
            except OSError as error:
                raise _unreadable(name, error) from error
        return self._index.get(name)

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        """Return the spec of a module in the archive, or None (importlib.abc.MetaPathFinder).

        Returns None also for a module whose source has changed.
        """
        del path, target
        # The archive has no modules of the standard library.
        entry = self._find(name) if name.startswith("ociruntime") else None
        if entry is None:
            return None
        is_package = entry[2]
        source = self._source(name, entry)
        if source is None:
            return None
        spec = ModuleSpec(name, self, origin=source, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [source.rpartition("/")[0]]
        return spec

    def _source(self, name: str, entry: "Entry") -> str | None:
        """Return the path of a module's source; None if the source has changed or is missing."""
        _, _, is_package, size, modified = entry
        stem = f"{self._directory}/{name.replace('.', '/')}"
        source = f"{stem}/__init__.py" if is_package else f"{stem}.py"
        try:
            now = posix.stat(source)
        except OSError:
            return None
        if now.st_size != size or (modified and int(now.st_mtime) != modified):
            return None
        return source

    def _content(self, name: str) -> "Any":  # noqa: ANN401 - code, or a list of it
        entry = self._find(name)
        if entry is None:
            raise ImportError(f"import {name}: not found in {NAME}, which was replaced", name=name)
        offset, size, _, _, _ = entry
        try:
            return marshal.loads(posix.pread(self._fd, size, offset))  # noqa: S302
        except OSError as error:
            raise _unreadable(name, error) from error

    def close(self) -> None:
        """Close the archive; the next import opens it again.

        Drops the index as well, because it would take a twentieth of the heap in a snapshot.
        """
        posix.close(self._fd)
        self._fd = -1
        self._index = {}

    def to_watch(self, names: "Sequence[str]") -> "list[str]":
        """Return those of the modules ``names`` whose source files a snapshot must watch.

        These are the modules that are not in the archive, and the modules that the archive compares
        by mtime.  (It does not compare the mtimes of an installed package.)  Extension modules are
        left out, because a snapshot checks them as mapped files.
        """
        sources = [name for name in names if getattr(sys.modules[name], "__file__", None)]
        python = [name for name in sources if str(sys.modules[name].__file__).endswith(".py")]
        entries = {name: self._find(name) for name in python}
        return [name for name, entry in entries.items() if entry is None or entry[4]]

    def create_module(self, spec: ModuleSpec) -> None:
        """Do nothing: Python then creates a module of the default type (importlib.abc.Loader)."""

    def exec_module(self, module: "ModuleType") -> None:
        """Execute a module's code from the archive (importlib.abc.Loader)."""
        exec(self._content(module.__name__), module.__dict__)  # noqa: S102

    def load_ahead(self, command: str) -> None:
        """Load all modules that a command needs with one read, dependencies first.

        The import system would need more time to find 70 modules than to run them.  If the source
        of a module has changed, that module and all later ones are imported as usual.
        """
        make = type(sys)
        for name, code in self._content(f":{command}"):
            entry = self._index[name]
            source = self._source(name, entry)
            if source is None:
                return
            parent, _, child = name.rpartition(".")
            module = make(name)
            module.__file__ = source
            module.__package__ = parent
            if entry[2]:
                module.__package__ = name
                module.__path__ = [source.rpartition("/")[0]]
            sys.modules[name] = module
            exec(code, module.__dict__)  # noqa: S102
            if parent:
                setattr(sys.modules[parent], child, module)


def find_packages() -> None:
    """Append the directories of installed packages to ``sys.path``, as ``site`` would do."""
    library = f"{sys.prefix}/lib/python"
    sys.path += [
        f"{library}{sys.version_info[0]}.{sys.version_info[1]}/site-packages",
        f"{library}{sys.version_info[0]}/dist-packages",
    ]


def _unreadable(name: str, error: OSError) -> ImportError:
    reason = (error.strerror or "").lower()
    return ImportError(f"import {name}: read {NAME}: {reason}", name=name)


def _open(directory: str) -> int:
    return posix.open(f"{directory}/ociruntime/{NAME}", posix.O_RDONLY | posix.O_CLOEXEC)


def _read_index(fd: int) -> "dict[str, Entry]":
    """Return the index of the archive ``fd``, or {} if it is for another version of Python."""
    head = posix.pread(fd, HEAD, 0)
    if head[:16] != MAGIC:
        return {}
    index: dict[str, Entry] = marshal.loads(  # noqa: S302
        posix.pread(fd, int.from_bytes(head[16:], "little"), HEAD)
    )
    return index


def use_archive(directory: str, command: str) -> "Archive | None":
    """Install the importer for the archive of the package in ``directory``, and return it.

    ``command`` is a key of NEEDED in tools/build_archive.py, or "".  Immediately loads the modules
    that this command needs; none for "".  Returns None if there is no archive for this version of
    Python.
    """
    try:
        fd = _open(directory)
    except OSError:
        return None
    index = _read_index(fd)
    if not index:
        posix.close(fd)
        return None
    archive = Archive(fd, index, directory)
    sys.meta_path.insert(0, archive)
    if command:
        archive.load_ahead(command)
    return archive
