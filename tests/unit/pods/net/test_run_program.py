"""``run_program``: programs such as network plugins, when descriptors are scarce."""

from __future__ import annotations

import os
import resource

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net.run_program import run_program

NEEDED = 6  # the input, two pipes, the pidfd


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("free", range(NEEDED))
def test_too_few_descriptors(free: int) -> None:
    before = descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.open("/dev/null", os.O_RDONLY)
    os.close(first)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + free, hard))
    try:
        with pytest.raises(NetworkError, match="too many open files"):
            run_program(["/bin/cat"], b"input", 10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert descriptors() == before


def test_enough_descriptors() -> None:
    before = descriptors()
    assert run_program(["/bin/cat"], b"input", 10) == (0, b"input", b"")
    assert descriptors() == before
