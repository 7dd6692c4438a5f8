"""Configs that violate the specification, but run on runc and crun, run here with a warning.

Run it with --runtime= on them as well: the table states what they accept.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.errors.changes import Change
from tests.errors.tolerated import TOLERATED
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api
from tests.support.runtime import Runtime

KNOWN_TO_PEERS = "1.0.2"  # the version that crun 1.8 accepts


@pytest.mark.parametrize(("name", "change", "says"), TOLERATED)
def test_it_runs(
    container: MakeContainer, bundle: MakeBundle, name: str, change: Change, says: str
) -> None:
    made = bundle("sleep", "1000")
    made.config["ociVersion"] = KNOWN_TO_PEERS
    made.linux["maskedPaths"] = [f"/proc/no-such-{number}" for number in range(10)]
    made.process.setdefault("rlimits", [{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 1024}])
    if not made.linux.get("resources", {}).get("devices"):
        made.linux.setdefault("resources", {})["devices"] = [{"allow": False, "access": "rwm"}]
    while len(made.config["mounts"]) < 7:
        made.mount(f"/mnt/{len(made.config['mounts'])}", "tmpfs", "tmpfs")
    change(made.config)
    one = container(made)
    created = one.create().ok()
    one.start().ok()
    assert one.status == "running"
    if one.runtime.kind == "ociruntime":
        path = says.partition(":")[0]
        assert "level=warning" in created.out
        assert path in created.out.replace('\\"', '"'), name
        # Later commands read the configuration that was kept.
        one.exec("true").ok()


@judge_by("ociruntime")
def test_a_misspelled_option_of_a_bind_is_refused(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """Ignoring it would make the mount writable."""
    made = bundle("true")
    made.bind(work, "/tmp", "rbind", "nosiud")
    container(made).create().failed("unknown option", "nosiud", "did you mean")


@judge_by("ociruntime")
@needs_mount_api("mount(2) does not name the option")
def test_unknown_data_of_a_filesystem_is_the_kernel_s_to_refuse(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    made = bundle("true")
    mount = {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["zzqx=1"]}
    made.config["mounts"].append(mount)
    container(made).create().failed("zzqx", "Unknown parameter")


@judge_by("ociruntime")
def test_warnings_without_a_log_are_on_standard_error(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """--log-level=error suppresses them; with --log, only the file has them."""
    made = bundle("sleep", "1000")
    made.hooks["poststop"] = [{"path": "/bin/false"}]
    one = container(made).started()
    assert "hooks.poststop[0]" in one.delete("--force").ok().err
    two = container(made).started()
    two.runtime("--log-level=error", "delete", "--force", two.id).silent()
    three = container(made).started()
    three.runtime("--log", str(work / "log"), "delete", "--force", three.id).silent()
    assert "hooks.poststop[0]" in (work / "log").read_text()


@judge_by("ociruntime")
@pytest.mark.parametrize("flags", [[], ["--debug"]], ids=["fast path", "interpreter"])
def test_a_log_that_cannot_be_opened(
    container: MakeContainer, runtime: Runtime, work: Path, flags: list[str]
) -> None:
    """The command fails before anything is done; a new log is created, empty."""
    one = container().started()
    path = work / "none" / "log"
    runtime(*flags, "--log", str(path), "kill", one.id, "KILL").failed(
        "--log", str(path), "no such file or directory"
    )
    assert one.status == "running"
    if not flags:
        runtime("--log", str(work / "log"), "state", one.id).ok()
        assert (work / "log").read_text() == ""
        assert (work / "log").stat().st_mode & 0o777 == 0o644


@judge_by("ociruntime")
def test_a_fifo_as_log_keeps_its_reader(container: MakeContainer, work: Path) -> None:
    """Opening and closing it would send its reader end of file."""
    os.mkfifo(work / "log")
    one = container()
    one.bundle.save()
    reader = os.open(work / "log", os.O_RDONLY | os.O_NONBLOCK)
    try:
        words = ("--log", str(work / "log"), "--log-format=json")
        one.runtime(*words, "state", one.id)
        assert "does not exist" in json.loads(os.read(reader, 4096))["msg"]
    finally:
        os.close(reader)


@judge_by("ociruntime")
def test_debug_shows_what_was_done(container: MakeContainer, bundle: MakeBundle) -> None:
    """Phases, operations with durations, limits and hooks, for bug reports."""
    made = bundle("sleep", "1000")
    made.linux.setdefault("resources", {})["pids"] = {"limit": 77}
    made.hooks["createRuntime"] = [{"path": "/bin/true"}]
    one = container(made)
    made.save()
    text = one.runtime("--debug", "create", f"--bundle={made.path}", one.id).ok().err
    one.exists = True
    for words in (
        "phase: create the cgroup",
        "limit pids.max 77",
        "mount proc on",
        " ms)",
        "hooks.createRuntime[0]",
    ):
        assert words in text, words
    assert "phase: " in one.runtime("--debug", "start", one.id).ok().err
    assert "planned operation" in one.runtime("--debug", "exec", one.id, "true").ok().err
