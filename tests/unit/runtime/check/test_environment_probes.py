"""The probes of the host's cgroups, systemd, helper programs, engines, and of this installation."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import ociruntime
from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import systemd_bus
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout
from ociruntime.runtime.check import engine_probes, environment_probes
from ociruntime.runtime.check.finding import LIMITED, MISSING, OK, Answer, Probe
from ociruntime.runtime.engines.setup import DOCKER_FILE, PODMAN_DIRECTORY
from ociruntime.runtime.executor.spawn import PROGRAM
from tests.unit.runtime.check.made_up_host import MadeUp

TOP = "/sys/fs/cgroup"
V2 = Layout("v2", (Hierarchy(("cpu", "cpuset", "io", "memory", "pids"), "", TOP, 2),))
V1 = Layout(
    "v1",
    (
        Hierarchy(("memory",), "", f"{TOP}/memory", 1),
        Hierarchy(("blkio",), "", f"{TOP}/blkio", 1),
    ),
)
OWN = {"/proc/self/cgroup": "0::/user.slice/web.scope\n"}
PARENT = f"{TOP}/user.slice"


def ask(table: tuple[Probe, ...], name: str, host: MadeUp) -> Answer:
    return next(each for each in table if each.name == name).look(host)


@pytest.mark.parametrize(
    ("layout", "name", "host", "expected"),
    [
        (Layout("v1", ()), "hierarchies", MadeUp({}), (LIMITED, "not mounted")),
        (V2, "hierarchies", MadeUp({}), (OK, "v2")),
        (V2, "controllers", MadeUp({}), (OK, ", ".join(V2.hierarchies[0].controllers))),
        (V1, "controllers", MadeUp({}), (LIMITED, "missing: cpu, cpuset, pids")),
        (
            V1,
            "delegation",
            MadeUp({}, writes=(f"{TOP}/memory", f"{TOP}/blkio")),
            (OK, "all hierarchies"),
        ),
        (
            V1,
            "delegation",
            MadeUp(OWN, writes=(f"{TOP}/memory",)),
            (LIMITED, "1 of 2 hierarchies"),
        ),
        (V1, "delegation", MadeUp(OWN), (LIMITED, "no cgroup")),
        (V2, "delegation", MadeUp(OWN), (LIMITED, "no cgroup")),
        (
            V2,
            "delegation",
            MadeUp(
                {**OWN, f"{PARENT}/cgroup.controllers": "cpu pids\n"},
                writes=(f"{PARENT}/cgroup.procs",),
            ),
            (OK, f"{PARENT}: cpu, pids"),
        ),
        (
            V2,
            "delegation",
            MadeUp(OWN, writes=(f"{PARENT}/cgroup.procs",)),
            (OK, f"{PARENT}: no controllers"),
        ),
    ],
)
def test_cgroups(
    monkeypatch: pytest.MonkeyPatch,
    layout: Layout,
    name: str,
    host: MadeUp,
    expected: tuple[str, str],
) -> None:
    monkeypatch.setattr(environment_probes, "detect", lambda: layout)
    answer = ask(environment_probes.CGROUPS, name, host)
    state, words = expected
    assert answer.state == state
    assert words in answer.found


class Manager:
    """A systemd manager that answers; ``closed`` counts its closed connections."""

    version = 252
    closed = 0

    def __init__(self, user: bool) -> None:
        self.user = user

    def close(self) -> None:
        type(self).closed += 1


@pytest.mark.parametrize(("rootless", "which"), [(True, "user"), (False, "system")])
def test_systemd(monkeypatch: pytest.MonkeyPatch, rootless: bool, which: str) -> None:
    monkeypatch.setattr(systemd_bus, "SystemdManager", Manager)
    monkeypatch.setattr(Manager, "closed", 0)
    host = MadeUp({"/run/systemd/system": ""}, rootless=rootless)
    answer = ask(environment_probes.CGROUPS, "systemd", host)
    assert (answer.state, answer.found) == (OK, f"version 252, {which} manager")
    assert Manager.closed == 1


def test_systemd_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(user: bool) -> Any:  # noqa: ANN401
        raise HostError("connect to systemd", OSError(111, "Connection refused"))

    monkeypatch.setattr(systemd_bus, "SystemdManager", refuse)
    answer = ask(environment_probes.CGROUPS, "systemd", MadeUp({"/run/systemd/system": ""}))
    assert answer.state == LIMITED
    assert answer.found == "connect to systemd: connection refused"


@pytest.mark.parametrize(
    ("rootless", "expected"),
    [
        (False, (OK, "not needed")),
        (True, (LIMITED, "newuidmap is not installed")),
    ],
)
def test_no_helper_programs(
    monkeypatch: pytest.MonkeyPatch, rootless: bool, expected: tuple[str, str]
) -> None:
    def missing(kind: object) -> str:
        raise ConfigError("linux.uidMappings", "newuidmap is not installed")

    monkeypatch.setattr(environment_probes, "find_helper", missing)
    host = MadeUp({}, rootless=rootless)
    answer = ask(environment_probes.USERS, "newuidmap, newgidmap", host)
    state, words = expected
    assert answer.state == state
    assert words in answer.found


def test_broken_extension_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ociruntime, "_system_calls", raising=False)
    monkeypatch.setitem(sys.modules, "ociruntime._system_calls", None)
    answer = ask(environment_probes.INSTALLATION, "extension module", MadeUp({}))
    assert answer.state == MISSING
    assert "_system_calls" in answer.found


def test_missing_executor() -> None:
    answer = ask(environment_probes.INSTALLATION, "executor", MadeUp({}))
    assert answer.state == MISSING
    assert answer.found == f'"{PROGRAM}" does not exist'


DAEMON_JSON = '{"default-runtime": "o", "runtimes": {"o": {"path": "/opt/bin/ociruntime"}}}'
PODMAN_CONF = '[engine.runtimes]\nociruntime = ["/opt/bin/ociruntime"]\n'


class WithEngines(MadeUp):
    """A fake host whose directories contain the given files."""

    def entries(self, directory: str) -> list[str]:
        return [path for path in sorted(self.files) if path.rpartition("/")[0] == directory]


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        ("Docker", {}, (OK, "not installed")),
        (
            "Docker",
            {"dockerd": "/usr/bin/dockerd"},
            (OK, "(ociruntime setup docker)"),
        ),
        (
            "Docker",
            {"dockerd": "/usr/bin/dockerd", DOCKER_FILE: DAEMON_JSON},
            (LIMITED, "run /opt/bin/ociruntime: no such file"),
        ),
        (
            "Docker",
            {
                "dockerd": "/usr/bin/dockerd",
                DOCKER_FILE: DAEMON_JSON,
                "/opt/bin/ociruntime": "/opt/bin/ociruntime",
            },
            (OK, "/usr/bin/dockerd has /opt/bin/ociruntime as the default"),
        ),
        (
            "podman",
            {
                "podman": "/usr/bin/podman",
                f"{PODMAN_DIRECTORY}/50-o.conf": PODMAN_CONF,
                "/opt/bin/ociruntime": "/opt/bin/ociruntime",
            },
            (OK, "/usr/bin/podman has /opt/bin/ociruntime as a named runtime"),
        ),
    ],
)
def test_engines(name: str, files: dict[str, str], expected: tuple[str, str]) -> None:
    answer = ask(engine_probes.ENGINES, name, WithEngines(files))
    state, words = expected
    assert answer.state == state
    assert words in answer.found
