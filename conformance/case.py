"""A test case: a function that takes a context, and the clauses that it checks."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from conformance import clauses

if TYPE_CHECKING:
    from conformance.context import Context

Function = Callable[..., None]
F = TypeVar("F", bound=Function)


class Failed(Exception):
    """The runtime does not do what the clause demands."""


class Skipped(Exception):
    """The host cannot show it."""


@dataclass(frozen=True)
class Case:
    """``section`` is the file's name; ``exclusive`` cases never run beside others."""

    name: str
    section: str
    clauses: tuple[str, ...]
    text: str
    function: Callable[[Context], None]
    exclusive: bool = False
    timeout: float | None = None

    @property
    def path(self) -> str:
        """Return the name that ``--list`` shows and ``--filter`` matches."""
        return f"{self.section}::{self.name}"

    @property
    def since(self) -> str:
        """The first release that has all of its clauses."""
        known = clauses.registry()
        return max((known[id].since for id in self.clauses), key=clauses.version_key)


REGISTERED: list[Case] = []


def _register(function: Function, ids: Sequence[str], options: dict[str, Any], row: Any) -> None:
    unknown = [id for id in ids if id not in clauses.registry()]
    assert ids, f"{function.__name__} is about no clause"
    assert not unknown, f"{function.__name__}: no clause {', '.join(unknown)}"
    text = inspect.getdoc(function)
    assert text, f"{function.__name__} has no docstring"
    section = function.__module__.rpartition(".")[2]
    name = function.__name__
    call: Callable[[Context], None] = function
    if row is not None:
        name = f"{name}[{row[0]}]"
        text = text.format(*row)

        def call(c: Context) -> None:
            function(c, *row)

    assert all(known.name != name for known in REGISTERED if known.section == section), name
    REGISTERED.append(Case(name, section, tuple(ids), text.splitlines()[0], call, **options))


def case(*ids: str, exclusive: bool = False, timeout: float | None = None) -> Callable[[F], F]:
    """Make a function of one argument, the context, the case of these clauses.

    ``exclusive``: changes or counts something that all processes of the host share.
    ``timeout``: seconds, where the runner's limit is not right.
    """

    def register(function: F) -> F:
        _register(function, ids, {"exclusive": exclusive, "timeout": timeout}, None)
        return function

    return register


def table(
    *rows: Sequence[Any], ids: str | Sequence[str] = (), exclusive: bool = False
) -> Callable[[F], F]:
    """Make one case of each row: its members are the function's arguments after the context.

    The first member becomes part of the name.  ``ids`` are the clauses of all rows, and may
    hold ``{0}`` for the first member; without it a row's first member is its clause (or a
    tuple of clauses) and is no argument.  The docstring may use the arguments: ``{0}``.
    """
    common = (ids,) if isinstance(ids, str) else tuple(ids)

    def register(function: F) -> F:
        for row in rows:
            if common:
                own, arguments = tuple(id.format(*row) for id in common), row
            else:
                own = (row[0],) if isinstance(row[0], str) else tuple(row[0])
                arguments = row[1:]
            _register(function, own, {"exclusive": exclusive}, tuple(arguments))
        return function

    return register


def discover() -> list[Case]:
    """Return all cases of all files in ``conformance/cases``, in the order of the clauses."""
    package = importlib.import_module("conformance.cases")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"conformance.cases.{module.name}")
    order = {id: place for place, id in enumerate(clauses.registry())}
    return sorted(REGISTERED, key=lambda one: (order[one.clauses[0]], one.path))
