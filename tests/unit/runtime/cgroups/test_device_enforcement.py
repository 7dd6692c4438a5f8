"""Device rules written to the lists of cgroup v1, and the kernel's refusals."""

from __future__ import annotations

import errno
import os
import posix
from pathlib import Path

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import device_enforcement, device_program
from ociruntime.runtime.cgroups.device_enforcement import DeviceRules

WHERE = "linux.resources.devices"
ENTRIES = [
    {"allow": False, "access": "rwm"},
    {"allow": True, "type": "c", "major": 10, "minor": 200, "access": "rw"},
]


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    for name in ("devices.allow", "devices.deny"):
        (tmp_path / name).touch()
    return tmp_path


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, *, root: bool = True) -> None:
    def fail(fd: int, data: bytes) -> int:
        if b"10:200" in data:
            raise OSError(number, os.strerror(number))
        return len(data)

    monkeypatch.setattr(posix, "write", fail)
    monkeypatch.setattr(device_enforcement, "may_set_device_rules", lambda: root)


def test_lists(cgroup: Path) -> None:
    """Everything is denied first."""
    before = descriptors()
    DeviceRules(ENTRIES, WHERE, str(cgroup), "").install()
    assert (cgroup / "devices.deny").read_text().startswith("a")
    assert "c 10:200 rw" in (cgroup / "devices.allow").read_text()
    assert descriptors() == before


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.EPERM, "its parent"), (errno.EINVAL, "child cgroups"), (errno.EIO, "")],
)
def test_refused_rule(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    """The message names the rule in config.json and the line in the list."""
    refuse(monkeypatch, number)
    before = descriptors()
    with pytest.raises(HostError) as caught:
        DeviceRules(ENTRIES, WHERE, str(cgroup), "").install()
    assert caught.value.message.startswith(f'{WHERE}[1]: write "c 10:200 rw')
    assert f'{cgroup}/devices.allow": ' in caught.value.message
    assert hint in caught.value.hint
    assert bool(caught.value.hint) is bool(hint)
    assert descriptors() == before


def test_unprivileged_user(cgroup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the privilege to set rules, a process cannot create device nodes either."""
    refuse(monkeypatch, errno.EPERM, root=False)
    DeviceRules(ENTRIES, WHERE, str(cgroup), "").install()
    refuse(monkeypatch, errno.EIO, root=False)
    with pytest.raises(HostError, match="input/output"):
        DeviceRules(ENTRIES, WHERE, str(cgroup), "").install()


def test_v2(monkeypatch: pytest.MonkeyPatch) -> None:
    """On v2 an eBPF program enforces the rules."""
    installed = []
    monkeypatch.setattr(device_program, "install", lambda *given: installed.append(given))
    rules = DeviceRules(ENTRIES, WHERE, "", "/cg/c1")
    rules.install()
    assert installed == [(device_program.assemble(rules.policy), "/cg/c1")]


def test_neither_hierarchy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a user who may not set rules can do without them."""
    monkeypatch.setattr(device_enforcement, "may_set_device_rules", lambda: True)
    with pytest.raises(ConfigError) as caught:
        DeviceRules(ENTRIES, WHERE, "", "")
    assert caught.value.where == WHERE
    monkeypatch.setattr(device_enforcement, "may_set_device_rules", lambda: False)
    DeviceRules(ENTRIES, WHERE, "", "").install()
