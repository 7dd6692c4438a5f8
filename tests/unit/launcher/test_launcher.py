"""csrc/launcher in fake installations: the program started, its arguments, and refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import project

SOURCES = [
    *(project.ROOT / "csrc" / "launcher" / name for name in ("ociruntime.c", "interpreter.c")),
    *project.ROOT.glob("csrc/fast_path/*.c"),
    project.ROOT / "csrc" / "snapshot" / "thaw.c",
    *(project.ROOT / "csrc" / "executor" / name for name in ("text.c", "walk.c")),
]
INCLUDES = ["-Icsrc", "-Icsrc/executor"]
VERSION = f"3.{sys.version_info.minor}"
INTERPRETER = Path(sys.executable).resolve()

# Stands in for the package: prints what it was started with.
REPORT = """
import json, os, posix, sys
descriptors = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)}
try:
    children = os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    children = "none"
print(json.dumps({
    "arguments": sys.argv[1:],
    "program": __file__,
    "path": sys.path,
    "flags": [sys.flags.isolated, sys.flags.no_site, sys.flags.dont_write_bytecode],
    "encoding": sys.getfilesystemencoding(),
    "executable": sys.executable,
    "descriptors": descriptors,
    "children": children,
}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("launcher") / "launcher"
    flags = ["-std=c11", "-O2", "-static", "-Wall", "-Wextra", "-Werror"]
    command = ["gcc", *flags, *INCLUDES, "-o", str(program), *map(str, SOURCES)]
    subprocess.run(command, check=True, cwd=project.ROOT)
    return program


class Tree:
    """An installation: PREFIX/bin with the launcher, PREFIX/LIBRARY with the package."""

    def __init__(self, prefix: Path, built: Path) -> None:
        self.prefix = prefix
        self.program = prefix / "bin" / "ociruntime"
        self.program.parent.mkdir()
        self.program.write_bytes(built.read_bytes())
        self.program.chmod(0o755)

    def interpreter(self, name: str = f"python{VERSION}") -> Tree:
        """Create the interpreter of a virtual environment: a link to the real one."""
        (self.program.parent / name).symlink_to(INTERPRETER)
        return self

    def package(self, library: str, text: str = REPORT) -> Path:
        main = self.prefix / library / "ociruntime" / "__main__.py"
        main.parent.mkdir(parents=True)
        main.write_text(text)
        return main

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, shell: str = ""
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *arguments]
        if shell:
            command = ["sh", "-c", shell, *command]
        return subprocess.run(command, env=env or {}, cwd="/", capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path: Path, built: Path) -> Tree:
    return Tree(tmp_path, built)


@pytest.mark.parametrize(
    ("library", "interpreter"),
    [
        (f"lib/python{VERSION}/site-packages", f"python{VERSION}"),
        (f"lib/python{VERSION}/dist-packages", f"python{VERSION}"),
        (f"local/lib/python{VERSION}/dist-packages", f"python{VERSION}"),
        ("lib/python3/dist-packages", "python3"),
    ],
)
def test_layouts(tree: Tree, library: str, interpreter: str) -> None:
    main = tree.interpreter(interpreter).package(library)
    done = tree.run()
    assert done.stderr == ""
    seen = json.loads(done.stdout)
    assert seen["program"] == str(main)
    assert seen["executable"] == str(INTERPRETER), "the real name spares pyvenv.cfg"


def test_arguments_and_flags(tree: Tree) -> None:
    tree.interpreter().package(f"lib/python{VERSION}/site-packages")
    arguments = ["state", "", "two words", "--", "-c", "caf\u00e9"]
    seen = json.loads(tree.run(*arguments).stdout)
    assert seen["arguments"] == arguments
    assert seen["flags"] == [1, 1, 1]
    assert seen["encoding"] == "utf-8"


def test_environment_leads_nowhere(tree: Tree, tmp_path: Path) -> None:
    tree.interpreter().package(f"lib/python{VERSION}/site-packages")
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "json.py").write_text("raise SystemExit('taken over')")
    (evil / f"python{VERSION}").write_text("#!/bin/sh\necho taken over\n")
    (evil / f"python{VERSION}").chmod(0o755)
    bad = {"PYTHONPATH": str(evil), "PYTHONHOME": str(evil), "PATH": str(evil)}
    seen = json.loads(tree.run(env=bad).stdout)
    assert not [entry for entry in seen["path"] if str(tmp_path) in entry]


