"""Load a bundle, a directory with config.json and usually the root filesystem."""

from __future__ import annotations

import posix
from collections.abc import Callable
from typing import Any

from ociruntime.base.errors import ConfigError, reason
from ociruntime.base.json_text import dump, parse
from ociruntime.runtime.spec.check_schema import check_schema
from ociruntime.runtime.spec.config_types import Config
from ociruntime.runtime.spec.load_config import read
from ociruntime.runtime.spec.validate import validate


class Bundle:
    """A loaded bundle, with a valid config and an existing root filesystem."""

    __slots__ = ("config", "config_bytes", "path", "rootfs", "warnings")

    def __init__(
        self, path: str, config: Config, config_bytes: bytes, rootfs: str, warnings: list[str]
    ) -> None:
        self.path = path  # absolute
        self.config = config
        self.config_bytes = config_bytes  # stored at creation, for all later commands
        self.rootfs = rootfs  # absolute, no symbolic link in it
        self.warnings = warnings


def load_bundle(
    bundle: str, config: str = "", mark: Callable[[str], None] = lambda _: None
) -> Bundle:
    """Load and check the bundle in the directory ``bundle``.

    ``config``: path of a file to use instead of the bundle's config.json; relative paths inside the
    file are still relative to the bundle.  ``mark``: called at the start of each phase with the
    name of the phase.  Raises ConfigError if the bundle or its config cannot be read, or is
    invalid.
    """
    try:
        path = _directory(bundle or ".")
    except OSError as error:
        raise ConfigError("", f'open bundle "{bundle}": {reason(error)}') from None
    file = config or f"{path}/config.json"
    mark("read config.json")
    data = read(file)
    mark("parse it")
    document: Any = parse(data, file.rpartition("/")[2])
    mark("check it")
    warnings, tolerated = _check(document)
    if tolerated or b"null" in data or b'""' in data:
        # The checks may have corrected the document; later commands must read the correction.
        data = dump(document).encode()
    return Bundle(path, document, data, find_rootfs(document["root"]["path"], path), warnings)


def _check(document: Any) -> tuple[list[str], bool]:  # noqa: ANN401 - JSON
    """Check a config; return its warnings, and whether tolerated_settings.py has changed it.

    Raises ConfigError if the config is invalid.
    """
    try:
        check_schema(document)
        return validate(document), False
    except ConfigError:
        # Imported only here: every `create` runs this code, and few configurations need the module.
        from ociruntime.runtime.spec.tolerated_settings import tolerate

        warnings = tolerate(document)
        if not warnings:
            raise
    check_schema(document)
    return warnings + validate(document), True


def find_rootfs(root: str, bundle: str) -> str:
    """Return the real path of ``root``, the value of root.path.

    A relative ``root`` starts in the directory ``bundle``.  Raises ConfigError if the root is not
    an existing directory.
    """
    resolved = root if root.startswith("/") else f"{bundle}/{root}"
    try:
        return _directory(resolved)
    except FileNotFoundError:
        message = f'"{root}" does not exist: no such file or directory'
    except NotADirectoryError:
        message = f'"{root}" is not a directory'
    except OSError as error:
        message = f'"{root}": {reason(error)}'
    raise ConfigError("root.path", message, f"resolved to {resolved}")


def _directory(path: str) -> str:
    """Return the real path of a directory, or raise OSError if ``path`` is not a directory.

    The kernel walks the path once and reports the result; ``os.path.realpath`` would walk it in
    Python and need another call to check that it is a directory.
    """
    flags = posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC
    descriptor = posix.open(path, flags)
    try:
        return posix.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        posix.close(descriptor)
