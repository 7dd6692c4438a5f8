"""A process that traces a process of the runtime sends messages in its name.

The message with the pid of the container's init decides which process the runtime kills after a
failure, and which pid it records.  It must not name another process of the caller.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime import Runtime as Library
from ociruntime import RuntimeFailure
from tests.support import processes, static_program
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer

pytestmark = judge_by("ociruntime")

SOURCE = Path(__file__).with_name("forge.c")
CAPABILITIES = ("CAP_KILL", "CAP_SYS_PTRACE")


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A child process of the program that calls the runtime."""
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield child
        child.kill()


def test_neighbour_names_another_child(
    container: MakeContainer,
    bundle: MakeBundle,
    victim: subprocess.Popen[bytes],
    tries: Callable[[int, int], int],
) -> None:
    made = bundle("/bin/forge", str(victim.pid)).capabilities(*CAPABILITIES)
    static_program.build(made.rootfs / "bin/forge", SOURCE, flags=(*static_program.FLAGS, "-O2"))
    neighbour = container(made).started()
    neighbour.wait_output("forging\n")
    library = Library(neighbour.runtime.root)
    quiet = subprocess.DEVNULL
    for _ in range(tries(60, 1000)):
        try:
            with library.exec(
                neighbour.id, ["sleep", "0.005"], stdin=quiet, stdout=quiet, stderr=quiet
            ) as process:
                assert process.pid != victim.pid
                process.wait(10)
        except RuntimeFailure:
            pass  # the message was not believed
        assert victim.poll() is None
    assert "forged" in neighbour.output
    # Our children that it still traces can be reaped only once it has exited, and its
    # namespace ends only once they are.
    neighbour.kill("KILL")

    def ended() -> bool:
        processes.reap_orphans()
        return not processes.alive(neighbour.pid)

    assert processes.until(ended)
