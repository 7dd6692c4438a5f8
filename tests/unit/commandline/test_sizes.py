"""Sizes on the command line."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.sizes import byte_count


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("-1", -1),
        ("512", 512),
        ("512b", 512),
        ("50M", 50 << 20),
        ("50m", 50 << 20),
        ("50MB", 50 << 20),
        ("50MiB", 50 << 20),
        ("1.5g", 3 << 29),
        ("2 k", 2048),
        ("1T", 1 << 40),
        ("3P", 3 << 50),
        ("0.5", 0),
        (str((1 << 60) - 1), None),
        ("9223372036854775808", None),
        ("8192P", None),
        ("", None),
        ("M", None),
        ("abc", None),
        ("-2", None),
        ("1X", None),
        ("1MM", None),
        ("1iM", None),
        ("1.M", None),
        (".5M", None),
        ("1.2.3", None),
        ("0x10", None),
        ("1e3", None),
        ("٣", None),
    ],
)
def test_byte_count(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(UsageError, match="invalid value for --memory: invalid size"):
            byte_count(text, "memory")
    else:
        assert byte_count(text, "memory") == size
