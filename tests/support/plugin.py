"""Fixtures: the runtime under test, bundles, containers, and the check for stale state."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.startup import snapshot
from ociruntime.startup.snapshot_modules import PROGRAMS
from tests.support import (
    canary,
    cgroupfs,
    isolation,
    leaks,
    ordinary_user,
    processes,
    rootfs,
    static_program,
)
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.runtime import Runtime, kind_of

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROBE_SOURCE = REPOSITORY / "tests" / "probe" / "probe.c"
HOSTILE_SOURCES = sorted((REPOSITORY / "tests" / "attacks").glob("hostile*.c"))
POD_RUNTIMES = Path("/run/ocipod")
TAG = f"oct{os.getpid():x}x"

MakeBundle = Callable[..., Bundle]
MakeContainer = Callable[..., Container]
Probe = Callable[..., dict[str, Any]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deviates(**reasons): a peer is known to do otherwise")
    config.addinivalue_line("markers", "judge_by(*kinds): only these runtimes have the feature")


def runtime_path(config: pytest.Config) -> Path | None:
    """Return the program to test: from the option, environment, build or PATH."""
    given = config.getoption("--runtime") or os.environ.get("OCIRUNTIME_UNDER_TEST")
    if given:
        return Path(given).absolute()
    built = REPOSITORY / ".venv" / "bin" / "ociruntime"
    if built.exists():
        return built
    found = shutil.which("ociruntime")
    return Path(found) if found else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = [item for item in items if "runtime" in getattr(item, "fixturenames", ())]
    if not wanted:
        return
    path = runtime_path(config)
    kind = kind_of(path) if path and os.access(path, os.X_OK) else "none"
    for item in wanted:
        _mark(item, path, kind)
    if config.getoption("--snapshot") != "own":
        reason = "with --snapshot there are others in its snapshots' places"
        for item in items:
            if item.path.name.startswith("test_snapshot"):
                item.add_marker(pytest.mark.skip(reason=reason))


def _is_attack(item: pytest.Item) -> bool:
    return "attacks" in item.path.parts


def _mark(item: pytest.Item, path: Path | None, kind: str) -> None:
    item.add_marker(pytest.mark.root)
    if os.geteuid() != 0:
        item.add_marker(pytest.mark.skip(reason="needs root"))
    elif kind == "none":
        item.add_marker(pytest.mark.skip(reason=f"no runtime to test at {path}"))
    for mark in item.iter_markers("deviates"):
        if kind in mark.kwargs:
            reason = f"{kind}: {mark.kwargs[kind]}"
            # An attack that a peer lets through fails an assertion; what breaks shows nothing.
            raises = (AssertionError, pytest.fail.Exception) if _is_attack(item) else None
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False, raises=raises))
    for mark in item.iter_markers("judge_by"):
        if kind not in mark.args:
            reason = f"{kind} has none; only {', '.join(mark.args)}"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def pod_runtimes() -> Iterator[None]:
    """Remove what runtimes keep for all pods (roots, compiled filters) after the session.

    Such files have hidden names (.seccomp, crun's .cache); other names would be containers.
    """
    before = set(POD_RUNTIMES.glob("*"))
    was_there = POD_RUNTIMES.exists()
    yield
    for root in set(POD_RUNTIMES.glob("*")) - before:
        for kept in root.glob(".*"):
            shutil.rmtree(kept)
        assert not os.listdir(root), f"containers are left in {root}"
        root.rmdir()
    if not was_there and POD_RUNTIMES.exists():
        POD_RUNTIMES.rmdir()


@pytest.fixture(scope="session", autouse=True)
def startup_snapshots() -> Iterator[None]:
    """Remove the snapshots made outside the session's mount namespace after the session."""
    if os.geteuid() != 0:  # an ordinary user's are in XDG_RUNTIME_DIR
        yield
        return
    places = [snapshot.location({}, 0, program).removeprefix("/run/") for program in PROGRAMS]
    # A descriptor leads to the host's directory also after the session has left its mounts.
    run = os.open("/run", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    absent = [place for place in places if not Path("/run", place).exists()]
    yield
    for place in absent:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place, dir_fd=run)
    os.close(run)


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """The session's directory, which every user may enter (mapped roots must)."""
    path = Path(tempfile.mkdtemp(prefix="ociruntime-test-", dir="/var/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def programs(base: Path) -> dict[str, Path]:
    """Static programs for every root filesystem, by their path in it."""
    built = base / "programs"
    built.mkdir()
    shutil.copy(rootfs.BUSYBOX, built / "busybox")
    static_program.build(built / "probe", PROBE_SOURCE)
    return {"bin/busybox": built / "busybox", "bin/probe": built / "probe"}


@pytest.fixture(scope="session")
def hostile(base: Path) -> Path:
    """The static program that tries to reach the host; see tests/attacks/hostile.c."""
    flags = ("-std=c11", *static_program.FLAGS)
    return static_program.build(base / "hostile", *HOSTILE_SOURCES, flags=flags)


@pytest.fixture(scope="session")
def isolated(base: Path, programs_unchanged: None, pytestconfig: pytest.Config) -> Iterator[None]:
    """The session's private mount namespace; see tests/support/isolation.py."""
    isolation.enter()
    _place_snapshots(pytestconfig)
    with contextlib.ExitStack() as stack:
        if pytestconfig.getoption("--part") == "pods":  # beside engines, with networks of theirs
            stack.enter_context(isolation.own_network())
        stack.enter_context(cgroupfs.unmounted_as_mounted())
        yield
        processes.end(processes.descendants())
        processes.reap_orphans()


def _place_snapshots(config: pytest.Config) -> None:
    """Write files in place of the snapshots that no program starts from or replaces."""
    kind, runtime = config.getoption("--snapshot"), runtime_path(config)
    if kind == "own" or os.geteuid() != 0 or runtime is None:
        return
    for program in PROGRAMS:
        path = Path(snapshot.location({}, 0, program))
        path.parent.mkdir(mode=snapshot.DIRECTORY_MODE, exist_ok=True)
        if kind == "foreign":
            subprocess.run([runtime, "snapshot", "make", program], check=True)
            os.chown(path, 1, 1)
        else:
            path.touch(mode=0o600)  # as after an attempt that showed that there can be none


@pytest.fixture(scope="session")
def hugetlb_for_crun(isolated: None, pytestconfig: pytest.Config) -> Iterator[None]:
    """Mount the controller where crun looks for it, if crun is tested."""
    path = runtime_path(pytestconfig)
    with contextlib.ExitStack() as stack:
        if path is not None and kind_of(path) == "crun":
            try:
                stack.enter_context(cgroupfs.hugetlb_as_v1())
            except OSError as error:
                pytest.skip(f"crun has no hugetlb of cgroup v1 here: {error}")
        yield


@pytest.fixture(scope="session")
def user_database(base: Path, isolated: None) -> Iterator[None]:
    """Add the tests' ordinary user to the host's user database for this session."""
    place = base / "etc"
    place.mkdir()
    place.chmod(0o755)
    with ordinary_user.known(place):
        yield


@pytest.fixture(scope="session")
def state_root(base: Path) -> Path:
    return base / "state"


@pytest.fixture(scope="session")
def runtime(hugetlb_for_crun: None, state_root: Path, pytestconfig: pytest.Config) -> Runtime:
    """The runtime under test with the session's state root."""
    path = runtime_path(pytestconfig)
    assert path is not None
    return Runtime(path, state_root)


@pytest.fixture
def nothing_left(
    runtime: Runtime, state_root: Path, work: Path, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Fail if the test leaves anything behind; remove it in any case."""
    before = leaks.snapshot(state_root, TAG)
    yield
    processes.until(lambda: not processes.descendants() - before.processes, 3)
    processes.reap_orphans()
    found = leaks.difference(before, leaks.snapshot(state_root, TAG))
    if not found:
        return
    leaks.clear(before, state_root, TAG)
    deviation = request.node.get_closest_marker("deviates")
    if deviation is None or runtime.kind not in deviation.kwargs:
        pytest.fail("left behind: " + "; ".join(found), pytrace=False)


class Canary:
    """The changes of the host by the test so far: ``changes()`` returns a line for each."""

    def __init__(self) -> None:
        self._before = canary.snapshot()

    def changes(self) -> list[str]:
        return canary.changes(self._before)

    def restore(self) -> None:
        canary.restore(self._before)


def _uses_host(item: pytest.Item) -> bool:
    return "isolated" in getattr(item, "fixturenames", ()) and os.geteuid() == 0


def _is_own(config: pytest.Config) -> bool:
    path = runtime_path(config)
    return path is None or path.name not in {Path(peer).name for peer in canary.PEERS}


@pytest.fixture(autouse=True)
def host_unchanged(request: pytest.FixtureRequest) -> Iterator[Canary | None]:
    """Fail if a test with containers has changed the host; see tests/support/canary.py."""
    if not _uses_host(request.node):
        yield None
        return
    request.getfixturevalue("isolated")
    one = Canary()
    yield one
    found = one.changes()
    if found and canary.may_pass(found):
        processes.until(lambda: not one.changes(), 3)
        found = one.changes()
    if found:
        one.restore()
    # Peers are judged by attacks alone: crun changes the owner of the host's /dev/null each time.
    if found and (_is_own(request.config) or _is_attack(request.node)):
        pytest.fail("the host changed: " + "; ".join(found), pytrace=False)


@pytest.fixture(scope="session")
def programs_unchanged() -> Iterator[None]:
    """Hash the runtimes' programs at the start and the end of the session."""
    before = canary.program_hashes()
    yield
    found = canary.compare("program", before, canary.program_hashes())
    assert not found, found


@pytest.fixture
def work(base: Path, isolated: None) -> Iterator[Path]:
    """A directory for one test."""
    path = Path(tempfile.mkdtemp(prefix="t-", dir=base))
    path.chmod(0o755)
    yield path
    for target in sorted(leaks.mount_table().values(), reverse=True):
        if target.startswith(f"{path}/"):
            isolation.unmount(target)
    shutil.rmtree(path)


@pytest.fixture
def bundle(work: Path, programs: dict[str, Path]) -> MakeBundle:
    """Create a bundle: ``bundle("sleep", "100")``; its config is a dictionary to edit."""
    count = 0

    def make(*args: str) -> Bundle:
        nonlocal count
        count += 1
        path = work / f"bundle{count}"
        rootfs.build(path / "rootfs", programs)
        return Bundle(path, args or ("sleep", "100"))

    return make


@pytest.fixture
def container(runtime: Runtime, bundle: MakeBundle, nothing_left: None) -> Iterator[MakeContainer]:
    """Create a container of a bundle, by default one that sleeps; deleted after the test."""
    made: list[Container] = []

    def make(of: Bundle | None = None, name: str = "") -> Container:
        chosen = name or f"{TAG}{len(made)}"
        made.append(Container(runtime, chosen, of if of is not None else bundle()))
        return made[-1]

    yield make
    try:
        # The last first: who joined a pid namespace has to be reaped before its init can end.
        for one in reversed(made):
            one.finish()
            processes.reap_orphans()
    finally:
        for one in made:
            one.close()


@pytest.fixture
def probe(container: MakeContainer, bundle: MakeBundle) -> Probe:
    """Run /bin/probe in the foreground and return its report; see tests/probe/probe.c."""
    import json

    def look(of: Bundle | None = None, *flags: str, **how: Any) -> dict[str, Any]:  # noqa: ANN401
        chosen = of if of is not None else bundle()
        if chosen.process["args"][0] != "/bin/probe":
            chosen.args("/bin/probe")
        result = container(chosen).run(*flags, **how).ok()
        facts: dict[str, Any] = json.loads(result.out)
        return facts

    return look
