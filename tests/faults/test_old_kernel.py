"""All commands where the kernel, or an outer seccomp filter, lacks one system call."""

from __future__ import annotations

import ctypes
import os
import traceback
from collections.abc import Callable

import pytest

from tests.support import isolation, refusal
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import ENOSYS, EPERM, MOUNT_API

pytestmark = judge_by("ociruntime")

EINVAL = 22
MFD_NOEXEC_SEAL, MFD_EXEC = 8, 16
WORDS = {ENOSYS: "function not implemented", EPERM: "operation not permitted"}
# What the runtime does without: each call alone, and the mount API as a whole.
DISPENSABLE = [
    *((name,) for name in ("openat2", "mount_setattr", "close_range", "faccessat2", "statx")),
    ("keyctl",),
    *((name,) for name in MOUNT_API),
    MOUNT_API,
    # Linux 5.7 has none of the first, and its statx(2) does not tell the ids of mounts.
    ("mount_setattr", "close_range", "faccessat2", "statx"),
    ("openat2", "mount_setattr", "close_range", "faccessat2"),
    ("openat2", "statx"),
    ("openat2", *MOUNT_API, "mount_setattr", "close_range", "faccessat2", "statx", "keyctl"),
]
# Linux 5.7 has these.  With each the commands that cannot work without.
NEEDED = {
    "clone3": {"create"},
    "memfd_create": {"create"},
    "execveat": {"create"},
    "pidfd_open": {"start", "exec", "kill", "delete"},
    "pidfd_send_signal": {"kill", "delete"},
}


def behind(refuse: Callable[[], None], do: Callable[[], None]) -> None:
    """Run a function in a process that has loaded a filter, which its children inherit."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            isolation.adopt_orphans()
            refuse()
            do()
        except BaseException:  # noqa: BLE001 - a fork of the test must end here
            os.write(writing, traceback.format_exc()[-8000:].encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        failure = pipe.read()
    os.waitpid(pid, 0)
    assert not failure, failure


def every_command(one: Container) -> None:
    """Run all commands on one container; each must succeed."""
    one.created()
    assert one.status == "created"
    one.start().silent()
    assert one.status == "running"
    assert one.exec("echo", "inside").ok().out == "inside\n"
    one.runtime("update", "--pids-limit", "50", one.id).silent()
    one.runtime("pause", one.id).silent()
    assert one.status == "paused"
    one.runtime("resume", one.id).silent()
    one.kill("KILL").silent()
    one.wait()
    assert one.status == "stopped"
    one.delete().silent()
    one.bundle.args("sh", "-c", "exit 7")
    assert one.run().status == 7


@pytest.mark.parametrize("error", [ENOSYS, EPERM], ids=["ENOSYS", "EPERM"])
@pytest.mark.parametrize("calls", DISPENSABLE, ids="-".join)
def test_without_a_call(
    calls: tuple[str, ...], error: int, container: MakeContainer, bundle: MakeBundle
) -> None:
    made = bundle()
    made.process["oomScoreAdj"] = 100
    made.linux["sysctl"] = {"kernel.domainname": "example"}
    one = container(made)
    behind(lambda: refusal.refuse(error, *calls), lambda: every_command(one))


def test_without_flags_of_memory_files(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle())
    flags = MFD_EXEC | MFD_NOEXEC_SEAL
    behind(lambda: refusal.refuse_memfd_flags(EINVAL, flags), lambda: every_command(one))


@pytest.mark.parametrize("error", [ENOSYS, EPERM], ids=["ENOSYS", "EPERM"])
@pytest.mark.parametrize("call", NEEDED)
def test_without_a_call_that_is_needed(
    call: str, error: int, container: MakeContainer, bundle: MakeBundle
) -> None:
    """A one-line error with the kernel's words; all else works, and nothing is left."""

    def refused(*words: str) -> None:
        """A command that cannot work."""
        done = one.runtime(*words)
        assert (done.status, done.err.count("\n")) == (1, 1), done
        assert WORDS[error] in done.err, done

    def commands() -> None:
        if "create" in NEEDED[call]:
            refused("create", "--bundle", str(one.bundle.save().path), one.id)
            return
        one.created()
        for verb in ("start", "kill", "delete"):
            if verb in NEEDED[call]:
                refused(verb, one.id)

    one = container(bundle())
    behind(lambda: refusal.refuse(error, call), commands)
    one.delete("--force").ok()


def test_names_of_calls() -> None:
    """Names that --without accepts."""
    assert refusal.parse_calls("openat2") == ("openat2",)
    assert refusal.parse_calls("fsopen,mount-api")[:2] == ("fsopen", "open_tree")
    assert {*refusal.parse_calls("mount-api")} == {*MOUNT_API, "mount_setattr"}
    with pytest.raises(KeyError, match="opnat2"):
        refusal.parse_calls("statx,opnat2")


@pytest.mark.parametrize("call", refusal.parse_calls("openat2,mount-api,close_range,statx,keyctl"))
def test_calls_of_the_option_fail(call: str) -> None:
    """The option --without has an effect."""
    ctypes.set_errno(0)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(refusal.NUMBERS[call], -1, -1, -1, -1, -1) == -1
    assert ctypes.get_errno() in WORDS or not refusal.is_refused(call)
