"""Groups of resctrl for whole containers.

No test machine has such a processor, so a directory stands for resctrl: in the program, three
functions of ``runtime/lifecycle/intel_rdt_groups.py`` are replaced by what the kernel would do.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")

PROGRAM = """
import pathlib, posix, shutil, sys
from ociruntime.runtime.lifecycle import intel_rdt_groups
from ociruntime.runtime.cli.main import main

root = pathlib.Path(sys.argv[1])

def fill(directory):
    for name in ("tasks", "schemata"):
        (directory / name).touch()
    if not directory.parent.name == "mon_groups":
        (directory / "mon_groups").mkdir()

def make(path):
    posix.mkdir(path)
    fill(pathlib.Path(path))

if not root.exists():
    make(str(root))
intel_rdt_groups.mountpoint = lambda: str(root)
intel_rdt_groups.make_directory = make
intel_rdt_groups.remove_directory = shutil.rmtree
sys.exit(main(sys.argv[2:]))
"""


class Rdt:
    """The fake resctrl, and a runtime that uses it."""

    def __init__(self, runtime: Runtime, work: Path) -> None:
        self.root = work / "resctrl"
        program = work / "program.py"
        program.write_text(PROGRAM)
        words = shlex.join([sys.executable, "-B", str(program), str(self.root)])
        path = work / "bin" / "ociruntime"
        path.parent.mkdir()
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        path.chmod(0o755)
        self.runtime = Runtime(path, runtime.root)
        self.runtime("--version").ok()  # lays the root group down

    def of(self, one: Container, **rdt: object) -> Container:
        """Return a container of this runtime with that intelRdt."""
        one.runtime = self.runtime
        one.bundle.linux["intelRdt"] = rdt
        return one

    def group(self, name: str) -> Path:
        """Create a group of the host."""
        path = self.root / name
        (path / "mon_groups").mkdir(parents=True)
        (path / "tasks").touch()
        (path / "schemata").write_text("    L3:0=00f\n")
        return path

    def groups(self) -> set[str]:
        found = {file.parent for file in self.root.rglob("tasks")} - {self.root}
        return {str(path.relative_to(self.root)) for path in found}

    def member(self, name: str) -> str:
        return (self.root / name / "tasks").read_text().strip()


@pytest.fixture
def rdt(runtime: Runtime, work: Path) -> Rdt:
    return Rdt(runtime, work)


def test_own_group_lives_as_long_as_the_container(rdt: Rdt, container: MakeContainer) -> None:
    """LNX-RDT-14 and -18."""
    one = rdt.of(container(), l3CacheSchema="L3:0=f").created()
    assert rdt.groups() == {one.id}
    assert rdt.member(one.id) == str(one.pid)
    assert (rdt.root / one.id / "schemata").read_text() == "L3:0=f\n"
    one.start().silent()
    one.delete("--force").silent()
    assert rdt.groups() == set()


def test_group_of_the_host_stays(rdt: Rdt, container: MakeContainer) -> None:
    """LNX-RDT-01, -19, -20 and -21."""
    rdt.group("gold")
    one = rdt.of(container(), closID="gold", enableMonitoring=True).created()
    assert rdt.groups() == {"gold", f"gold/mon_groups/{one.id}"}
    assert rdt.member("gold") == rdt.member(f"gold/mon_groups/{one.id}") == str(one.pid)
    one.delete("--force").silent()
    assert rdt.groups() == {"gold"}


def test_further_process(rdt: Rdt, container: MakeContainer) -> None:
    """It is not a child of the init, whose group it would inherit."""
    rdt.group("gold")
    one = rdt.of(container(), closID="gold", enableMonitoring=True).started()
    rdt.runtime("exec", one.id, "true").ok()
    further = rdt.member("gold")
    assert further.isdigit()
    assert further != str(one.pid)
    assert rdt.member(f"gold/mon_groups/{one.id}") == further


def test_named_group_that_was_made_stays(rdt: Rdt, container: MakeContainer) -> None:
    """LNX-RDT-15 and -19."""
    rdt.of(container(), closID="gold", schemata=["L3:0=f"]).created().delete("--force").silent()
    assert rdt.groups() == {"gold"}


def test_root_group(rdt: Rdt, container: MakeContainer) -> None:
    """LNX-RDT-04."""
    one = rdt.of(container(), closID="/").created()
    assert (rdt.groups(), rdt.member(".")) == (set(), str(one.pid))


def test_without_intel_rdt(rdt: Rdt, container: MakeContainer) -> None:
    """LNX-RDT-03."""
    one = container()
    one.runtime = rdt.runtime
    one.created()
    assert rdt.groups() == set()
    assert rdt.member("") == ""


def test_entry_leaves_the_removal_to_python(
    rdt: Rdt, runtime: Runtime, container: MakeContainer
) -> None:
    """The fast path does not know resctrl groups."""
    one = rdt.of(container()).created()
    text = (runtime.root / one.id / "entry").read_text()
    assert "\ndelete 0\n" in text


@pytest.mark.parametrize("schema", [{}, {"closID": "gold", "schemata": ["L3:0=f"]}])
def test_failing_create(
    rdt: Rdt, container: MakeContainer, bundle: MakeBundle, schema: dict[str, object]
) -> None:
    one = bundle()
    one.hooks["createRuntime"] = [{"path": "/bin/false"}]
    rdt.of(container(one), enableMonitoring=True, **schema).create().failed("hooks.createRuntime")
    assert rdt.groups() == set()


def test_failing_write(rdt: Rdt, container: MakeContainer) -> None:
    """A monitoring group has no schemata."""
    (rdt.group("gold") / "schemata").unlink()
    one = rdt.of(container(), closID="gold", schemata=["L3:0=f"], enableMonitoring=True)
    one.create().failed("linux.intelRdt.schemata[0]: write", "no such file or directory")
    assert rdt.groups() == {"gold"}


def test_group_with_another_schema(rdt: Rdt, container: MakeContainer) -> None:
    """LNX-RDT-16."""
    group = rdt.group("gold")
    one = rdt.of(container(), closID="gold", l3CacheSchema="L3:0=ff", enableMonitoring=True)
    one.create().failed("linux.intelRdt.l3CacheSchema", "differs from")
    assert rdt.groups() == {"gold"}
    assert (group / "schemata").read_text() == "    L3:0=00f\n"


def test_killed_create(rdt: Rdt, container: MakeContainer, bundle: MakeBundle) -> None:
    """The next command on that id removes the created groups."""
    mine = bundle()
    mine.hooks["createRuntime"] = [{"path": "/bin/sleep", "args": ["sleep", "600"]}]
    one = rdt.of(container(mine), closID="gold", schemata=["L3:0=f"], enableMonitoring=True)
    one.bundle.save()
    process = one.runtime.popen("create", "--bundle", str(one.bundle.path), one.id)

    def hooked() -> set[int]:
        found = {pid: processes.describe(pid) for pid in processes.descendants()}
        return {pid for pid, words in found.items() if "sleep" in words and "600" in words}

    try:
        assert processes.until(lambda: bool(hooked()))
        assert rdt.groups() == {"gold", f"gold/mon_groups/{one.id}"}
    finally:
        process.kill()
        process.wait()
        processes.end(hooked())
    (rdt.root / "gold" / "tasks").write_text("")  # the kernel forgets who has ended
    one.delete("--force").silent()
    assert rdt.groups() == set()


def test_plan_shows_it(rdt: Rdt, container: MakeContainer) -> None:
    one = rdt.of(container(), schemata=["L3:0=f"], enableMonitoring=True)
    one.bundle.save()
    shown = rdt.runtime("plan", "--bundle", str(one.bundle.path)).ok().out
    assert f"create resctrl group {rdt.root}/" in shown
    assert f"write L3:0=f to {rdt.root}/" in shown
    assert rdt.groups() == set()


@pytest.mark.skipif(
    "resctrl" in subprocess.run(["mount"], capture_output=True, text=True).stdout,
    reason="resctrl is mounted here",
)
def test_without_resctrl(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-RDT-02."""
    one = bundle()
    one.linux["intelRdt"] = {}
    container(one).create().failed("linux.intelRdt: ", "resctrl")


def test_update_writes_into_the_group(rdt: Rdt, container: MakeContainer) -> None:
    one = rdt.of(container(), l3CacheSchema="L3:0=f").created()
    schemata = rdt.root / one.id / "schemata"
    rdt.runtime("update", "--l3-cache-schema=L3:0=3", one.id).silent()
    assert schemata.read_text() == "L3:0=3\n"
    rdt.runtime("update", "--mem-bw-schema=MB:0=20", one.id).silent()
    assert schemata.read_text().startswith("MB:0=20\n")
    schemata.unlink()
    flags = ("--pids-limit=5", "--l3-cache-schema=L3:0=3")
    rdt.runtime("update", *flags, one.id).failed("l3CacheSchema: write")
    assert cgroupfs.setting(one.pid, "pids", "pids.max", "pids.max") == "max"
