"""How `exec` handles an executor's messages that another process may have forged."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import StepError
from ociruntime.runtime.executor.protocol import SHORT
from ociruntime.runtime.lifecycle.exec_steps import Execution
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops


def test_an_announcement_before_the_pid_is_no_success() -> None:
    """The pid is still that of the parent, which leaves: `exec` would wait for that."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    execution: Any = Execution.__new__(Execution)
    operations = [o.clone_process(terminal=0), o.exec(args=["true"], env=[])]
    pidfd = os.pidfd_open(os.getpid())
    execution.executor = SimpleNamespace(
        channel=ours, pidfd=pidfd, plan=SimpleNamespace(operations=operations)
    )
    execution._container = SimpleNamespace(alive=lambda: True, id="c")
    execution._caught = None
    execution._listener = -1
    execution._forks = True
    try:
        theirs.send(SHORT.pack(ops.MESSAGE_EXEC, 0, 0, 0))
        theirs.close()
        with pytest.raises(StepError):
            execution._converse()
    finally:
        ours.close()
        os.close(pidfd)
