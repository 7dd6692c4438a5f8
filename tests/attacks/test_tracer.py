"""A process with CAP_SYS_PTRACE in a shared pid namespace traces every new process.

If it could seize a process of the runtime that has more privileges than the configuration grants,
or no filter yet, it could control the host (CVE-2016-9962).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ociruntime.base.capabilities import CAPABILITIES
from tests.support import processes, static_program
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer

SOURCE = Path(__file__).with_name("tracer.c")
PROFILE = Path(__file__).resolve().parent.parent / "data" / "seccomp_profile.json"
# What the victims are granted, and what the tracer has besides.
GRANTED = ("CAP_CHOWN", "CAP_KILL")
OF_THE_TRACER = (*GRANTED, "CAP_SYS_PTRACE")

Tries = Callable[[int, int], int]


class Kind:
    """One combination of settings; ``sets`` applies it to the bundles of both containers."""

    def __init__(self, no_new_privileges: bool, filtered: bool, user: bool) -> None:
        self.no_new_privileges = no_new_privileges
        self.filtered = filtered
        self.user = user

    def sets(self, bundle: Bundle, capabilities: tuple[str, ...]) -> Bundle:
        bundle.process["noNewPrivileges"] = self.no_new_privileges
        bundle.capabilities(*capabilities)
        if self.filtered:
            bundle.linux["seccomp"] = json.loads(PROFILE.read_text())
        if self.user:
            bundle.user_namespace()
        return bundle

    def joins(self, bundle: Bundle, other: Container) -> Bundle:
        """Join the pid namespace of ``other``, and the user namespace that owns it."""
        bundle.namespace("pid", f"/proc/{other.pid}/ns/pid")
        if self.user:
            bundle.namespace("user", f"/proc/{other.pid}/ns/user")
            del bundle.linux["uidMappings"], bundle.linux["gidMappings"]
        return bundle

    def __str__(self) -> str:
        words = [
            "no-new-privileges" if self.no_new_privileges else "new-privileges",
            "filter" if self.filtered else "no-filter",
            *(["user-namespace"] if self.user else []),
        ]
        return "-".join(words)


KINDS = [
    Kind(no_new_privileges, filtered, user)
    for no_new_privileges in (True, False)
    for filtered in (True, False)
    for user in (False, True)
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=str)


@pytest.fixture(scope="session")
def tracer(base: Path) -> Path:
    """Build the tracer, a static program."""
    # Fast: what it is after is there for microseconds.
    return static_program.build(base / "tracer", SOURCE, flags=(*static_program.FLAGS, "-O2"))


@pytest.fixture
def neighbour(bundle: MakeBundle, tracer: Path) -> Callable[..., Bundle]:
    """Create the bundle of a container that traces all other processes in its pid namespace."""

    def make(kind: Kind, *words: str) -> Bundle:
        made = bundle("/bin/tracer", *words)
        (made.rootfs / "bin" / "tracer").write_bytes(tracer.read_bytes())
        (made.rootfs / "bin" / "tracer").chmod(0o755)
        return kind.sets(made, OF_THE_TRACER)

    return make


def seized(neighbour: Container) -> list[tuple[str, int, int, int, int]]:
    """Return (name, permitted, effective, bounding, seccomp mode) of each seized process."""
    found = []
    for line in neighbour.output.splitlines():
        word, *rest = line.split()
        if word == "seized" and rest[-1] == "own":
            name, permitted, effective, bounding, mode = rest[-6:-1]
            sets = (int(permitted, 16), int(effective, 16), int(bounding, 16))
            found.append((name, *sets, int(mode)))
    return found


def judge(neighbour: Container, kind: Kind, granted: tuple[str, ...]) -> None:
    """Assert that it has seized a process, and none with more privileges than ``granted``."""
    allowed = sum(1 << CAPABILITIES.index(name) for name in granted)
    # The program itself is its to seize: so it is known that it can.
    assert processes.until(lambda: bool(seized(neighbour))), neighbour.output
    mode = 2 if kind.filtered else 0
    excessive = [
        f"{name}: permitted {permitted:#x}, effective {effective:#x}, bounding {bounding:#x},"
        f" seccomp {found}"
        for name, permitted, effective, bounding, found in seized(neighbour)
        if (permitted | effective | bounding) & ~allowed or found != mode
    ]
    assert excessive == []


@deviates(runc="builds the container inside", crun="builds the container inside")
@kinds
def test_tracer_beside_containers_that_join(
    container: MakeContainer,
    bundle: MakeBundle,
    neighbour: Callable[..., Bundle],
    kind: Kind,
    tries: Tries,
) -> None:
    """The tracer's container owns the pid namespace that other containers join."""
    watching = container(neighbour(kind)).started()
    watching.wait_output("tracing\n")
    victim = kind.joins(kind.sets(bundle("sleep", "0.01"), GRANTED), watching)
    for _ in range(tries(40, 1000)):
        one = container(victim).started()
        one.finish()
        one.close()
        processes.reap_orphans()
    judge(watching, kind, GRANTED)


@deviates(runc="joins before it gives up privileges", crun="the same")
@kinds
def test_tracer_beside_exec(
    container: MakeContainer, neighbour: Callable[..., Bundle], kind: Kind, tries: Tries
) -> None:
    """The tracer runs in the container that `exec` enters."""
    watching = container(neighbour(kind)).started()
    watching.wait_output("tracing\n")
    for _ in range(tries(40, 1000)):
        watching.exec("sleep", "0.005").ok()
    judge(watching, kind, OF_THE_TRACER)


@pytest.fixture
def waiting(container: MakeContainer, bundle: MakeBundle) -> Callable[[Kind], Container]:
    """Create a container that waits for `start`."""

    def make(kind: Kind) -> Container:
        return container(kind.sets(bundle(), GRANTED)).created()

    return make


@deviates(runc="a process of its own is seized with all capabilities")
@kinds
def test_tracer_that_joins_a_created_container(
    container: MakeContainer,
    neighbour: Callable[..., Bundle],
    waiting: Callable[[Kind], Container],
    kind: Kind,
    tries: Tries,
) -> None:
    """The init waits for `start` with its final privileges already in place."""
    for _ in range(tries(1, 20)):
        victim = waiting(kind)
        watching = container(kind.joins(neighbour(kind, "all"), victim))
        watching.started().wait_output("tracing\n")
        victim.start().silent()
        judge(watching, kind, GRANTED)
        watching.finish()
        processes.reap_orphans()  # of which the end of the pid namespace waits
        victim.finish()
