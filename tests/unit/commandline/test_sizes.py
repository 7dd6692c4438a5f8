"""Sizes on the command line."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.sizes import byte_count, milli_cpus


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
        ("2Ki", 2048),
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


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("1", 1000),
        ("1.5", 1500),
        ("500m", 500),
        ("0.01", 10),
        ("4096", 4096000),
        ("0.3333", 333),
        ("0.009", None),
        ("4097", None),
        ("9m", None),
        ("1.5m", None),
        ("1.", 1000),
        (".5", 500),
        ("m", None),
        ("", None),
        ("-1", None),
        ("1e3", None),
        ("9" * 19, None),
        ("²", None),
    ],
)
def test_cpus(text: str, milli: int | None) -> None:
    if milli is None:
        with pytest.raises(UsageError, match="--cpu: "):
            milli_cpus(text, "--cpu")
    else:
        assert milli_cpus(text, "--cpu") == milli
