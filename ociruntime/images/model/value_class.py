"""Immutable value classes, without the import time of ``dataclasses``.

``dataclasses`` compiles code, and importing it takes longer than finding an image.  ``@frozen`` on
a class with annotated members is like ``@dataclass(frozen=True)``: positional and keyword
arguments, defaults, ``==``, hash and repr.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar, dataclass_transform

    Kind = TypeVar("Kind")

    @dataclass_transform(frozen_default=True)
    def frozen(kind: type[Kind]) -> type[Kind]:
        """Return the class with the methods added."""
        return kind

else:

    def frozen(kind: type) -> type:
        """Return the class with the methods added."""
        names = tuple(kind.__annotations__)
        defaults = {name: vars(kind)[name] for name in names if name in vars(kind)}

        def initialize(self: object, *values: object, **named: object) -> None:
            members = {**defaults, **dict(zip(names, values, strict=False)), **named}
            if len(values) > len(names) or members.keys() != set(names):
                raise TypeError(f"{kind.__name__} has the members {', '.join(names)}")
            self.__dict__.update({name: members[name] for name in names})

        kind.__init__ = initialize
        for method in ("__eq__", "__hash__", "__repr__", "__setattr__"):
            setattr(kind, method, vars(_Methods)[method])
        return kind


def changed(value: Kind, **members: Any) -> Kind:  # noqa: ANN401 - of any type
    """Return a copy of ``value`` with some members changed."""
    return type(value)(**{**vars(value), **members})


class _Methods:
    """Methods shared by all these classes."""

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({members})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")
