"""The library, used by a program that also does other things (docs/api.md)."""

from __future__ import annotations

import _thread
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import ociruntime
from ociruntime import Process, Runtime
from tests.support import project
from tests.support.bundle import Bundle
from tests.support.descriptors import open_descriptors
from tests.support.plugin import TAG, MakeBundle
from tests.support.runtime import Runtime as Command

EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", (project.ROOT / "docs/api.md").read_text("utf-8"), re.M | re.S
)
NAME = f"{TAG}api"


@pytest.fixture
def library(runtime: Command) -> Runtime:
    return Runtime(runtime.root)


@pytest.fixture
def sleeper(bundle: MakeBundle) -> Bundle:
    made = bundle().args("sleep", "1000")
    return made.save()


@pytest.fixture
def created(library: Runtime, sleeper: Bundle) -> Iterator[Process]:
    quiet = subprocess.DEVNULL
    with library.create(NAME, sleeper.path, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        yield process
        library.delete(NAME, force=True)
        try:
            process.wait(10)
        except ChildProcessError:
            pass  # the test has seen the end


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str, runtime: Command, bundle: MakeBundle, work: Path) -> None:
    """In a normal interpreter, as a user runs them."""
    hello, sleeper = bundle().shell("echo hello; exit 3"), bundle().args("sleep", "1000")
    for made in (hello, sleeper):
        made.save()
    root = work / "root"
    root.mkdir()
    names = {"ROOT": str(root), "BUNDLE": str(hello.path), "SLEEPER": str(sleeper.path)}
    lines = [f"{name} = {value!r}" for name, value in names.items()]
    program = work / "example.py"
    program.write_text("\n".join([*lines, example]))
    with (work / "said").open("w+") as said:
        done = subprocess.run(
            [sys.executable, "-W", "error", program],
            cwd=project.ROOT,
            env={**os.environ, "PYTHONPATH": str(project.ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    text = (work / "said").read_text()
    assert (done.returncode, text.replace("hello\n", "")) == (0, "")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


def own_state() -> dict[str, object]:
    """Return the state of the process that a library must not change."""
    status = Path("/proc/self/status").read_text()
    kept = [line for line in status.splitlines() if line.startswith(("Sig", "Shd", "Umask", "Cap"))]
    return {
        "directory": os.getcwd(),
        "status": [line for line in kept if not line.startswith("SigQ")],
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "environment": dict(os.environ),
    }


class Held:
    """Descriptors and threads; those of earlier tests may vanish meanwhile."""

    def __init__(self) -> None:
        self._descriptors = set(open_descriptors())
        self._threads = set(threading.enumerate())

    def is_all(self) -> bool:
        """Return whether no further events arrive."""
        now = Held()
        return now._descriptors <= self._descriptors and now._threads <= self._threads


def test_nothing_of_the_caller_changes(library: Runtime, bundle: MakeBundle, work: Path) -> None:
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"pwd >>{work}/where"], "timeout": 10}
    made = bundle().shell("exit 5")
    made.config["hooks"] = {kind: [hook] for kind in ("createRuntime", "poststart", "poststop")}
    made.save()
    reaper = subreaper()
    _thread.start_new_thread(int, ())  # the C library keeps a signal for threads
    before, held = own_state(), Held()
    for _ in range(2):
        assert library.run(NAME, made.path) == 5
    made.hooks["createRuntime"] = [{"path": "/bin/false"}]
    made.save()
    with pytest.raises(ociruntime.HookError):
        library.create(NAME, made.path)
    made.args("/no/such/program").hooks.clear()
    made.save()
    with pytest.raises(ociruntime.StepError):
        library.run(NAME, made.path)
    assert own_state() == before
    assert held.is_all()
    assert no_children()
    assert subreaper() == reaper
    assert set((work / "where").read_text().split()) == {str(made.path)}


def no_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def subreaper() -> int:
    import ctypes

    found = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(37, ctypes.byref(found), 0, 0, 0) == 0
    return found.value


def test_streams(library: Runtime, bundle: MakeBundle, work: Path) -> None:
    made = bundle().shell("cat; echo error >&2")
    made.save()
    (work / "in").write_text("given\n")
    with (work / "in").open() as given, (work / "both").open("w") as both:
        assert library.run(NAME, made.path, stdin=given, stdout=both, stderr=both) == 0
    assert (work / "both").read_text() == "given\nerror\n"


def test_streams_that_stand_for_one_another(
    library: Runtime, bundle: MakeBundle, work: Path
) -> None:
    """Descriptor 1 becomes 2, and 2 becomes 1."""
    made = bundle().shell("echo out; echo error >&2; ls /proc/self/fd | wc -l")
    made.save()
    program = f"""
import ociruntime
runtime = ociruntime.Runtime({library.root!r})
raise SystemExit(runtime.run({NAME!r}, {str(made.path)!r}, stdout=2, stderr=1))
"""
    with (work / "out").open("w") as out, (work / "error").open("w") as error:
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, cwd=project.ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=error
        )
    assert done.returncode == 0
    assert (work / "out").read_text() == "error\n"
    assert (work / "error").read_text() == "out\n4\n"  # the three, and that of ls


