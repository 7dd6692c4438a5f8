"""Containers as systemd units: limits known to both, refusals, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import cgroupfs, processes, systemd
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.plugin import TAG, MakeBundle, MakeContainer
from tests.support.runtime import Runtime

MIB = 1 << 20
LIMITS: dict[str, Any] = {
    "memory": {"limit": 64 * MIB, "swap": 96 * MIB, "reservation": 32 * MIB},
    "pids": {"limit": 17},
    "cpu": {"shares": 2048, "quota": 50000, "period": 100000},
    "unified": {"memory.high": str(48 * MIB), "memory.min": str(MIB)},
}
PROPERTIES = {
    "MemoryMax": str(64 * MIB),
    "MemorySwapMax": str(32 * MIB),
    "MemoryLow": str(32 * MIB),
    "MemoryHigh": str(48 * MIB),
    "MemoryMin": str(MIB),
    "TasksMax": "17",
    "CPUWeight": "174",
    "CPUQuotaPerSecUSec": "500ms",
    "CPUQuotaPeriodUSec": "100ms",
}
FILES = {
    "memory.max": str(64 * MIB),
    "memory.swap.max": str(32 * MIB),
    "memory.low": str(32 * MIB),
    "memory.high": str(48 * MIB),
    "memory.min": str(MIB),
    "pids.max": "17",
    "cpu.weight": "174",
    "cpu.max": "50000 100000",
}


def unit(name: str = "one") -> str:
    return f"{TAG}-{name}.scope"


def named(
    bundle: Bundle,
    name: str = "one",
    parent: str = "",
    **resources: Any,  # noqa: ANN401
) -> Bundle:
    bundle.linux["cgroupsPath"] = f"{parent}:{TAG}:{name}"
    bundle.resources.update(resources)
    return bundle


def annotated(bundle: Bundle, **annotations: str) -> Bundle:
    bundle.config["annotations"] = {
        name.replace("__", "."): value for name, value in annotations.items()
    }
    return bundle


def files(place: Path, names: dict[str, str]) -> dict[str, str]:
    return {name: (place / name).read_text().strip() for name in names}


def test_a_whole_life(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(named(bundle(), parent="machine.slice", **LIMITS)).created()
    place = cgroupfs.directory(one.pid, "")
    assert place == cgroupfs.hierarchies()[""] / "machine.slice" / unit()
    assert systemd.properties(unit(), *PROPERTIES) == PROPERTIES
    about = systemd.properties(unit(), "ActiveState", "Slice", "Delegate", "ControlGroup")
    assert about == {
        "ActiveState": "active",
        "Slice": "machine.slice",
        "Delegate": "yes",
        "ControlGroup": f"/machine.slice/{unit()}",
    }
    assert files(place, FILES) == FILES
    systemd.systemctl("daemon-reload")
    assert files(place, FILES) == FILES
    one.start().silent()
    assert one.status == "running"
    one.kill("KILL").silent()
    assert one.wait() == 137
    assert one.status == "stopped"
    one.delete().silent()
    assert systemd.units(TAG) == []
    assert not place.exists()


def test_update_is_told_to_systemd(container: MakeContainer, bundle: MakeBundle) -> None:
    """Otherwise its next reload would restore the old limits."""
    one = container(named(bundle(), memory={"limit": 64 * MIB}, pids={"limit": 17}))
    one.started()
    flags = ("--memory=96M", "--memory-swap=100M", "--pids-limit=18", "--cpu-quota=30000")
    one.runtime("update", *flags, one.id).silent()
    told = {
        "MemoryMax": str(96 * MIB),
        "MemorySwapMax": str(4 * MIB),
        "TasksMax": "18",
        "CPUQuotaPerSecUSec": "300ms",
    }
    assert systemd.properties(unit(), *told) == told
    systemd.systemctl("daemon-reload")
    directory = cgroupfs.of_process(one.pid)[""]
    assert (directory / "pids.max").read_text().strip() == "18"
    assert (directory / "memory.max").read_text().strip() == str(96 * MIB)
    file = one.bundle.path / "refused.json"
    file.write_text('{"pids": {"limit": 19}, "unified": {"memory.max": "much"}}')
    one.runtime("update", f"--resources={file}", one.id).failed("memory.max")
    assert systemd.properties(unit(), *told) == told
    assert (directory / "pids.max").read_text().strip() == "18"


def test_deleted_without_the_option(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime
) -> None:
    """The cleanup command of containerd's shim does not pass it."""
    one = container(named(bundle())).started()
    plain = Runtime(runtime.path, runtime.root)
    plain("delete", "--force", one.id).silent()
    one.exists = False
    assert systemd.units(TAG) == []


