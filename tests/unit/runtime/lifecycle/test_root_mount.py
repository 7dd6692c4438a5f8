"""The root mounted in the host's namespace: its record, and its removal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import HostError, StepError
from ociruntime.base.log import Log
from ociruntime.base.mountinfo import Mount, parse_mountinfo
from ociruntime.base.process import start_time
from ociruntime.runtime.host.mount_namespaces import MountId
from ociruntime.runtime.lifecycle import root_mount as module
from ociruntime.runtime.lifecycle.root_mount import RootMount
from ociruntime.runtime.plan import operation_constructors as o

Recognise = Callable[[Any, MountId, list[Mount]], bool]
NUMBER = 1_000_000_000  # no mount has this id
SHOWN = parse_mountinfo(
    "30 1 0:30 / /r rw - tmpfs t rw\n31 30 0:31 / /r/data rw - tmpfs t rw\n"
    "32 1 0:32 / /r rw - tmpfs t rw\n"
)


def recorded(**members: Any) -> RootMount:  # noqa: ANN401
    mount = RootMount(
        rootfs="/r",
        number=30,
        unique=0,
        boot=module._boot(),
        namespace=module._namespace("self"),
        device="0:30",
        source="/",
        pid=1 << 22,
        started=0,
        inside=[],
        may_mount=False,
    )
    return replace(mount, **members)


def test_mount_that_the_executor_has_not_made(tmp_path: Path) -> None:
    """It must be detached, and of the root filesystem: nothing else is ever unmounted."""
    (tmp_path / "state").mkdir()
    (tmp_path / "rootfs").mkdir()
    fd = os.open(tmp_path / "rootfs", os.O_PATH)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(StepError, match=f'"{tmp_path}/rootfs": '):
        module.record(str(tmp_path / "state"), fd, f"{tmp_path}/rootfs", os.getpid())
    with pytest.raises(HostError, match=f'open "{tmp_path}/gone": no such file'):
        module.record(str(tmp_path / "state"), fd, f"{tmp_path}/gone", os.getpid())
    assert os.listdir("/proc/self/fd") == before
    os.close(fd)
    assert os.listdir(tmp_path / "state") == []


@pytest.mark.parametrize(
    ("name", "other", "refused"),
    [
        ("two", {"rootfs": "/r"}, True),
        (".creating-two", {"rootfs": "/r/below"}, True),
        ("two", {"rootfs": "/"}, True),
        ("two", {"rootfs": "/r2"}, False),
        ("two", {"rootfs": "/r", "boot": "before"}, False),
        ("two", {"rootfs": "/r", "inside": []}, False),
        (".deleting-two", {"rootfs": "/r"}, False),
        ("one", {"rootfs": "/r"}, False),
    ],
)
def test_roots_of_other_containers(
    tmp_path: Path, name: str, other: dict[str, Any], refused: bool
) -> None:
    """Mounts at, above or below this one count, mounted already or about to be."""
    for each in ("one", "empty", name):
        (tmp_path / each).mkdir(exist_ok=True)
    made = recorded(**{"inside": None, "number": NUMBER, **other})
    module.write(f"{tmp_path}/{name}", made)
    if refused:
        with pytest.raises(StepError, match='container "two"'):
            module._check_alone(f"{tmp_path}/one", "/r")
    else:
        module._check_alone(f"{tmp_path}/one", "/r")


def test_record_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r'write ".*/gone/root-mount\.json": no such file'):
        module.write(f"{tmp_path}/gone", recorded())


def clear(tmp_path: Path, **members: Any) -> None:  # noqa: ANN401
    module.write(str(tmp_path), recorded(**members))
    module.clear(str(tmp_path), Log())


@pytest.mark.parametrize("members", [{"boot": "before"}, {"namespace": 1}, {"number": NUMBER}])
def test_mounts_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, Any]
) -> None:
    """After a reboot, with their namespace, or unmounted by somebody else."""

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "_unmount", fail)
    clear(tmp_path, **members)


def test_root_that_stays_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[object] = []

    def unmount(*given: object) -> bool:
        attempts.append(given)
        return True

    monkeypatch.setattr(module, "_unmount_once", unmount)
    with pytest.raises(StepError, match='unmount "/r"'):
        clear(tmp_path)
    assert len(attempts) == module.ATTEMPTS


@pytest.mark.parametrize("exits", [True, False])
def test_executor_of_a_killed_create(monkeypatch: pytest.MonkeyPatch, exits: bool) -> None:
    """It is killed first: it might attach the mount after we have looked."""
    executor = subprocess.Popen(["sleep", "60"])
    before = os.listdir("/proc/self/fd")
    mount = recorded(pid=executor.pid, started=start_time(executor.pid))
    if exits:
        module._end_creator(mount)
        assert executor.wait(0) == -9
    else:
        monkeypatch.setattr(module, "await_end", lambda pidfd, seconds: False)
        with pytest.raises(HostError, match=f"process {executor.pid}: timed out"):
            module._end_creator(mount)
        executor.wait()
    assert os.listdir("/proc/self/fd") == before
    module._end_creator(mount)


class Unmounting:
    """An executor that asks about the given mounts, then ends with ``error``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *asked: tuple[Any, int]) -> None:
        self.asked = asked
        self.answers: list[bool] = []
        self.warnings: list[str] = []
        self.error: Exception | None = None
        monkeypatch.setattr(module, "compile_uncovering", lambda *_: None)
        monkeypatch.setattr(module, "carry_out", self.carry_out)

    def carry_out(self, plan: object, pid: int, started: int, recognise: Recognise) -> None:
        for operation, number in self.asked:
            self.answers.append(recognise(operation, MountId(number, 0), SHOWN))
        if self.error is not None:
            raise self.error

    def __call__(self) -> None:
        log: Any = SimpleNamespace(warning=self.warnings.append)
        module._unmount(recorded(), os.getpid(), 0, SHOWN, [], log)


UNMOUNT = o.unmount(target="/r", follow=0)
OTHER = o.propagation(flags=0)


def test_unmounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounts inside the root go first; mounts below it are never touched again."""
    unmount = Unmounting(monkeypatch, (OTHER, 30), (UNMOUNT, 31), (UNMOUNT, 30), (UNMOUNT, 32))
    unmount()
    assert unmount.answers == [False, True, True, False]


def test_mount_of_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StepError, match='unmount "/r": another mount'):
        Unmounting(monkeypatch, (UNMOUNT, 32))()
    with pytest.raises(StepError, match='unmount "/r": '):
        Unmounting(monkeypatch, (UNMOUNT, 31))()


@pytest.mark.parametrize("unmounted", [True, False])
def test_failure(monkeypatch: pytest.MonkeyPatch, unmounted: bool) -> None:
    """Once the root is unmounted, only the host's mounts in it are missing: a warning."""
    unmount = Unmounting(monkeypatch, *([(UNMOUNT, 30)] if unmounted else []))
    unmount.error = StepError("mount is busy")
    if unmounted:
        unmount()
        (warning,) = unmount.warnings
        assert '"/r": mount is busy' in warning
    else:
        with pytest.raises(StepError, match=r"^mount is busy$"):
            unmount()


def test_unreadable_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match=f'read "/proc/{1 << 22}/mountinfo": no such file'):
        module._mountinfo(str(1 << 22))

    def fail(path: str) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(module, "read_file", fail)
    with pytest.raises(HostError, match='boot_id": no such file'):
        module._boot()
