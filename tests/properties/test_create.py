"""Any config.json gives a working container, or a one-line error and an unchanged host.

Real containers of the configs that test_compile.py only plans.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given

from ociruntime.base.errors import ConfigError
from tests.properties.configs import configs
from tests.properties.conftest import Searching
from tests.properties.fields import Json
from tests.properties.harmless import harmless
from tests.properties.test_compile import tried
from tests.support import leaks, processes, rootfs
from tests.support.peers import judge_by
from tests.support.plugin import TAG
from tests.support.runtime import Runtime

pytestmark = [judge_by("ociruntime"), pytest.mark.timeout(0)]

RECORD = "OCIRUNTIME_BUNDLES"  # the variable with the name of a file for the numbers
LONGEST = 20  # seconds for a command


class Trial:
    """Runs one config after the other in the same bundle, each on a fresh root filesystem."""

    def __init__(self, runtime: Runtime, root: Path, work: Path, programs: dict[str, Path]) -> None:
        self.runtime = runtime
        self.root = root
        self.bundle = work / "bundle"
        self.programs = programs
        self.tried = self.created = self.started = 0

    def lay_out(self, config: Json) -> None:
        if self.bundle.exists():
            shutil.rmtree(self.bundle)
        rootfs.build(self.bundle / "rootfs", self.programs)
        (self.bundle / "rootfs/tmp/link").symlink_to("../etc")
        (self.bundle / "rootfs/tmp/loop").symlink_to("loop")
        (self.bundle / "rootfs/tmp/away").symlink_to("../../../../../../../../tmp")
        (self.bundle / "config.json").write_text(json.dumps(config))

    def hold(self, config: Json) -> None:
        """Check the property."""
        self.tried += 1
        before = leaks.snapshot(self.root, TAG)
        self.lay_out(harmless(config, TAG))
        outside = _tree(self.bundle.parent)
        try:
            if self._command("create", "--bundle", str(self.bundle), TAG):
                self.created += 1
                self._life()
            found = processes.until(lambda: not processes.descendants() - before.processes, 3)
            processes.reap_orphans()
            left = leaks.difference(before, leaks.snapshot(self.root, TAG))
            assert not left, left
            assert found
            assert _tree(self.bundle.parent) == outside, "files outside of the bundle"
        finally:
            self.runtime("delete", "--force", TAG)
            processes.reap_orphans()
            leaks.clear(before, self.root, TAG)

    def _life(self) -> None:
        assert self._status() in {"created", "stopped"}  # its limits may end it at once
        if self._command("start", TAG):
            self.started += 1
            assert self._status() in {"running", "stopped"}
        processes.reap_orphans()
        result = self.runtime("state", TAG, timeout=LONGEST)
        if result.status == 0:
            self.runtime("delete", "--force", TAG, timeout=LONGEST).ok()
        else:
            # A failed hook of start takes the container with it.
            assert "does not exist" in result.err

    def _status(self) -> str:
        result = self.runtime("state", TAG, timeout=LONGEST).ok()
        return str(json.loads(result.out)["status"])

    def _command(self, *words: str) -> bool:
        result = self.runtime(*words, timeout=LONGEST)
        if result.status == 0:
            return True
        assert result.status == 1, result
        assert result.out == "", result
        lines = result.err.splitlines()
        errors = [line for line in lines if "level=error" in line]
        assert len(errors) == 1, result
        assert "Traceback" not in result.err, result
        assert "internal error" not in result.err, result
        return False


def planned(config: Json) -> bool:
    """Return whether the config is valid enough to change anything."""
    try:
        tried(config, "hybrid")
    except ConfigError:
        return False
    return True


def _tree(top: Path) -> set[str]:
    return {str(path) for path in top.iterdir()}


@pytest.fixture
def trial(
    runtime: Runtime, state_root: Path, work: Path, programs: dict[str, Path]
) -> Callable[[], Trial]:
    return lambda: Trial(runtime, state_root, work, programs)


def test_a_container_or_a_line(searching: Searching, trial: Callable[[], Trial]) -> None:
    one = trial()

    @searching(40)
    @given(configs(3))
    def holds(config: Json) -> None:
        assume(planned(harmless(config, TAG)))
        one.hold(config)

    failed = 1
    try:
        holds()
        failed = 0
    finally:
        if RECORD in os.environ:  # for `./dev bundles`
            record = {"tried": one.tried, "created": one.created, "failed": failed}
            Path(os.environ[RECORD]).write_text(json.dumps(record))
    assert one.created
    assert one.started
