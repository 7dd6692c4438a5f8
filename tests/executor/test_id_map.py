"""The short-lived process that holds id maps, and its protection from other processes."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from ociruntime.runtime.plan import operation_constructors as o
from tests.support.executor import plan_of, run, shell
from tests.support.refusal import kill_on_prctl, libc

pytestmark = [
    pytest.mark.usefixtures("nothing_left", "each_build"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
CAP_SYS_PTRACE = 19


def closed_to_all() -> None:
    kill_on_prctl(PR_SET_DUMPABLE, 1)


def without_ptrace() -> None:
    assert libc.prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0) == 0


@pytest.mark.parametrize("prepare", [closed_to_all, without_ptrace])
def test_holder_is_opened_only_if_it_must_be(prepare: Callable[[], None]) -> None:
    """It stands in the host's root, and root of the host's ids owns its user namespace.

    So a container with the host's pids and no privileges could trace it.
    """
    maps = o.id_map(slot=0, uid_map="0 1000 10\n", gid_map="0 1000 10\n")
    run(plan_of(maps, shell("true")), prepare=prepare).ok()
