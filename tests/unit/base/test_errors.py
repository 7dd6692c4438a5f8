"""Messages about a document's value."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError


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