def test_devices(container: MakeContainer, bundle: MakeBundle) -> None:
    wanted = named(bundle())
    wanted.resources["devices"] = [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"},
    ]
    container(wanted).created()
    shown = systemd.properties(unit(), "DevicePolicy", "DeviceAllow")
    assert shown["DevicePolicy"] == "strict"
    allowed = shown["DeviceAllow"]
    assert "/dev/char/10:229 rw" in allowed
    assert "/dev/char/1:3 rwm" in allowed
    assert "char-pts rwm" in allowed
    assert "char-* m" in allowed


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (None, "system.slice/ociruntime-{id}.scope"),
        (":{tag}:a", "system.slice/{tag}-a.scope"),
        ("::{tag}a", "system.slice/{tag}a.scope"),
        ("-.slice:{tag}:a", "{tag}-a.scope"),
        ("{tag}.slice:x:a{tag}", "{tag}.slice/x-a{tag}.scope"),
        ("{tag}-b.slice:x:a{tag}", "{tag}.slice/{tag}-b.slice/x-a{tag}.scope"),
    ],
)
def test_places(
    container: MakeContainer, bundle: MakeBundle, path: str | None, expected: str
) -> None:
    wanted = bundle()
    wanted.linux.pop("cgroupsPath", None)
    if path is not None:
        wanted.linux["cgroupsPath"] = path.format(tag=TAG)
    one = container(wanted).created()
    place = cgroupfs.directory(one.pid, "")
    shown = str(place.relative_to(cgroupfs.hierarchies()[""]))
    one.delete().silent()
    stop_slices()
    assert shown == expected.format(tag=TAG, id=one.id)
    assert not place.exists()


def stop_slices() -> None:
    """Stop the slices that systemd has created."""
    words = ("list-units", "--all", "--plain", "--no-legend", f"*{TAG}*.slice")
    for line in systemd.systemctl(*words).out.splitlines():
        systemd.systemctl("stop", line.split()[0])


def test_a_slice(container: MakeContainer, bundle: MakeBundle) -> None:
    wanted = bundle()
    wanted.linux["cgroupsPath"] = f"::{TAG}.slice"
    wanted.resources["pids"] = {"limit": 9}
    one = container(wanted).created()
    place = cgroupfs.directory(one.pid, "")
    assert place == cgroupfs.hierarchies()[""] / f"{TAG}.slice"
    assert systemd.properties(f"{TAG}.slice", "TasksMax") == {"TasksMax": "9"}
    one.delete().silent()
    assert not place.exists()
    assert systemd.properties(f"{TAG}.slice", "ActiveState") == {"ActiveState": "inactive"}


def test_a_subgroup(container: MakeContainer, bundle: MakeBundle) -> None:
    """The unit has the limits, and so does the cgroup below it."""
    wanted = annotated(
        named(bundle(), memory={"limit": 64 * MIB}), run__oci__systemd__subgroup="container"
    )
    one = container(wanted).started()
    place = cgroupfs.directory(one.pid, "")
    assert place == cgroupfs.hierarchies()[""] / "system.slice" / unit() / "container"
    for each in (place, place.parent):
        assert (each / "memory.max").read_text().strip() == str(64 * MIB)
    assert (place.parent / "cgroup.procs").read_text() == ""
    one.delete("--force").silent()
    assert not place.parent.exists()


def test_properties_of_annotations(container: MakeContainer, bundle: MakeBundle) -> None:
    wanted = annotated(
        named(bundle()),
        org__systemd__property__TimeoutStopSec="7",
        org__systemd__property__Description="'for a test'",
        org__systemd__property__IPAccounting="true",
        org__systemd__property__TasksMax="uint64 33",
    )
    container(wanted).created()
    names = ("TimeoutStopUSec", "Description", "IPAccounting", "TasksMax")
    assert systemd.properties(unit(), *names) == {
        "TimeoutStopUSec": "7s",
        "Description": "for a test",
        "IPAccounting": "yes",
        "TasksMax": "33",
    }


@pytest.mark.parametrize(
    ("annotations", "resources", "where"),
    [
        ({"Nonsense": "true"}, {}, 'annotations["org.systemd.property.Nonsense"]: '),
        ({"TimeoutStopUSec": "'soon'"}, {}, 'annotations["org.systemd.property.TimeoutStopUSec"]'),
        ({"PIDs": "[uint32 1]"}, {}, 'annotations["org.systemd.property.PIDs"]: '),
        ({}, {"unified": {"cpu.weight": "20000"}}, 'linux.resources.unified["cpu.weight"]: '),
        ({}, {"unified": {"memory.max": "lots"}}, 'linux.resources.unified["memory.max"]: '),
    ],
)
def test_refused(
    container: MakeContainer,
    bundle: MakeBundle,
    annotations: dict[str, str],
    resources: dict[str, Any],
    where: str,
) -> None:
    wanted = named(bundle(), **resources)
    wanted.config["annotations"] = {
        f"org.systemd.property.{name}": value for name, value in annotations.items()
    }
    result = container(wanted).create()
    assert result.status == 1
    assert where in result.err.replace("\\", "")
    assert systemd.units(TAG) == []


