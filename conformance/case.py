"""Test cases: functions that take a context, registered with the clauses that they check."""

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
    """The runtime violates a clause; the message describes the violation."""


class Skipped(Exception):
    """This host or runtime cannot be tested for the clause; the message is the reason."""


@dataclass(frozen=True)
class Case:
    """A registered test case; ``text`` is its docstring's first line.

    ``section`` is the name of its file.  ``exclusive`` cases never run in parallel with others.
    ``timeout`` in seconds overrides the runner's.
    """

    name: str
    section: str
    clauses: tuple[str, ...]
    text: str
    function: Callable[[Context], None]
    exclusive: bool = False
    timeout: float | None = None

    @property
    def path(self) -> str:
        """The name that ``--list`` shows and ``--filter`` matches: SECTION::NAME."""
        return f"{self.section}::{self.name}"

    @property
    def since(self) -> str:
        """The first release of the specification that has all of its clauses."""
        known = clauses.registry()
        return max((known[id].since for id in self.clauses), key=clauses.version_key)


REGISTERED: list[Case] = []


def _register(function: Function, ids: Sequence[str], options: dict[str, Any], row: Any) -> None:
    unknown = [id for id in ids if id not in clauses.registry()]
    assert ids, f"{function.__name__} has no clause"
    assert not unknown, f"{function.__name__}: unknown clause {', '.join(unknown)}"
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
    """Register the decorated function, whose argument is the context, as the case of these clauses.

    ``exclusive``: it changes or counts something that all processes of the host share.
    ``timeout``: seconds, instead of the runner's limit.
    """

    def register(function: F) -> F:
        _register(function, ids, {"exclusive": exclusive, "timeout": timeout}, None)
        return function

    return register


def table(
    *rows: Sequence[Any], ids: str | Sequence[str] = (), exclusive: bool = False
) -> Callable[[F], F]:
    """Register one case for each row, with its members as arguments after the context.

    The first argument becomes part of the case's name.  ``ids`` are the clauses of all rows;
    ``{0}`` in them stands for the row's first member.  Without ``ids``, a row's first member is its
    clause or a tuple of clauses, and not an argument.  ``{0}`` in the docstring stands for the
    first argument, and so on.
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
    order = {id: position for position, id in enumerate(clauses.registry())}
    return sorted(REGISTERED, key=lambda one: (order[one.clauses[0]], one.path))
