"""The wheel, installed elsewhere, runs from its own files with nothing around it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import _cffi_backend
import pytest

from tests.support import project
from tools import check_baseline
from tools.build_completions import SHELLS
from tools.programs import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # on a busy machine


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source files, as from a fresh clone."""
    source = tmp_path_factory.mktemp("source")
    for path in project.files():
        target = source / path.relative_to(project.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return source


def build(source: Path, **settings: str) -> Path:
    """Build a wheel with these environment variables."""
    place = f"dist-{len(settings)}"
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place]
    env = {**os.environ, **settings}
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    (found,) = (source / place).glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """The wheel for other machines."""
    return build(source, OCIRUNTIME_PORTABLE="1")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and its run-time dependencies."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python")]
    install = ["install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, *install, str(wheel)], check=True)
    # cffi's part at run time, taken from this environment: the test needs no network.
    backend = Path(str(_cffi_backend.__file__))
    shutil.copy(backend, library(place).parent / backend.name)
    return place


def library(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3.*/site-packages/ociruntime")
    return found


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with an empty environment, in /, without standard input, like an engine."""
    command = ["sh", "-c", 'exec "$0" "$@" <&-', str(program), *arguments]
    return subprocess.run(command, env={}, cwd="/", capture_output=True, text=True)


def test_one_regular_file_a_program_on_the_path(environment: Path) -> None:
    programs = sorted((environment / "bin").glob("oci*"))
    assert [path.name for path in programs] == sorted(program.name for program in PROGRAMS)
    for path in programs:
        assert not path.is_symlink()
        assert path.read_bytes()[:4] == b"\x7fELF"


def test_version_with_nothing_around(environment: Path) -> None:
    done = run(environment / "bin" / "ociruntime", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ociruntime version ")


def test_pods_with_nothing_around(environment: Path) -> None:
    """Only needed modules are imported: missing packages are no obstacle."""
    program = environment / "bin" / "ocipod"
    done = run(program, "version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ocipod: ")
    assert run(program, "--help").returncode == 0


def test_snapshots_without_the_manager_s_packages(environment: Path) -> None:
    """Snapshots are made for the programs that can start."""
    program = str(environment / "bin" / "ociruntime")
    # Not root's, which the tests beside this one use.
    inside = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none /run && exec "$0" "$@"',
        program,
    ]
    done = subprocess.run(
        [*inside, "snapshot", "make"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    made = {line.partition(":")[0].rpartition("/")[2] for line in done.stdout.splitlines()}
    assert made == {".snapshot", ".snapshot-ocipod", ".snapshot-ocictl"}
    done = subprocess.run(
        [*inside, "snapshot", "make", "ocid"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ocid" in done.stderr
    assert "aiohttp" in done.stderr


def test_extensions_load(environment: Path) -> None:
    done = run(environment / "bin" / "ociruntime", "features")
    assert (done.returncode, done.stderr) == (0, "")


def test_called_through_a_link(environment: Path, tmp_path: Path) -> None:
    for program, argument in (("ociruntime", "--version"), ("ocipod", "version")):
        link = tmp_path / f"{program}-link"
        link.symlink_to(environment / "bin" / program)
        assert run(link, argument).returncode == 0


def test_no_byte_code_is_written(environment: Path) -> None:
    package = library(environment)
    for directory in [*package.rglob("__pycache__")]:
        shutil.rmtree(directory)
    assert run(environment / "bin" / "ociruntime", "--help").returncode == 0
    assert [*package.rglob("*.pyc")] == []


def test_manual_pages_and_completions(environment: Path) -> None:
    """They are where man(1) and shells look below a prefix; pipx links them."""
    share = environment / "share"
    pages = {
        f"{page}.1"
        for program in PROGRAMS
        for page in (program.name, *(program.page(command.name) for command in program.commands))
    }
    assert {path.name for path in (share / "man" / "man1").iterdir()} == pages
    for program in PROGRAMS:
        for place in SHELLS.values():
            assert (share / place.format(name=program.name)).is_file()


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {
        *("runtime/executor/_executor", "pods/kvm/_guest"),
        *("pods/monitor/_pod_init", "pods/monitor/_hibernation"),
    }
    data |= {"py.typed", "pods/bundle/seccomp.json"}
    data |= {"schemas/pod-manifest.schema.json"}
    data |= {"_bundled/libseccomp.so.2", "_bundled/LICENSE.libseccomp"}
    assert {f"ociruntime/{name}" for name in data} <= names
    sources = {name for name in names if name.endswith(".py")}
    assert sources == {
        project.name_of(path)
        for path in project.with_suffix(".py")
        if path.is_relative_to(project.PACKAGE)
    }
    assert "-abi3-manylinux_2_28_" in wheel.name


def test_glibc_of_every_file(wheel: Path) -> None:
    """Every symbol is as old as the wheel's tag promises, and every library is included."""
    files = {name: check_baseline.parse(data) for name, data in check_baseline.elf_files(wheel)}
    assert len(files) == 7 + len(PROGRAMS)
    assert max(elf.glibc for elf in files.values()) <= (2, 28)
    assert [*check_baseline.faults(wheel, (2, 28))] == []
    linked = {name for name, elf in files.items() if elf.libraries}
    assert {name.rpartition("/")[2] for name in linked} == {
        *("_system_calls.abi3.so", "_seccomp.abi3.so", "libseccomp.so.2")
    }


def test_newer_glibc_is_refused(wheel: Path) -> None:
    (fault,) = [*check_baseline.faults(wheel, (2, 26))]
    assert "_seccomp.abi3.so: needs glibc 2.27" in fault


def test_bundled_library_is_used(environment: Path) -> None:
    """Also where the system has one of its own."""
    program = "from ociruntime import _seccomp; print(open('/proc/self/maps').read())"
    done = run(environment / "bin" / "python", "-c", program)
    assert f"{library(environment)}/_bundled/libseccomp.so.2" in done.stdout, done.stderr


@pytest.mark.long  # a second build of everything
def test_wheel_for_this_system(source: Path) -> None:
    """Without the variable, it uses the system's own library, and its tag is local."""
    shutil.rmtree(source / "build")
    wheel = build(source)
    assert "-abi3-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert not any("_bundled" in name for name in names)
    assert any("needs libseccomp" in each for each in check_baseline.faults(wheel, (9, 9)))


def test_library(environment: Path) -> None:
    program = """
import ociruntime
try:
    ociruntime.Runtime("/nowhere/root").delete("nobody")
except ociruntime.NoSuchContainer as error:
    print(error)
"""
    done = run(environment / "bin" / "python", "-c", program)
    assert (done.stdout, done.stderr) == ('container "nobody" does not exist\n', "")
