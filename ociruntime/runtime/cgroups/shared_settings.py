"""The class ``Setting`` (a value for a control file), and settings common to cgroup v1 and v2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ociruntime.base.errors import ConfigError

# A converter: (section of linux.resources, its JSON path) -> settings, in the order of writing
Converter: TypeAlias = Callable[[Any, str], list["Setting"]]


class Setting:
    """A cgroup setting: the value for a control file, and how to handle errors.

    ``files``      (name, value) pairs: the first file that exists in the cgroup is used.
                   A value of several lines is written line by line.
    ``where``      JSON path of the value in config.json.
    ``coupled``    name of a group of settings whose valid values depend on each other, or "": a
                   setting that the kernel refuses is written again after the rest of the group.
    ``optional``   a missing file is not an error: the value means "no limit", or the setting only
                   supplements another one.
    ``keep_first`` the first word of the file's current content is written before the value.
    ``floor``      name of the file with the current usage; a value below the usage is refused.
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


_HUGE_SIZES_HINT = "use the form of the hugetlb control files' names: 64KB, 2MB, 1GB"


def huge_page_limits(
    version: int, size: str, entry: dict[str, Any], where: str, file: str
) -> list[Setting]:
    """Return the settings for one huge page size: limits on reserved pages and on pages in use.

    Both are needed: a page that another cgroup has reserved is charged to this cgroup only when
    this cgroup uses it.
    """
    limit, at = str(entry["limit"]), f"{where}.pageSize"
    reserved = ((f"hugetlb.{size}.rsvd.{file}", limit),)
    return [
        Setting(version, "hugetlb", reserved, at, optional=True),
        Setting(version, "hugetlb", ((f"hugetlb.{size}.{file}", limit),), at),
    ]


def cpuset(section: dict[str, Any], where: str, version: int) -> list[Setting]:
    """Convert ``cpu.cpus`` and ``cpu.mems`` of linux.resources to cpuset settings."""
    return [
        Setting(version, "cpuset", ((f"cpuset.{field}", section[field]),), f"{where}.{field}")
        for field in ("cpus", "mems")
        if section.get(field)
    ]


def pids(section: dict[str, Any], where: str, version: int) -> list[Setting]:
    """Convert ``pids.limit`` of linux.resources; 0 is a limit, a negative number means no limit."""
    limit = section.get("limit")
    if limit is None:
        return []
    files = (("pids.max", str(limit) if limit >= 0 else "max"),)
    return [Setting(version, "pids", files, f"{where}.limit", optional=limit < 0)]


def rdma(section: dict[str, dict[str, Any]], where: str, version: int) -> list[Setting]:
    """Convert ``rdma`` of linux.resources to lines of rdma.max.

    A line looks like ``mlx4_0 hca_handle=2 hca_object=2000``.  Raises ConfigError for a device
    without limits, or with an invalid name.
    """
    settings = []
    for name, entry in section.items():
        limits = _handles(entry)
        if not limits:
            raise ConfigError(f'{where}["{name}"]', "hcaHandles or hcaObjects is required")
        if not name or any(letter.isspace() for letter in name):
            raise ConfigError(
                f'{where}["{name}"]',
                "is not a valid RDMA device name",
                "use a name such as mlx4_0, without blanks",
            )
        files = (("rdma.max", f"{name} {limits}"),)
        settings.append(Setting(version, "rdma", files, f'{where}["{name}"]'))
    return settings


def _handles(entry: dict[str, Any]) -> str:
    """Return the rdma.max limits of one RDMA device, such as ``hca_handle=2 hca_object=2000``."""
    limits = []
    if (count := entry.get("hcaHandles")) is not None:
        limits.append(f"hca_handle={count}")
    if (count := entry.get("hcaObjects")) is not None:
        limits.append(f"hca_object={count}")
    return " ".join(limits)


def device_number(entry: dict[str, Any]) -> str:
    """Return the device number of a blockIO entry: ``8:0`` for ``{"major": 8, "minor": 0}``."""
    return f"{entry['major']}:{entry['minor']}"


def huge_page_size(entry: dict[str, Any], where: str) -> str:
    """Check and return the ``pageSize`` of a hugepageLimits entry, such as ``2MB``.

    Raises ConfigError for any other form: the size becomes part of a file name.
    """
    size = entry["pageSize"]
    number, unit = size[:-2], size[-2:]
    if not (number.isascii() and number.isdigit()) or unit not in ("KB", "MB", "GB"):
        raise ConfigError(
            f"{where}.pageSize", f'"{size}" is not a huge page size', _HUGE_SIZES_HINT
        )
    return str(size)


SHARED = {"cpuset": cpuset, "pids": pids, "rdma": rdma}
