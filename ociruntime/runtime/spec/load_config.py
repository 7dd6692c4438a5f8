"""Read and parse config.json, and check its types, ranges and required members."""

from __future__ import annotations

import posix

from ociruntime.base.errors import ConfigError, reason
from ociruntime.base.json_text import parse
from ociruntime.runtime.spec.config_types import Config

LARGEST = 64 << 20  # bytes
FIRST_PIECE, NEXT_PIECE = 64 << 10, 1 << 20  # bytes per read(2); most files are small


def parse_config(data: bytes, name: str = "config.json") -> Config:
    """Parse a config.json, and check its types, ranges and required members.

    ``name`` is the file's name for error messages.  Raises ConfigError if the file is not valid
    JSON or fails a check.
    """
    # Imported only here: commands that only read the state import this module, too.
    from ociruntime.runtime.spec.check_schema import check_schema

    config: Config = parse(data, name)
    check_schema(config)
    return config


def read(path: str) -> bytes:
    """Return the content of a config file.

    Raises ConfigError if the file is unreadable or too large.
    """
    directory, _, name = path.rpartition("/")
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except FileNotFoundError:
        message = f"JSON specification file {name} not found in {directory or '.'}"
        hint = "`ociruntime spec` writes one" if name == "config.json" else ""
        raise ConfigError("", message, hint) from None
    except OSError as error:
        raise ConfigError("", f'read "{path}": {reason(error)}') from None
    try:
        pieces = []
        remaining, size = LARGEST + 1, FIRST_PIECE
        while remaining > 0 and (piece := posix.read(descriptor, min(remaining, size))):
            pieces.append(piece)
            remaining -= len(piece)
            size = NEXT_PIECE
    except OSError as error:
        raise ConfigError("", f'read "{path}": {reason(error)}') from None
    finally:
        posix.close(descriptor)
    if remaining <= 0:
        raise ConfigError("", f'read "{path}": the file is larger than {LARGEST >> 20} MiB')
    return b"".join(pieces)
