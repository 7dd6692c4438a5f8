"""Commands without containers: the runtime's functions are replaced."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

import pytest

import ociruntime.runtime.lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``fake("state", state=function)`` stands in for ``ociruntime.runtime.lifecycle.state``."""

    def install(module: str, **functions: Callable[..., object]) -> None:
        stand_in = types.ModuleType(f"ociruntime.runtime.lifecycle.{module}")
        for name, function in functions.items():
            setattr(stand_in, name, function)
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
        monkeypatch.setattr(ociruntime.runtime.lifecycle, module, stand_in, raising=False)
        monkeypatch.delitem(sys.modules, f"ociruntime.runtime.cli.{module}", raising=False)

    return install
