from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.host import gather_facts


def test_of_this_process() -> None:
    found = gather_facts.gather("v1", (("memory", "/x"),))
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
    )
    assert found.uid == os.geteuid()
    assert found.bounding == int(status["CapBnd"], 16)
    assert found.last_capability == int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    assert found.bounding >> (found.last_capability + 1) == 0
    assert (found.cgroup_mode, found.hierarchies) == ("v1", (("memory", "/x"),))
    assert (found.apparmor, found.selinux) == ("", False)


def test_security_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather_facts, "APPARMOR", str(tmp_path / "apparmor"))
    monkeypatch.setattr(gather_facts, "SELINUX", str(tmp_path / "selinux"))
    found = gather_facts.gather("v2", (), security_modules=True)
    assert (found.apparmor, found.selinux) == ("", False)
    (tmp_path / "apparmor").write_text("Y\n")
    (tmp_path / "selinux").write_text("0")
    found = gather_facts.gather("v2", (), security_modules=True)
    assert found.apparmor in gather_facts.APPARMOR_FILES
    assert found.selinux
    (tmp_path / "apparmor").write_text("N\n")
    assert gather_facts.apparmor_file() == ""


def test_apparmor_of_an_older_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 5.8 it has no file of its own."""
    (tmp_path / "apparmor").write_text("Y\n")
    monkeypatch.setattr(gather_facts, "APPARMOR", str(tmp_path / "apparmor"))
    for own, expected in (("self/status", "self/status"), ("self/attr/none", "self/attr/exec")):
        monkeypatch.setattr(gather_facts, "APPARMOR_FILES", (own, "self/attr/exec"))
        assert gather_facts.apparmor_file() == expected


def test_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(gather_facts, "read_file", missing)
    with pytest.raises(HostError, match="no such file or directory"):
        gather_facts.gather("v2", ())
