"""Privileges that a thread of the tests drops temporarily."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

CAP_NET_ADMIN = 12
_VERSION_3 = 0x20080522  # two words for each set: effective, permitted, inheritable
_Sets = ctypes.c_uint32 * 6
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def without(capability: int) -> Iterator[None]:
    """Context manager: drop a capability in this thread."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    before = _Sets()
    assert _libc.capget(header, before) == 0
    less = _Sets(*before)
    word, bit = divmod(capability, 32)
    less[3 * word] &= ~(1 << bit)
    assert _libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert _libc.capset(header, before) == 0
