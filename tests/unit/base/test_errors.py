"""Messages about a document's value."""

from __future__ import annotations

import errno
import importlib
from pathlib import Path

import pytest

from ociruntime.base.errors import ConfigError, HostError, InternalError, unhandled


def test_longest_path_is_told_whole() -> None:
    path = "/" + "x" * 4095
    assert str(ConfigError("root.path", f"{path} is no directory")).endswith(
        f"{path} is no directory"
    )


def test_longer_values_are_cut_and_the_fault_is_told() -> None:
    text = str(ConfigError("a" * 9000, "\n" * 9000 + " is bad", "do better"))
    assert len(text) < 5000
    assert text.startswith("aaa")
    assert text.endswith("\\n is bad (do better)")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EIO, "Input/output error"), "run it: input/output error"),
        (OSError(errno.EIO, "I/O error", "/a"), 'run it: "/a": i/O error'),
        (OSError(errno.EIO, "I/O error", b"/a\xff"), 'run it: "/a\ufffd": i/O error'),
        (OSError(errno.EIO, "I/O error", 3), "run it: i/O error"),
        (MemoryError(), "run it: cannot allocate memory"),
        (RuntimeError("can't start new thread"), "run it: can't start new thread"),
    ],
)
def test_what_the_kernel_refuses_is_no_bug(error: Exception, text: str) -> None:
    found = unhandled("run it", error)
    assert isinstance(found, HostError)
    assert str(found) == text


def test_module_that_cannot_be_loaded() -> None:
    found = unhandled("run it", ModuleNotFoundError("No module named 'x'"))
    assert not isinstance(found, InternalError)
    assert str(found).startswith("run it: No module named 'x' (")


@pytest.mark.parametrize("error", [ValueError("a\nb"), OSError(errno.EBADF, "Bad descriptor")])
def test_the_rest_is_a_bug(error: Exception) -> None:
    found = unhandled("run it", error)
    assert isinstance(found, InternalError)
    assert type(error).__name__ in str(found)


def test_module_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete standard library is not reported as an internal error."""
    (tmp_path / "failing_module.py").write_text("import os\nos.no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AttributeError) as caught:
        importlib.import_module("failing_module")
    found = unhandled("run it", caught.value)
    assert not isinstance(found, InternalError)
    assert str(found).startswith("run it: load a module: AttributeError: ")
