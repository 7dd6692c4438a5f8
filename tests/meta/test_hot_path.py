"""Modules loaded by the commands of a container's lifecycle: independent of the machine.

An engine waits for each of them, and imports take most of their time.  A new module must either be
imported later or be justified in this table.
"""

from __future__ import annotations

import ast
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
# Like __main__.py, but without preloading modules from the archive: `-X importtime` would not show
# which module imports a preloaded one.
PROGRAM = f"""
import posix, sys
sys.path.insert(0, {str(Path(str(_cffi_backend.__file__)).parent)!r})
from ociruntime.startup.archive import use_archive
use_archive({str(project.ROOT)!r}, "")
from ociruntime.runtime.cli.main import main
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
    commandline.parser runtime.cli.main commandline.options runtime.cli.options
    runtime.cli.command_table base.errors
    base.files base.locks runtime.host.start_gate base.process base.log runtime.host.state_directory
    base.paths runtime.lifecycle.container runtime.lifecycle.container_id runtime.lifecycle.context
    base.json_text runtime.spec.state_document runtime.lifecycle.state_root
    base.trusted_directories startup.archive
"""
OWN = {
    "create": """
        base.mountinfo _system_calls runtime.cgroups.control_files
        runtime.cgroups.device_enforcement runtime.cgroups.device_policy
        runtime.cgroups.cgroup runtime.cgroups.hierarchies
        runtime.cgroups.cgroup_directory runtime.cgroups.resources runtime.cli.container_options
        runtime.cli.create runtime.executor.protocol runtime.executor.spawn base.sealed_program
        runtime.host.gather_facts base.linux base.capabilities base.seccomp_actions
        runtime.plan.cgroup_mounts runtime.plan.plan
        runtime.plan.compiler_state runtime.plan.compiler runtime.plan.devices
        runtime.plan.facts runtime.plan.mount_options runtime.plan.hooks runtime.plan.identity
        runtime.plan.mounts runtime.plan.namespaces runtime.plan.operation_constructors
        runtime.plan.operation_table runtime.plan.process runtime.plan.rootfs
        runtime.plan.security_labels
        runtime.plan.scheduling runtime.lifecycle.join_cgroup runtime.lifecycle.create
        runtime.lifecycle.create_steps runtime.lifecycle.fast_path_record
        runtime.lifecycle.prepare_create runtime.lifecycle.passed_descriptors
        runtime.lifecycle.terminal_options runtime.lifecycle.rollback startup.snapshot
        startup.snapshot_modules runtime.spec.bundle
        runtime.spec.check_schema runtime.spec.load_config runtime.spec.schema
        runtime.spec.validate runtime.spec.validate_linux runtime.spec.validate_process
    """,
    "exec": """
        base.mountinfo _system_calls runtime.cgroups.control_files runtime.cgroups.cgroup
        runtime.cgroups.hierarchies runtime.cgroups.cgroup_directory runtime.cli.container_options
        runtime.cli.exec runtime.executor.spawn runtime.executor.protocol runtime.host.gather_facts
        base.sealed_program base.foreground runtime.host.namespaces base.linux base.capabilities
        runtime.plan.plan
        runtime.plan.compiler_state runtime.plan.facts runtime.plan.hooks runtime.plan.identity
        runtime.plan.exec_plan runtime.plan.operation_constructors runtime.plan.operation_table
        runtime.plan.process runtime.plan.scheduling runtime.plan.security_labels
        runtime.lifecycle.join_cgroup
        runtime.lifecycle.exec runtime.lifecycle.exec_process runtime.lifecycle.exec_steps
        runtime.lifecycle.passed_descriptors runtime.lifecycle.terminal_options
        runtime.spec.validate_process
    """,
    "start": """
        runtime.cli.start runtime.executor.protocol runtime.plan.operation_table
        runtime.lifecycle.start
    """,
    "state": "commandline.output runtime.cli.state runtime.lifecycle.state",
    "kill": "runtime.cli.kill commandline.signal_names base.linux runtime.lifecycle.kill",
    "delete": """
        base.mountinfo runtime.cgroups.control_files runtime.cgroups.cgroup
        runtime.cgroups.hierarchies runtime.cgroups.cgroup_directory runtime.cli.delete base.linux
        runtime.lifecycle.delete
    """,
}
# Depends on the version of the host's control groups, and on whether there is a snapshot.
BY_HOST = {
    "base.cpu_shares",
    "runtime.host.hooks",
    "runtime.cgroups.device_program",
    "runtime.cgroups.settings_v1",
    "runtime.cgroups.settings_v2",
    "runtime.plan.cgroup_mounts",
}


