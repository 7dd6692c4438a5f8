"""What the commands of a container's life load: a count is the same on every machine.

An engine waits for each of them, and imports are most of what they cost.  A module that
turns up here is to be imported where it is needed, or to be argued for in this table.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import _cffi_backend
import pytest

from tests.support import processes, project
from tests.support.plugin import TAG, MakeBundle
from tools import build_archive

INTERPRETER = [os.path.realpath(sys.executable), "-I", "-S", "-B", "-X", "utf8"]
# As __main__.py does it, but without the archive, which would hide who imports what.
PROGRAM = f"""
import posix, sys
sys.path.insert(0, {str(Path(str(_cffi_backend.__file__)).parent)!r})
from ociruntime.cli.main import main
posix._exit(main(sys.argv[1:]))
"""

# Written in C, or as good as nothing; everything else of the standard library is too slow.
FOREIGN = {
    "__future__",
    "_cffi_backend",
    "_json",
    "_posixsubprocess",
    "_socket",
    "_struct",
    "array",
    "errno",
    "fcntl",
    "gc",
    "select",
    "struct",
}
# What every one of them loads of the project, and what each adds.
COMMON = """
    cli cli.args cli.main cli.option cli.options errors host host.files host.gate host.process
    host.store log paths runtime runtime.container runtime.identifier runtime.options spec
    spec.json_text spec.load spec.state trusted
"""
OWN = {
    "create": """
        _shim cgroups cgroups.control_files cgroups.device_rules cgroups.devices cgroups.group
        cgroups.layout cgroups.paths cgroups.placement cgroups.resources cli.container_options
        cli.create executor executor.expected executor.image executor.protocol executor.spawn
        host.facts linux plan plan.cgroup_mounts plan.codec plan.compilation plan.compiler
        plan.devices plan.facts
        plan.filesystem_options plan.hooks plan.identity plan.mount_options plan.mounts
        plan.namespace_settings plan.namespaces plan.operations plan.ops plan.plan
        plan.process plan.rootfs plan.scheduling runtime.cgroup_entry runtime.create
        runtime.creation runtime.entry_record runtime.preparation runtime.request_checks
        runtime.rollback snapshot snapshot_programs
        spec.bundle spec.check spec.shape spec.validate spec.validate_linux spec.validate_mounts
        spec.validate_namespaces spec.validate_process spec.validate_resources spec.version
    """,
    "exec": """
        _shim cgroups cgroups.control_files cgroups.group cgroups.layout cgroups.paths
        cgroups.placement cli.container_options cli.exec executor executor.image
        executor.expected executor.protocol executor.spawn host.facts host.foreground
        host.namespaces linux plan plan.codec plan.compilation plan.facts plan.hooks
        plan.identity plan.joining
        plan.operations plan.ops plan.plan plan.process plan.scheduling runtime.cgroup_entry
        runtime.exec runtime.exec_options runtime.exec_process runtime.execution
        runtime.request_checks spec.validate_process
    """,
    "start": "cli.start executor executor.protocol plan plan.ops runtime.start",
    "state": "cli.output cli.state runtime.state",
    "kill": "cli.kill cli.signals linux runtime.kill",
    "delete": """
        cgroups cgroups.control_files cgroups.group cgroups.layout cgroups.paths
        cgroups.placement cli.delete linux runtime.delete
    """,
}
# Depends on the version of the host's control groups, and on whether there is a snapshot.
BY_HOST = {
    "host.hooks",
    "cgroups.device_program",
    "cgroups.settings_v1",
    "cgroups.settings_v2",
    "plan.cgroup_owner",
}


# Written in C, so not in the archive.
COMPILED = {"_shim"}


def loaded(arguments: list[str], log: Path) -> set[str]:
    """Modules that a command imports beyond what an empty program does."""
    command = [*INTERPRETER, "-X", "importtime", *arguments]
    with log.open("w") as file:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=60)
    lines = log.read_text(encoding="utf-8").splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


@pytest.fixture(scope="module")
def at_start(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return loaded(["-c", "pass"], tmp_path_factory.mktemp("empty") / "log")


class Command:
    """Runs a command of the runtime and tells what it loaded."""

    def __init__(self, root: Path, log: Path, at_start: set[str]) -> None:
        self.root = root
        self.log = log
        self.at_start = at_start

    def __call__(self, *arguments: str) -> tuple[set[str], set[str]]:
        """(modules of others, own modules without the leading ``ociruntime.``)."""
        found = loaded(["-c", PROGRAM, "--root", str(self.root), *arguments], self.log)
        own = {name for name in found if name.partition(".")[0] == "ociruntime"}
        return found - own - self.at_start, {name.partition(".")[2] for name in own} - {""}


@pytest.mark.parametrize("verb", ["start", "state", "kill", "delete"])
def test_unknown_container(verb: str, tmp_path: Path, at_start: set[str]) -> None:
    foreign, own = Command(tmp_path / "state", tmp_path / "log", at_start)(verb, "nobody")
    assert foreign - FOREIGN == set()
    assert f"cli.{verb}" in own


def test_bundle_that_is_not_there(tmp_path: Path, at_start: set[str]) -> None:
    command = Command(tmp_path / "state", tmp_path / "log", at_start)
    foreign, own = command("create", "--bundle", str(tmp_path / "nothing"), "nobody")
    assert foreign - FOREIGN == set()
    assert "runtime.create" in own


def test_a_whole_life(
    bundle: MakeBundle, nothing_left: None, state_root: Path, work: Path, at_start: set[str]
) -> None:
    command = Command(state_root, work / "log", at_start)
    name = f"{TAG}imports"
    made = bundle()
    made.save()
    pid_file = work / "pid"
    created = command("create", "--bundle", str(made.path), "--pid-file", str(pid_file), name)
    pid = int(pid_file.read_text())
    found = {"create": created, "start": command("start", name), "state": command("state", name)}
    found["exec"] = command("exec", name, "true")
    found["kill"] = command("kill", name, "KILL")
    assert processes.until(lambda: not processes.alive(pid))
    found["delete"] = command("delete", name)
    for verb, (foreign, own) in found.items():
        expected = set(f"{COMMON} {OWN[verb]}".split())
        assert foreign - FOREIGN == set(), f"{verb} loads what is slow to load"
        assert own - expected - BY_HOST == set(), f"{verb} loads more"
        assert expected - own == set(), f"{verb} loads less: shorten the table"


@pytest.mark.parametrize("verb", ["create", "exec"])
def test_the_archive_has_all_of_it_at_hand(verb: str) -> None:
    ahead = build_archive.needed_by(verb, project.ROOT / "ociruntime")
    expected = set(f"{COMMON} {OWN[verb]}".split()) - COMPILED
    if verb == "create":
        expected.add("host.seccomp_cache")  # no engine comes without a profile
    assert {name.partition(".")[2] for name in ahead} - {""} == expected


def test_a_known_filter_is_not_compiled_again(
    bundle: MakeBundle, nothing_left: None, state_root: Path, work: Path, at_start: set[str]
) -> None:
    command = Command(work / "root", work / "log", at_start)
    made = bundle()
    rule = {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}
    made.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    made.save()
    compiling = {"_seccomp", "host.seccomp", "host.seccomp_stub"}
    for known in (False, True):
        foreign, own = command("create", "--bundle", str(made.path), f"{TAG}filter")
        command("delete", "--force", f"{TAG}filter")
        assert own & compiling == (set() if known else compiling)
        assert "host.seccomp_cache" in own
        if known:
            assert foreign - FOREIGN == {"binascii", "marshal"} - at_start
