"""The error for an init that exited without a message."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create_steps import Creation


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"memory": {"limit": 4096}}, "linux.resources.memory.limit: 4096 bytes"),
        ({"memory": {"swap": 4096}}, "OOM-killed (it has no"),
        ({}, "OOM-killed (it has no"),
    ],
)
def test_killed_for_want_of_memory(resources: Any, words: str) -> None:  # noqa: ANN401
    """The kernel also counts what a limit further up has killed."""
    cgroup = SimpleNamespace(oom_killed=lambda: True, unit="")
    prepared: Any = SimpleNamespace(cgroup=cgroup, resources=resources)
    creation = Creation(Context("/nowhere", Log()), CreateOptions("c1", "/nowhere"), prepared)
    assert words in str(creation._vanished())
