"""A setting: a value to be written to a control file."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # (section of the resources, its JSON path) -> settings, in the order of writing
    Converter = Callable[[Any, str], list["Setting"]]


class Setting:
    """A value for a control file, and how errors of the write are handled.

    ``files``      (name, value) pairs: the first file that exists in the cgroup is used.
                   A value of several lines is written line by line.
    ``where``      JSON path of the value in config.json.
    ``coupled``    settings with the same non-empty word depend on each other: one that the kernel
                   refuses is retried after the rest.
    ``optional``   a missing file is not an error: the value means "no limit", or adds to another.
    ``keep_first`` the first word that the file has now is written before the value.
    ``floor``      name of a usage file; a value below the usage is refused.
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


_HUGE_SIZES_HINT = "sizes are written as in the names of the hugetlb control files: 64KB, 2MB, 1GB"


def huge_page_limits(
    version: int, size: str, entry: dict[str, Any], where: str, file: str
) -> list[Setting]:
    """Return both limits of a page size: either alone can be evaded.

    Reservations do not charge faults on pages that another cgroup has reserved.
    """
    limit, at = str(entry["limit"]), f"{where}.pageSize"
    reserved = ((f"hugetlb.{size}.rsvd.{file}", limit),)
    return [
        Setting(version, "hugetlb", reserved, at, optional=True),
        Setting(version, "hugetlb", ((f"hugetlb.{size}.{file}", limit),), at),
    ]


def cpuset(section: dict[str, Any], where: str, version: int) -> list[Setting]:
    """Convert cpus and mems (both are empty in a new v1 cgroup: group.py copies the parent's)."""
    return [
        Setting(version, "cpuset", ((f"cpuset.{field}", section[field]),), f"{where}.{field}")
        for field in ("cpus", "mems")
        if section.get(field)
    ]


def pids(section: dict[str, Any], where: str, version: int) -> list[Setting]:
    """Convert the limit: 0 is a limit, a negative number means unlimited."""
    limit = section.get("limit")
    if limit is None:
        return []
    files = (("pids.max", str(limit) if limit >= 0 else "max"),)
    return [Setting(version, "pids", files, f"{where}.limit", optional=limit < 0)]


def rdma(section: dict[str, dict[str, Any]], where: str, version: int) -> list[Setting]:
    """Convert limits, as in ``mlx4_0 hca_handle=2 hca_object=2000``.  Raises ConfigError."""
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


def _handles(entry: dict[str, Any]) -> str:
    """Format the limits of an rdma entry for rdma.max."""
    words = []
    if (count := entry.get("hcaHandles")) is not None:
        words.append(f"hca_handle={count}")
    if (count := entry.get("hcaObjects")) is not None:
        words.append(f"hca_object={count}")
    return " ".join(words)


def device_number(entry: dict[str, Any]) -> str:
    """Return ``8:0`` for ``{"major": 8, "minor": 0}``."""
    return f"{entry['major']}:{entry['minor']}"


def huge_page_size(entry: dict[str, Any], where: str) -> str:
    """Return the size as in file names; other forms are refused: they could name another file."""
    size = entry["pageSize"]
    number, unit = size[:-2], size[-2:]
    if not (number.isascii() and number.isdigit()) or unit not in ("KB", "MB", "GB"):
        raise ConfigError(f"{where}.pageSize", f'"{size}" is not a page size', _HUGE_SIZES_HINT)
    return str(size)


SHARED = {"cpuset": cpuset, "pids": pids, "rdma": rdma}
