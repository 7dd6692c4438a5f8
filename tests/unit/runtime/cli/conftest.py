"""Commands without containers: the runtime's functions are replaced."""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING

import pytest

import ociruntime.runtime.lifecycle
from ociruntime.runtime.cli.command_table import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``fake("state", state=function)`` stands in for ``ociruntime.runtime.lifecycle.state``."""

    def install(module: str, **functions: Callable[..., object]) -> None:
        stand_in = types.ModuleType(f"ociruntime.runtime.lifecycle.{module}")
        vars(stand_in).update(vars(importlib.import_module(stand_in.__name__)))
        for name, function in functions.items():
            setattr(stand_in, name, function)
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
        monkeypatch.setattr(ociruntime.runtime.lifecycle, module, stand_in, raising=False)
        for families in GROUPS.values():
            for family in families:
                monkeypatch.delitem(sys.modules, f"ociruntime.runtime.cli.{family}", raising=False)

    return install
