"""One value on its way into one control file, and the words both cgroup versions share."""

from __future__ import annotations

from ociruntime.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # (section of the resources, its JSON path) -> settings, in the order of writing
    Converter = Callable[[Any, str], list["Setting"]]

_HUGE_SIZES_HINT = "sizes are written as in the names of the hugetlb control files: 64KB, 2MB, 1GB"


class Setting:
    """What is to be written, for whom, and how the write is to be taken.

    ``files``      (name, value) pairs: the first file that exists in the cgroup is used.
                   A value of several lines is written line by line.
    ``where``      JSON path of the value in config.json.
    ``coupled``    settings of the same non-empty word limit each other: one that the kernel
                   refuses is tried again after the rest.
    ``optional``   the value means "no limit", so that a missing file is as good.
    ``keep_first`` the file's present first word goes before the value.
    ``floor``      name of a usage file; a value below what it says is refused.
    """

    __slots__ = (
        "controller",
        "coupled",
        "files",
        "floor",
        "keep_first",
        "optional",
        "version",
        "where",
    )

    def __init__(
        self,
        version: int,
        controller: str,
        files: tuple[tuple[str, str], ...],
        where: str,
        coupled: str = "",
        optional: bool = False,
        keep_first: bool = False,
        floor: str = "",
    ) -> None:
        self.version = version
        self.controller = controller
        self.files = files
        self.where = where
        self.coupled = coupled
        self.optional = optional
        self.keep_first = keep_first
        self.floor = floor

    def __repr__(self) -> str:
        return f"<{self.where}: {self.files[0][1]!r} > {self.files[0][0]}>"


def device_number(entry: dict[str, Any]) -> str:
    """``{"major": 8, "minor": 0}`` -> ``8:0``."""
    return f"{entry['major']}:{entry['minor']}"


def _handles(entry: dict[str, Any]) -> str:
    """The limits of an rdma entry in the kernel's words; both versions share them."""
    words = []
    if (count := entry.get("hcaHandles")) is not None:
        words.append(f"hca_handle={count}")
    if (count := entry.get("hcaObjects")) is not None:
        words.append(f"hca_object={count}")
    return " ".join(words)


def huge_page_size(entry: dict[str, Any], where: str) -> str:
    """The size as it stands in file names; anything else could name another file."""
    size = entry["pageSize"]
    number, unit = size[:-2], size[-2:]
    if not (number.isascii() and number.isdigit()) or unit not in ("KB", "MB", "GB"):
        raise ConfigError(f"{where}.pageSize", f'"{size}" is not a page size', _HUGE_SIZES_HINT)
    return str(size)


def rdma_lines(section: dict[str, dict[str, Any]], where: str, version: int) -> list[Setting]:
    """``mlx4_0 hca_handle=2 hca_object=2000``.  Raises ConfigError for an entry without limits."""
    found = []
    for name, entry in section.items():
        limits = _handles(entry)
        if not limits:
            raise ConfigError(f'{where}["{name}"]', "hcaHandles or hcaObjects is required")
        if not name or any(letter.isspace() for letter in name):
            raise ConfigError(f'{where}["{name}"]', "is not the name of a device")
        files = (("rdma.max", f"{name} {limits}"),)
        found.append(Setting(version, "rdma", files, f'{where}["{name}"]'))
    return found
