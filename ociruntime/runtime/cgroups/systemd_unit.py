"""Translate ``linux.cgroupsPath`` to a systemd unit and the path of its cgroup.

Sources: systemd.slice(5), systemd.unit(5), and the values that engines send: ``slice:prefix:name``
is the unit ``prefix-name.scope`` in that slice, and a name that ends in ``.slice`` is a slice.
The functions are pure.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.hierarchies import CGROUPS_PATH, is_systemd_form

SCOPE = ".scope"
SLICE = ".slice"
ROOT_SLICE = "-.slice"
SYSTEM_SLICE = "system.slice"
USER_SLICE = "user.slice"
PREFIX = "ociruntime"  # prefix of the scope's name if linux.cgroupsPath has none

_FORM = 'use the form "SLICE:PREFIX:NAME", such as "machine.slice:ociruntime:web"'
_LONGEST_NAME = 255
_PUNCTUATION = ":-_.\\@"
# A cgroup's name must not look like a control file's, whose first word is a controller; systemd
# then prefixes it with an underscore (cg_needs_escape).
_CONTROL_FILES = ("notify_on_release", "release_agent", "tasks")
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "io", "blkio", "memory", "devices", "pids")


class Unit:
    """A systemd unit: its ``name``, the ``slice`` that contains it, and the ``path`` of its cgroup.

    ``path`` is relative to systemd's own cgroup: ``/a.slice/a-b.slice/x-1.scope``.
    """

    __slots__ = ("name", "path", "slice")

    def __init__(self, name: str, parent: str) -> None:
        self.name = name
        self.slice = parent
        self.path = "/".join(("", *slice_directories(parent), directory_name(name)))

    @property
    def is_scope(self) -> bool:
        """True for a scope, which systemd creates around a process; False for a slice."""
        return self.name.endswith(SCOPE)


def unit_of(cgroups_path: str | None, container_id: str, rootless: bool = False) -> Unit:
    """Return the systemd unit for a container's ``linux.cgroupsPath``.

    ``rootless``: the default slice is USER_SLICE instead of SYSTEM_SLICE.  Raises ConfigError if
    ``cgroups_path`` does not name a valid unit.
    """
    usual = USER_SLICE if rootless else SYSTEM_SLICE
    if not cgroups_path:
        return Unit(f"{PREFIX}-{escape(container_id)}{SCOPE}", usual)
    if not is_systemd_form(cgroups_path):
        raise ConfigError(
            CGROUPS_PATH,
            f'"{cgroups_path}" is not a systemd unit, which --systemd-cgroup requires',
            _FORM,
        )
    parent, prefix, name = cgroups_path.split(":")
    if parent:
        _check_slice(parent, cgroups_path)
    if not name:
        raise ConfigError(CGROUPS_PATH, f'"{cgroups_path}" has an empty unit name', _FORM)
    if name.endswith(SLICE):
        _check_slice(name, cgroups_path)
        if name == ROOT_SLICE:
            raise ConfigError(
                CGROUPS_PATH,
                f'"{cgroups_path}" is the root slice, which a container cannot use',
                "name a slice below it",
            )
        above = name[: -len(SLICE)].rpartition("-")[0] or "-"
        if parent not in ("", above + SLICE):
            raise ConfigError(
                CGROUPS_PATH,
                f'"{cgroups_path}": by its name, the slice "{name}" is in "{above}{SLICE}",'
                f' not in "{parent}"',
            )
        return Unit(name, above + SLICE)
    unit = f"{prefix}-{name}{SCOPE}" if prefix else name + SCOPE
    _check_name(unit, cgroups_path)
    return Unit(unit, parent or usual)


def slice_directories(name: str) -> list[str]:
    """Return the cgroup directories of a slice, top first: a.slice, a-b.slice for ``a-b.slice``.

    The list is empty for the root slice.
    """
    if name == ROOT_SLICE:
        return []
    words = name[: -len(SLICE)].split("-")
    return [directory_name("-".join(words[: depth + 1]) + SLICE) for depth in range(len(words))]


def directory_name(unit: str) -> str:
    """Return the name of a unit's cgroup directory.

    It is the unit's name, prefixed with "_" if it looks like the name of a control file.
    """
    word, _, _ = unit.rpartition(".")
    marked = (
        unit.startswith(("_", ".", "cgroup.")) or unit in _CONTROL_FILES or word in _CONTROLLERS
    )
    return f"_{unit}" if marked else unit


def escape(text: str) -> str:
    r"""Escape invalid characters in a unit name as systemd-escape(1) does: ``\x2b`` for ``+``."""
    return "".join(
        letter if _is_valid(letter) else "".join(f"\\x{byte:02x}" for byte in letter.encode())
        for letter in text
    )


def _is_valid(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter in _PUNCTUATION)


def _check_name(name: str, cgroups_path: str) -> None:
    for letter in name:
        if not _is_valid(letter):
            raise ConfigError(
                CGROUPS_PATH,
                f'"{cgroups_path}" contains {letter!r}, which is invalid in a systemd unit name',
                "use ASCII letters, digits and " + " ".join(_PUNCTUATION),
            )
    if len(name) > _LONGEST_NAME:
        raise ConfigError(
            CGROUPS_PATH, f'the systemd unit name "{name}" is longer than {_LONGEST_NAME} bytes'
        )


def _check_slice(name: str, cgroups_path: str) -> None:
    _check_name(name, cgroups_path)
    if name == ROOT_SLICE:
        return
    words = name[: -len(SLICE)].split("-")
    if not name.endswith(SLICE) or not all(words):
        raise ConfigError(
            CGROUPS_PATH,
            f'"{cgroups_path}": "{name}" is not a valid systemd slice name',
            'use a name such as "machine.slice", or "a-b.slice", which is in "a.slice"',
        )
