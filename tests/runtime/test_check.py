"""``check``: the host's capabilities, and all problems of a bundle."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundle import Bundle
from tests.support.peers import judge_by
from tests.support.plugin import TAG, MakeBundle
from tests.support.runtime import Result, Runtime, execute

pytestmark = judge_by("ociruntime")


def findings(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.out)["findings"]
    return found


def test_host_that_runs_this_test(runtime: Runtime) -> None:
    """It creates a whole container, of which the leak check finds nothing."""
    document = json.loads(runtime("check", "--format", "json").ok().out)
    assert document["canRun"] is True
    trial = next(each for each in document["findings"] if each["subject"] == "trial")
    assert trial["state"] == "ok"
    assert not list(Path("/tmp").glob("ociruntime-check-*"))
    for each in document["findings"]:
        assert each["found"]
        assert each["state"] == "ok" or each["meaning"]
    text = runtime("check").ok().out
    assert "can run here" in text
    assert "\x1b" not in text, "no colours but on a terminal"


def findings_behind_a_filter(runtime: Runtime, error: str, call: str) -> dict[str, Any]:
    """Return what ``check`` finds where ``call`` fails with ``error``: {name: finding}."""
    script = "from tests.support.refusal import refuse; import errno, os, sys\n"
    script += f"refuse(errno.{error}, {call!r}); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", script, *runtime.command("check", "--format", "json")]
    root = Path(__file__).resolve().parents[2]
    return {each["name"]: each for each in findings(execute(command, cwd=root))}


def test_host_without_a_call(runtime: Runtime) -> None:
    """Limited, not missing: the executor works without it."""
    found = findings_behind_a_filter(runtime, "ENOSYS", "openat2")
    assert found["openat2"]["state"] == "limited"
    assert found["outer filter"]["state"] == "limited"
    assert found["a whole container"]["state"] == "ok", "it is walked instead"


def test_behind_a_filter_that_knows_no_new_call(runtime: Runtime) -> None:
    """The C library takes EPERM for the result of faccessat2(2)."""
    found = findings_behind_a_filter(runtime, "EPERM", "faccessat2")
    assert found["state directory"]["state"] == "ok"


def with_six_faults(made: Bundle, work: Path) -> Bundle:
    hook = work / "hook"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o644)
    made.config["mounts"][2]["options"][1] = "noexce"
    made.config["mounts"][3]["destination"] = 7
    made.bind("/nowhere/at/all", "/data")
    made.hooks["poststop"] = [{"path": str(hook)}]
    made.args("no-such-program")
    made.namespace("network", "/run/netns/gone")
    made.capabilities("CAP_KILL", "CAP_NO_SUCH")
    return made.save()


SIX = {
    "mounts[2].options[1]": "noexce",
    "mounts[3].destination": "got 7",
    "mounts[6].source": "/nowhere/at/all",
    "hooks.poststop[0].path": "is not executable",
    "process.args[0]": "in $PATH",
    "linux.namespaces[4].path": "/run/netns/gone",
}


def test_six_faults_are_six(runtime: Runtime, bundle: MakeBundle, work: Path) -> None:
    made = with_six_faults(bundle(), work)
    result = runtime("check", "--format", "json", str(made.path))
    assert result.status == 1
    found = findings(result)
    faults = {each["where"]: each["message"] for each in found if each["state"] == "fault"}
    assert faults.keys() == SIX.keys()
    for where, words in SIX.items():
        assert words in faults[where]
    warnings = [each for each in found if each["state"] == "warning"]
    assert [each["where"] for each in warnings] == ["process.capabilities.bounding[1]"]
    text = runtime("check", str(made.path)).out
    assert "6 faults, 1 warning" in text
    assert "did you mean" in text


def test_create_says_the_first_of_them(runtime: Runtime, bundle: MakeBundle, work: Path) -> None:
    made = with_six_faults(bundle(), work)
    runtime("create", "--bundle", str(made.path), TAG).failed("mounts[3].destination")


def test_a_good_bundle(runtime: Runtime, bundle: MakeBundle) -> None:
    made = bundle().save()
    result = runtime("check", str(made.path)).ok()
    assert result.out == f"no faults in {made.path}\n"
    assert findings(runtime("check", "--format=json", "-b", str(made.path)).ok()) == []


def test_no_bundle_is_one_error(runtime: Runtime, work: Path) -> None:
    runtime("check", str(work / "nothing")).failed("config.json", "not found")


def test_limits_of_the_caller(runtime: Runtime, bundle: MakeBundle) -> None:
    status = Path("/proc/self/status").read_text()
    held = int(status.partition("CapEff:")[2].split()[0], 16)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if held >> 24 & 1 or hard == resource.RLIM_INFINITY:
        pytest.skip("limits may be raised here")
    made = bundle()
    made.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 5, "hard": hard + 1}]
    made.save()
    found = findings(runtime("check", "--format=json", str(made.path)))
    assert [each["where"] for each in found] == ["process.rlimits[0].hard"]
    runtime("create", "--bundle", str(made.path), TAG).failed("process.rlimits[0]")


@pytest.mark.parametrize("mode", [0o644, 0o700])
def test_program_that_the_user_may_not_execute(
    runtime: Runtime, bundle: MakeBundle, mode: int
) -> None:
    made = bundle().args("/mine")
    (made.rootfs / "mine").write_text("#!/bin/sh\n")
    os.chmod(made.rootfs / "mine", mode)
    made.process["user"] = {"uid": 1000, "gid": 1000}
    made.save()
    found = findings(runtime("check", "--format=json", str(made.path)))
    assert [each["where"] for each in found] == ["process.args[0]"]
    runtime("create", "--bundle", str(made.path), TAG).failed("process.args[0]")


INTERRUPTED_TRIAL = """
import os, signal, sys, tempfile
from ociruntime.runtime.cli.main import run_program
from ociruntime.runtime.check import trial
tempfile.tempdir = sys.argv[1]
trial.build = lambda *_: os.kill(os.getpid(), signal.SIGINT)
sys.exit(run_program(["check"]))
"""


def test_an_interrupted_trial_leaves_no_directory(tmp_path: Path) -> None:
    program = [sys.executable, "-c", INTERRUPTED_TRIAL, str(tmp_path)]
    done = subprocess.run(
        program, cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    assert done.returncode == 130
    assert b"interrupted" in done.stderr
    assert os.listdir(tmp_path) == []