def test_a_closed_descriptor_is_refused(library: Runtime, sleeper: Bundle) -> None:
    with pytest.raises(ociruntime.UsageError, match="stdout: descriptor 999 is not open"):
        library.create(NAME, sleeper.path, stdout=999)


def test_wait_by_id_tells_the_status_once(library: Runtime, created: Process) -> None:
    with pytest.raises(TimeoutError, match="timed out after 0"):
        library.wait(NAME, 0.05)
    library.start(NAME)
    library.kill(NAME, signal.SIGKILL)
    assert library.wait(NAME, 10) == 137
    assert library.wait(NAME, 10) is None
    with pytest.raises(ChildProcessError):
        created.wait(10)


def test_wait_for_another_ones_container(
    library: Runtime, runtime: Command, sleeper: Bundle
) -> None:
    runtime("create", "--bundle", str(sleeper.path), NAME).silent()
    try:
        runtime("start", NAME).silent()
        assert library.state(NAME).status == "running"
        library.kill(NAME, signal.SIGKILL)
        # The tests' process takes in orphans: it is its parent in the end.
        assert library.wait(NAME, 10) in (None, 137)
    finally:
        library.delete(NAME, force=True)


def test_the_command_sees_the_container(
    library: Runtime, runtime: Command, created: Process
) -> None:
    assert f'"pid": {created.pid}' in runtime("state", NAME).ok().out
    runtime("start", NAME).silent()
    assert library.state(NAME).status == "running"
    assert library.state(NAME).pid == created.pid


def test_exec_has_its_streams_and_settings(library: Runtime, created: Process, work: Path) -> None:
    library.start(NAME)
    with (work / "out").open("w") as out:
        script = "echo $A; pwd; id -u; id -g"
        with library.exec(
            NAME, ["sh", "-c", script], env={"A": "b"}, cwd="/tmp", user="7:8", stdout=out
        ) as process:
            assert process.wait(10) == 0
            assert process.wait() == 0
    assert (work / "out").read_text().split() == ["b", "/tmp", "7", "8"]
    with pytest.raises(ociruntime.StepError, match="no/such/program"):
        library.exec(NAME, ["/no/such/program"])


def test_many_threads(library: Runtime, bundle: MakeBundle) -> None:
    made = bundle().shell("exit 4")
    made.save()
    before, held = own_state(), Held()
    found: list[int] = []

    def life(number: int) -> None:
        found.append(library.run(f"{NAME}{number}", made.path))

    threads = [threading.Thread(target=life, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4] * 6
    assert own_state() == before
    assert held.is_all()
    assert library.list() == ()


def test_an_interrupt_comes_after_the_step(
    library: Runtime, bundle: MakeBundle, work: Path
) -> None:
    """The container is complete, and `run` removes it."""
    made = bundle().args("sleep", "1000")
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"kill -INT {os.getpid()}; sleep 0.2"]}
    made.config["hooks"] = {"createRuntime": [hook]}
    made.save()
    with pytest.raises(KeyboardInterrupt):
        library.create(NAME, made.path)
    assert library.state(NAME).status == "created"
    library.kill(NAME, signal.SIGKILL)
    assert library.wait(NAME, 10) == 137
    library.delete(NAME)
    with pytest.raises(KeyboardInterrupt):
        library.run(NAME, made.path)
    assert library.list() == ()


def test_a_services_sockets_are_its_own(runtime: Command, bundle: MakeBundle, work: Path) -> None:
    made = bundle().shell("echo ${LISTEN_FDS-none} ${NOTIFY_SOCKET-none}; ls /proc/self/fd")
    made.save()
    program = f"""
import os
import ociruntime
os.environ["LISTEN_PID"] = str(os.getpid())
runtime = ociruntime.Runtime({str(runtime.root)!r})
raise SystemExit(runtime.run({NAME!r}, {str(made.path)!r}))
"""
    start = "LISTEN_PID=$$ exec " + sys.executable + ' -c "$0" 3</dev/null'
    environment = {**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": "@nobody"}
    with (work / "out").open("w") as out:
        done = subprocess.run(
            ["sh", "-c", start, program],
            cwd=project.ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    assert (done.returncode, (work / "out").read_text().split()) == (
        0,
        ["none", "none", "0", "1", "2", "3"],
    )


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = vars(ociruntime)["__getattr__"]("nothing")
    with pytest.raises(ociruntime.UsageError, match="cgroup_manager"):
        Runtime(cgroup_manager="runc")  # type: ignore[arg-type]


def test_a_refused_limit_leaves_nothing_open(library: Runtime, sleeper: Bundle) -> None:
    """The descriptors of the cgroups' ``tasks`` files are open by then."""
    sleeper.linux["resources"] = {"cpu": {"quota": 1, "period": 100000}}
    sleeper.save()
    before = open_descriptors()
    with pytest.raises(ociruntime.RuntimeFailure, match="quota"):
        library.create(NAME, sleeper.path)
    assert open_descriptors() == before
