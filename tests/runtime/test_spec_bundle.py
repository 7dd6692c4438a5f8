"""The bundle that ``spec`` writes runs unchanged, and so does that of Debian's runc."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.bundle import Bundle
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime
from tests.support.terminal import PtyCommand

RUNC = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin") or ""
needs_runc = pytest.mark.skipif(not RUNC, reason="Debian's runc is not installed")


class Written(Bundle):
    """A bundle whose config.json is written by another program."""

    def __init__(self, one: Bundle) -> None:
        super().__init__(one.path, ("sh",))
        self.config = json.loads((one.path / "config.json").read_text())


@pytest.fixture(params=["own", pytest.param("runc", marks=needs_runc)])
def written(request: pytest.FixtureRequest, bundle: MakeBundle, runtime: Runtime) -> Written:
    one = bundle()
    if request.param == "own":
        runtime("spec", cwd=one.path).silent()
    else:
        subprocess.run([RUNC, "spec"], cwd=one.path, check=True)
    return Written(one)


def test_runs_without_a_terminal(container: MakeContainer, written: Written) -> None:
    assert written.process["terminal"] is True
    written.process["terminal"] = False
    written.shell("echo runs; touch /x; cat /proc/sys/kernel/hostname")
    result = container(written).run().ok()
    assert result.out.splitlines()[0] == "runs"
    assert "Read-only" in result.err


def test_runs_unchanged_in_a_pty(container: MakeContainer, written: Written) -> None:
    one = container(written)
    before = (written.path / "config.json").read_bytes()
    command = PtyCommand(one.runtime.command("run", "--bundle", str(written.path), one.id))
    command.terminal.read_until("#")
    command.terminal.write("echo says $((40 + 2)); exit 17\r")
    command.terminal.read_until("says 42")
    assert command.wait() == 17
    command.close()
    assert (written.path / "config.json").read_bytes() == before


def test_spec_does_not_overwrite(runtime: Runtime, work: Path) -> None:
    runtime("spec", cwd=work).silent()
    before = (work / "config.json").read_bytes()
    runtime("spec", cwd=work).failed("config.json")
    assert (work / "config.json").read_bytes() == before


def test_spec_into_a_bundle(runtime: Runtime, work: Path) -> None:
    if runtime.kind != "crun":
        runtime("spec", "--bundle", str(work)).silent()
        assert json.loads((work / "config.json").read_text())["root"]["path"] == "rootfs"


def test_rootless_spec(runtime: Runtime, work: Path) -> None:
    runtime("spec", "--rootless", cwd=work).silent()
    config = json.loads((work / "config.json").read_text())
    kinds = {namespace["type"] for namespace in config["linux"]["namespaces"]}
    assert "user" in kinds
    assert "network" not in kinds
    assert config["linux"]["uidMappings"][0]["size"] == 1


def test_spec_into_a_file_replaces_it(runtime: Runtime, work: Path) -> None:
    if runtime.kind != "runc":
        for _ in range(2):
            (work / "other.json").write_text("x" * 100000)
            runtime("spec", "--file", "other.json", cwd=work).silent()
            assert json.loads((work / "other.json").read_text())["root"]["path"] == "rootfs"
        assert not (work / "config.json").exists()
