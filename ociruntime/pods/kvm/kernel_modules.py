"""Read kernel modules and their dependencies, in the order in which to load them.

Dependencies are read from the modules themselves (their ``depends`` field, see modinfo(8)), so that
the output of ``depmod`` is not needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from ociruntime.base.errors import HostError, PodError

_NAME = re.compile(r"(.+)\.ko(|\.gz|\.xz|\.zst)")
_DEPENDENCIES = re.compile(rb"\0depends=([^\0]*)\0")
_BUILTIN = "modules.builtin"


class Modules:
    """The kernel modules below ``directory``, such as ``/lib/modules/RELEASE``."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._paths: dict[str, str] = {}
        for parent, _, names in os.walk(directory):
            for name in names:
                match = _NAME.fullmatch(name)
                if match is not None:
                    self._paths[_plain(match[1])] = f"{parent}/{name}"
        self._builtin = _builtin(directory)

    def load_order(self, names: Iterable[str]) -> list[bytes]:
        """Return the decompressed contents of the modules ``names`` and of their dependencies.

        Each module comes after its dependencies.  Modules built into the kernel are skipped.
        Raises PodError if a module is not found or cannot be decompressed, HostError if a module
        cannot be read.
        """
        loaded: dict[str, bytes] = {}
        for name in names:
            self._add(_plain(name), loaded)
        return list(loaded.values())

    def _add(self, name: str, loaded: dict[str, bytes]) -> None:
        if name in loaded or name in self._builtin:
            return
        path = self._paths.get(name)
        if path is None:
            raise PodError(
                f'start the virtual machine: its kernel lacks the module "{name}"',
                f'it is neither built in nor below "{self.directory}"',
            )
        data = _read(path)
        match = _DEPENDENCIES.search(data)
        for dependency in match[1].decode().split(",") if match else ():
            if dependency:
                self._add(_plain(dependency), loaded)
        loaded[name] = data


def _plain(name: str) -> str:
    """Return the module name ``name`` with dashes replaced by underscores, as modprobe does."""
    return name.replace("-", "_")


def _builtin(directory: str) -> frozenset[str]:
    """Return the names of the modules built into the kernel, from ``modules.builtin``."""
    try:
        with open(f"{directory}/{_BUILTIN}", encoding="utf-8") as file:
            paths = file.read().split()
    except OSError:
        return frozenset()
    return frozenset(_plain(os.path.basename(path).removesuffix(".ko")) for path in paths)


def _read(path: str) -> bytes:
    """Return the decompressed content of the module file ``path``.

    Raises HostError if it cannot be read, PodError if it cannot be decompressed.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise HostError(f'read "{path}"', error) from error
    try:
        return _decompressor(path)(data)
    except (OSError, EOFError, ValueError) as error:
        raise PodError(f'decompress the kernel module "{path}": {error}') from error


def _decompressor(path: str) -> Callable[[bytes], bytes]:
    if path.endswith(".gz"):
        import gzip

        return gzip.decompress
    if path.endswith(".xz"):
        import lzma

        return _with_value_error(lzma.decompress, lzma.LZMAError)
    if path.endswith(".zst"):
        try:
            import zstandard
        except ImportError:
            raise PodError(
                f'decompress the kernel module "{path}": zstd is not supported',
                "pip install zstandard",
            ) from None
        return _with_value_error(
            lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
            zstandard.ZstdError,
        )
    return bytes


def _with_value_error(
    call: Callable[[bytes], bytes], kind: type[Exception]
) -> Callable[[bytes], bytes]:
    def inner(data: bytes) -> bytes:
        try:
            return call(data)
        except kind as error:
            raise ValueError(str(error)) from error

    return inner