# Written in C, so not in the archive.
COMPILED = {"_system_calls"}


def loaded(arguments: list[str], log: Path) -> set[str]:
    """Return the modules that a command imports, besides those of an empty program."""
    command = [*INTERPRETER, "-X", "importtime", *arguments]
    with log.open("w") as file:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=60)
    lines = log.read_text(encoding="utf-8").splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


@pytest.fixture(scope="module")
def at_start(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return loaded(["-c", "pass"], tmp_path_factory.mktemp("empty") / "log")


def without_packages(names: set[str]) -> set[str]:
    """Return modules without the leading ``ociruntime.`` and without packages, which are empty."""
    parents = {name.rpartition(".")[0] for name in names}
    return {name.partition(".")[2] for name in names - parents - {"ociruntime"}}


class Command:
    """Run a command of the runtime and return the modules that it loaded."""

    def __init__(self, root: Path, log: Path, at_start: set[str]) -> None:
        self.root = root
        self.log = log
        self.at_start = at_start

    def __call__(self, *arguments: str) -> tuple[set[str], set[str]]:
        """Return (modules of others, own modules without the leading ``ociruntime.``)."""
        found = loaded(["-c", PROGRAM, "--root", str(self.root), *arguments], self.log)
        own = {name for name in found if name.partition(".")[0] == "ociruntime"}
        return found - own - self.at_start, without_packages(own)


@pytest.mark.parametrize("verb", ["start", "state", "kill", "delete"])
def test_unknown_container(verb: str, tmp_path: Path, at_start: set[str]) -> None:
    foreign, own = Command(tmp_path / "state", tmp_path / "log", at_start)(verb, "nobody")
    assert foreign - FOREIGN == set()
    assert f"runtime.cli.{verb}" in own


def test_bundle_that_is_not_there(tmp_path: Path, at_start: set[str]) -> None:
    command = Command(tmp_path / "state", tmp_path / "log", at_start)
    foreign, own = command("create", "--bundle", str(tmp_path / "nothing"), "nobody")
    assert foreign - FOREIGN == set()
    assert "runtime.lifecycle.create" in own


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
    expected = set(f"{COMMON} {OWN[verb]}".split()) - COMPILED - {"startup.archive"}
    if verb == "create":
        expected.add("runtime.host.seccomp_cache")  # no engine comes without a profile
    assert without_packages(set(ahead)) == expected


def test_a_known_filter_is_not_compiled_again(
    bundle: MakeBundle, nothing_left: None, state_root: Path, work: Path, at_start: set[str]
) -> None:
    command = Command(work / "root", work / "log", at_start)
    made = bundle()
    rule = {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}
    made.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    made.save()
    compiling = {"_seccomp", "runtime.host.seccomp"}
    for known in (False, True):
        foreign, own = command("create", "--bundle", str(made.path), f"{TAG}filter")
        command("delete", "--force", f"{TAG}filter")
        assert own & compiling == (set() if known else compiling)
        assert "runtime.host.seccomp_cache" in own
        if known:
            assert foreign - FOREIGN == {"binascii", "marshal"} - at_start


class WithoutFields(ast.NodeTransformer):
    """A transformer that removes annotations of classes, which are strings at run time."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        value = node.value or ast.Constant(None)
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)


def test_no_compiled_module_lacks_a_name(tmp_path: Path) -> None:
    """The archive removes imports; a missing one would cause a NameError."""
    for source in project.PACKAGE.rglob("*.py"):
        compiled = build_archive.ForRunning().visit(ast.parse(source.read_text(encoding="utf-8")))
        target = tmp_path / source.relative_to(project.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(ast.unparse(WithoutFields().visit(compiled)), encoding="utf-8")
    command = ["ruff", "check", "--isolated", "--quiet", "--no-cache", "--select=F821,F822"]
    done = subprocess.run(
        [Path(sys.executable).with_name(command[0]), *command[1:], tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
