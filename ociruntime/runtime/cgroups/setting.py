"""A setting: a value to be written to a control file."""

from __future__ import annotations

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