def test_a_failing_hook(container: MakeContainer, bundle: MakeBundle) -> None:
    """The unit exists and has processes by then."""
    wanted = named(bundle())
    wanted.config["hooks"] = {"createRuntime": [{"path": "/bin/false"}]}
    container(wanted).create().failed("hooks.createRuntime[0]")
    assert systemd.units(TAG) == []


def test_a_unit_in_use(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(named(bundle())).started()
    container(named(bundle())).create().failed("linux.cgroupsPath: ", unit(), "already exists")
    assert one.status == "running"
    assert systemd.properties(unit(), "ActiveState") == {"ActiveState": "active"}


def test_a_failed_unit_makes_room(container: MakeContainer, bundle: MakeBundle) -> None:
    words = ("--scope", "--unit", unit(), "-p", "RuntimeMaxSec=100ms", "sleep", "10")
    subprocess.run(["systemd-run", *words], check=False, capture_output=True)
    assert processes.until(
        lambda: systemd.properties(unit(), "ActiveState") == {"ActiveState": "failed"}
    )
    one = container(named(bundle())).started()
    assert systemd.properties(unit(), "ActiveState") == {"ActiveState": "active"}
    assert one.status == "running"


@pytest.mark.parametrize("cleared_by", ["create", "delete"])
def test_killed_in_the_middle(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, work: Path, cleared_by: str
) -> None:
    """The next command on that id cleans up what a killed `create` has recorded."""
    mark = work / "mark"
    wanted = named(bundle())
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"touch {mark}; sleep 60"]}
    wanted.config["hooks"] = {"createRuntime": [hook]}
    wanted.save()
    name = f"{TAG}killed"
    creator = runtime.popen("create", "--bundle", str(wanted.path), name)
    assert processes.until(mark.exists)
    assert systemd.units(TAG) == [unit()]
    os.kill(creator.pid, signal.SIGKILL)
    creator.wait()
    for pid in processes.descendants():
        if "sleep" in processes.describe(pid):
            os.kill(pid, signal.SIGKILL)
    processes.reap_orphans()
    if cleared_by == "delete":
        runtime("delete", "--force", name).silent()
        assert systemd.units(TAG) == []
        return
    del wanted.config["hooks"]
    container(wanted, name).started()
    assert systemd.properties(unit(), "ActiveState") == {"ActiveState": "active"}


def test_processes_that_outlive_the_first(container: MakeContainer, bundle: MakeBundle) -> None:
    """Without a pid namespace, the unit still has processes when it is deleted."""
    wanted = named(bundle("sh", "-c", "sleep 100 & sleep 100 & exit 3"))
    wanted.linux["namespaces"] = [
        each for each in wanted.linux["namespaces"] if each["type"] != "pid"
    ]
    one = container(wanted).started()
    assert one.wait() == 3
    one.delete().silent()
    processes.reap_orphans()
    assert systemd.units(TAG) == []


def test_run_in_the_foreground(container: MakeContainer, bundle: MakeBundle) -> None:
    wanted = named(bundle("cat", "/proc/self/cgroup"))
    wanted.linux["namespaces"].append({"type": "cgroup"})
    result = container(wanted).run().ok()
    assert result.out == "0::/\n"
    assert systemd.units(TAG) == []


def test_many_at_once(container: MakeContainer, bundle: MakeBundle) -> None:
    every: list[Container] = []
    started = []
    for number in range(5):
        one = container(named(bundle(), f"many{number}"))
        one.bundle.save()
        words = ("create", "--bundle", str(one.bundle.path), "--pid-file", str(one.pid_file))
        started.append(one.runtime.popen(*words, one.id))
        one.exists = True
        every.append(one)
    assert [process.wait(60) for process in started] == [0] * 5
    assert len(systemd.units(TAG)) == 5
    for one in every:
        one.delete().silent()
    assert systemd.units(TAG) == []


def test_systemd_without_the_bus(container: MakeContainer, bundle: MakeBundle) -> None:
    """Early at boot there is no bus: systemd is called directly."""
    one = container(named(bundle()))
    nowhere = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}
    one.create(env=nowhere).silent()
    assert systemd.properties(unit(), "ActiveState") == {"ActiveState": "active"}
    one.runtime("delete", "--force", one.id, env=nowhere).silent()
    one.exists = False
    assert systemd.units(TAG) == []


def test_stopped_by_systemd(container: MakeContainer, bundle: MakeBundle) -> None:
    """The host does so at shutdown."""
    one = container(annotated(named(bundle()), org__systemd__property__TimeoutStopSec="1"))
    one.started()
    systemd.systemctl("stop", unit())
    assert one.wait() in (137, 143)
    assert one.status == "stopped"
    one.delete().silent()
