"""The plan: the operations that the executor carries out, and the parameters of its start."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Value = int | str | bytes | list[str] | list[int]


class Operation:
    """One line of the plan: ``code`` and ``values`` as in ``runtime/plan/ops.py``.

    ``where`` is the JSON path of the setting that required it; it stays on the host and appears in
    error messages.
    """

    __slots__ = ("code", "values", "where")

    def __init__(self, code: int, values: tuple[Value, ...], where: str) -> None:
        self.code = code
        self.values = values
        self.where = where


class Plan:
    """``clone_flags``: CLONE_NEW* bits the executor is born with; ``preserve_fds``: how many
    descriptors from 3 upwards the program keeps; ``warnings``: for the log."""

    __slots__ = ("clone_flags", "operations", "preserve_fds", "warnings")

    def __init__(self, clone_flags: int = 0, preserve_fds: int = 0) -> None:
        self.clone_flags = clone_flags
        self.preserve_fds = preserve_fds
        self.operations: list[Operation] = []
        self.warnings: list[str] = []

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
