"""Marks for tests that a peer is known not to pass, or that need one cgroup version."""

from __future__ import annotations

import pytest


def deviates(**reasons: str) -> pytest.MarkDecorator:
    """The named runtimes do otherwise, with the reason: ``@deviates(runc="...")``.

    The specification's reading is what the test states; ociruntime has to pass.
    """
    return pytest.mark.deviates(**reasons)


def judge_by(*kinds: str) -> pytest.MarkDecorator:
    """Only these runtimes have what is tested (a command of their own)."""
    return pytest.mark.judge_by(*kinds)
