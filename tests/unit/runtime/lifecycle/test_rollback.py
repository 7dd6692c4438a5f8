"""The undo stack of a command, and the steps of `create` that plan shows for the host."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle.plan import host_part
from ociruntime.runtime.lifecycle.rollback import Rollback


def test_all_steps_are_undone() -> None:
    """The last one first, even if some fail; the error of the command keeps a note of each."""
    done: list[str] = []
    rollback = Rollback(Log())

    def fail(error: Exception) -> None:
        done.append(str(error))
        raise error

    rollback.push(lambda: done.append("first"))
    rollback.push(lambda: fail(RuntimeFailure("second")))
    rollback.push(lambda: fail(OSError(errno.EBUSY, "third")))
    failure = HostError("create", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    rollback.undo(failure)
    assert done == ["[Errno 16] third", "second", "first"]
    notes = failure.__notes__
    assert [each.rpartition(": ")[2] for each in notes] == ["[Errno 16] third", "second"]
    rollback.undo(failure)
    assert len(done) == 3, "nothing is undone twice"


def test_spare_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is free again while the steps are undone, and after success."""
    before = len(os.listdir("/proc/self/fd"))
    rollback = Rollback(Log())
    rollback.reserve()
    rollback.push(lambda: counts.append(len(os.listdir("/proc/self/fd"))))
    counts: list[int] = []
    rollback.undo(RuntimeFailure("x"))
    assert counts == [before]
    rollback.reserve()
    rollback.keep()
    assert len(os.listdir("/proc/self/fd")) == before

    def fail(fd: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("posix.dup", fail)
    with pytest.raises(HostError, match="descriptor: too many open files"):
        rollback.reserve()


def steps(
    options: dict[str, str] | None = None,
    mode: str = "v2",
    **members: Any,  # noqa: ANN401
) -> list[tuple[str, str]]:
    """Return the steps on the host, without the first and the last one."""
    cgroup = SimpleNamespace(unit="", paths={"/cg": "/cg/c1"}, settings=lambda resources: [])
    prepared: Any = SimpleNamespace(
        **{
            "cgroup": cgroup,
            "config": {},
            "layout": SimpleNamespace(mode=mode),
            "resources": {},
            "rdt": None,
            "hooks": lambda kind: [],
            **members,
        }
    )
    chosen: Any = SimpleNamespace(
        **{"id": "c1", "console_socket": "", "pid_file": "", **(options or {})}
    )
    context: Any = SimpleNamespace(root="/run/r")
    first, *found, last = host_part(context, chosen, prepared)
    assert "/run/r/.creating-c1" in first[1]
    assert "/run/r/c1" in last[1]
    return found[1:] if "cgroup" not in members else found


def test_cgroup_of_systemd() -> None:
    setting = SimpleNamespace(files=[("pids.max", "7")], where="linux.resources.pids.limit")
    cgroup = SimpleNamespace(
        unit="c1.scope", paths={"/cg": "/cg/c1"}, settings=lambda resources: [setting]
    )
    (_, made), (where, written) = steps(cgroup=cgroup)
    assert "c1.scope" in made
    assert "/cg/c1" in made
    assert (where, written) == (setting.where, "write 7 to pids.max")


@pytest.mark.parametrize(("mode", "count"), [("v1", 0), ("v2", 1)])
def test_delegated_cgroup(mode: str, count: int) -> None:
    mapping = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    namespaces = [{"type": "user"}, {"type": "cgroup"}]
    cgroup_mount = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}
    config = {
        "mounts": [cgroup_mount],
        "process": {"user": {"uid": 0, "gid": 0}},
        "linux": {"namespaces": namespaces, "uidMappings": mapping, "gidMappings": mapping},
    }
    found = steps(config=config, mode=mode)
    assert len(found) == count
    assert all("uid 100000" in text for _, text in found)


def test_settings_of_the_host() -> None:
    rdt = SimpleNamespace(
        made=["/rdt/c1"],
        lines=[("linux.intelRdt.memBwSchema", "/rdt/c1/schemata", "MB:0=5")],
        tasks=["/rdt/c1/tasks"],
    )
    hooks = {"prestart": [{"path": "/a"}], "createRuntime": [{"path": "/b"}, {"path": "/c"}]}
    found = steps(
        {"console_socket": "/console", "pid_file": "/pid"},
        config={"linux": {"netDevices": {"eth1": {}}}},
        rdt=rdt,
        hooks=lambda kind: hooks[kind],
    )
    assert [(where, text.split()[-1]) for where, text in found] == [
        ("linux.intelRdt", "/rdt/c1"),
        ("linux.intelRdt.memBwSchema", "/rdt/c1/schemata"),
        ("linux.intelRdt", "/rdt/c1/tasks"),
        ('linux.netDevices["eth1"]', "container"),
        ("hooks.prestart[0]", "/a"),
        ("hooks.createRuntime[0]", "/b"),
        ("hooks.createRuntime[1]", "/c"),
        ("process.terminal", "/console"),
        ("", "/pid"),
    ]