def test_closed_descriptors_are_filled(tree: Tree) -> None:
    tree.interpreter().package(f"lib/python{VERSION}/site-packages")
    seen = json.loads(tree.run(shell='exec "$0" <&- 2>&-').stdout)
    assert (seen["descriptors"]["0"], seen["descriptors"]["2"]) == ("/dev/null", "/dev/null")


@pytest.mark.parametrize("stream", ["0</", "1</"])
def test_directory_for_a_stream_is_refused(tree: Tree, stream: str) -> None:
    tree.interpreter().package(f"lib/python{VERSION}/site-packages")
    done = tree.run(shell=f'exec "$0" {stream}')
    assert done.returncode == 1
    assert "a standard stream is a directory" in done.stderr


@pytest.mark.parametrize("verb", ["create", "run"])
def test_the_interpreter_has_no_child(tree: Tree, verb: str) -> None:
    tree.interpreter().package(f"lib/python{VERSION}/site-packages")
    done = tree.run(verb, "one")
    assert done.stderr == ""
    assert json.loads(done.stdout)["children"] == "none"


def test_status_and_signals_are_the_programs(tree: Tree) -> None:
    main = tree.interpreter().package(f"lib/python{VERSION}/site-packages", "raise SystemExit(37)")
    assert tree.run("create").returncode == 37
    main.write_text("import os\nos.kill(os.getpid(), 15)")
    assert tree.run("run").returncode == -15


def test_package_missing(tree: Tree) -> None:
    done = tree.run("state")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Python package" in done.stderr
    assert "symbolic link" in done.stderr


def test_a_copy_finds_the_package_where_it_was_installed(tmp_path: Path) -> None:
    """What engines' tests and some installers do with a runtime."""
    prefix = tmp_path / "installed"
    (prefix / "bin").mkdir(parents=True)
    copy = tmp_path / "elsewhere" / "runtime"
    copy.parent.mkdir()
    flags = ["-std=c11", "-O2", "-static", f'-DINSTALLED_PREFIX="{prefix}"']
    command = ["gcc", *flags, *INCLUDES, "-o", str(copy), *map(str, SOURCES)]
    subprocess.run(command, check=True, cwd=project.ROOT)
    main = prefix / f"lib/python{VERSION}/site-packages/ociruntime/__main__.py"
    main.parent.mkdir(parents=True)
    main.write_text(REPORT)
    (prefix / "bin" / f"python{VERSION}").symlink_to(INTERPRETER)
    done = subprocess.run([copy, "run"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["program"] == str(main)


def test_oldest_fitting_version_wins(tree: Tree) -> None:
    """A package whose interpreter is missing is skipped."""
    tree.interpreter().package(f"lib/python{VERSION}/site-packages")
    tree.package("lib/python3.29/site-packages", "raise SystemExit(1)")
    assert tree.run().returncode == 0


def test_not_set_user_id(tree: Tree) -> None:
    """The launcher trusts its own path; a setuid copy could be deceived about it."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    place = Path("/var/tmp") / f"ociruntime-launcher-{os.getpid()}"
    place.write_bytes(tree.program.read_bytes())
    try:
        place.chmod(0o4755)
        done = subprocess.run([place], user=65534, capture_output=True, text=True, env={})
    finally:
        place.unlink()
    assert done.returncode == 1
    assert "refusing" in done.stderr
