"""The archive of compiled modules: used if valid, ignored if anything differs."""

from __future__ import annotations

import importlib
import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ociruntime.startup import archive as archives
from ociruntime.startup.archive import Archive
from tests.support import project
from tools import build_archive

PACKAGE = project.ROOT / "ociruntime"
LOOK = """
import sys
sys.path.insert(0, {directory!r})
from ociruntime.startup.archive import use_archive
use_archive({directory!r}, {ahead!r})
ahead = [name for name in sys.modules if name.startswith("ociruntime.")]
import ociruntime.runtime.cli.main
import ociruntime.runtime.cli.{verb} as verb
import ociruntime.runtime.plan.operation_table
{extra}
print(len(ahead), type(verb.__spec__.loader).__name__ if verb.__spec__ else "ahead")
"""

ONLY_ANNOTATIONS = """
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

KNOWN: Final = "known"
Names: TypeAlias = Sequence[str]

def last(names: Names, other: Any = None) -> str:
    return names[-1]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's Python files and their archive."""
    target = tmp_path_factory.mktemp("built") / "ociruntime"
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "_executor", "modules.bin")
    shutil.copytree(PACKAGE, target, ignore=ignored)
    build(target)
    return target


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    """The same in a place of its own."""
    return Path(shutil.copytree(built, tmp_path / "ociruntime"))


def build(target: Path, *options: str) -> None:
    program = project.ROOT / "tools" / "build_archive.py"
    subprocess.run([sys.executable, str(program), str(target), *options], check=True)


def look(package: Path, ahead: str = "", extra: str = "") -> tuple[int, str]:
    """(modules loaded ahead, who loaded cli.create, or cli.exec if that is ``ahead``)."""
    verb = ahead or "create"
    code = LOOK.format(directory=str(package.parent), ahead=ahead, verb=verb, extra=extra)
    command = [sys.executable, "-I", "-S", "-B", "-c", code]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    count, loader = done.stdout.split()
    return int(count), loader


def touch(source: Path, by: int) -> None:
    times = source.stat()
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns + by * 10**9))


def test_modules_come_from_it(copy: Path) -> None:
    assert look(copy) == (2, "Archive")


@pytest.mark.parametrize("command", ["create", "exec"])
def test_what_a_command_needs_is_loaded_ahead(copy: Path, command: str) -> None:
    count, loader = look(copy, ahead=command)
    assert loader == "ahead"
    assert count > 50


def test_loaded_ahead_is_a_module_like_others(copy: Path) -> None:
    extra = f"""
import ociruntime.runtime.plan, ociruntime.runtime.executor.spawn as image
assert ociruntime.runtime.plan.plan is sys.modules["ociruntime.runtime.plan.plan"]
assert image.PROGRAM == {str(copy / "runtime" / "executor" / "_executor")!r}
assert ociruntime.runtime.plan.__path__ == [{str(copy / "runtime" / "plan")!r}]
import ociruntime.runtime.plan.explain
"""
    assert look(copy, ahead="create", extra=extra)[1] == "ahead"


def test_what_only_a_type_checker_reads_is_left_out(copy: Path) -> None:
    (copy / "only_annotations.py").write_text(ONLY_ANNOTATIONS)
    build(copy)
    extra = """
assert "__future__" not in sys.modules
from ociruntime import only_annotations
assert "collections" not in sys.modules and "typing" not in sys.modules
assert not hasattr(only_annotations, "Sequence") and not hasattr(only_annotations, "Names")
assert only_annotations.last(["first", "last"]) == "last"
assert verb.run.__annotations__ == {}
assert not hasattr(verb, "Context")
"""
    assert look(copy, ahead="create", extra=extra)[1] == "ahead"


@pytest.mark.parametrize("ahead", ["", "create"])
def test_changed_source_is_read_instead(copy: Path, ahead: str) -> None:
    with (copy / "runtime" / "cli" / "create.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    assert look(copy, ahead, "assert verb.CHANGED")[1] == "SourceFileLoader"


def test_another_time_counts_as_changed(copy: Path) -> None:
    touch(copy / "runtime" / "cli" / "create.py", by=10)
    assert look(copy)[1] == "SourceFileLoader"


def test_installers_may_change_times(copy: Path) -> None:
    build(copy, "--installed")
    touch(copy / "runtime" / "cli" / "create.py", by=10)
    assert look(copy)[1] == "Archive"


def test_of_another_interpreter(copy: Path) -> None:
    archive = copy / "modules.bin"
    archive.write_bytes(b"\0" + archive.read_bytes()[1:])
    assert look(copy, ahead="create") == (2, "SourceFileLoader")


def test_missing(copy: Path) -> None:
    (copy / "modules.bin").unlink()
    assert look(copy, ahead="create") == (2, "SourceFileLoader")


def test_sources_to_watch() -> None:
    """A change counts where the archive compares times, and where it does not hold the source."""
    installed, checkout = "ociruntime.base.errors", "ociruntime.runtime.spec"
    extension = "ociruntime._system_calls"
    for name in (installed, checkout, extension):
        importlib.import_module(name)
    index = {installed: (0, 0, False, 1, 0), checkout: (0, 0, True, 1, 1)}
    names = [installed, checkout, "ociruntime.startup.archive", extension]
    found = Archive(3, index, "/nowhere").to_watch(names)  # open: nothing is read
    assert found == [checkout, "ociruntime.startup.archive"]


def test_a_module_that_cannot_be_read(tmp_path: Path) -> None:
    """A read error names the module and the file, and is not reported as an internal error."""
    name = "ociruntime.base.errors"
    directory = os.open(tmp_path, os.O_RDONLY)  # reading it fails with EISDIR
    try:
        archive = Archive(directory, {name: (0, 8, False, 0, 0)}, str(tmp_path))
        with pytest.raises(ImportError, match=rf"{name}.*modules\.bin: is a directory"):
            archive.exec_module(ModuleType(name))
    finally:
        os.close(directory)
    with pytest.raises(ImportError, match=rf"{name}.*modules\.bin: no such file"):
        Archive(-1, {}, str(tmp_path)).find_spec(name)


MADE_UP = {
    "ociruntime.made_up": ("made_up/__init__.py", "NAME = __name__"),
    "ociruntime.made_up.inner": ("made_up/inner.py", "from ociruntime.made_up import NAME"),
    "ociruntime.made_up.later": ("made_up/later.py", "VALUE = 1"),
}
AHEAD = ("ociruntime.made_up", "ociruntime.made_up.inner")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory with an archive of three modules, which are forgotten afterwards."""
    modules = {}
    for name, (file, text) in MADE_UP.items():
        source = tmp_path / "ociruntime" / file
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        code = marshal.dumps(compile(text, str(source), "exec"))
        modules[name] = (source.name == "__init__.py", len(text), 0), code
    content = build_archive.pack(modules, {"run": list(AHEAD)})
    (tmp_path / "ociruntime" / archives.NAME).write_bytes(content)
    finders = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = finders
    for name in MADE_UP:
        sys.modules.pop(name, None)
    vars(sys.modules["ociruntime"]).pop("made_up", None)


def test_modules_of_this_process_come_from_it(directory: Path) -> None:
    """Some are loaded ahead, others when they are imported; one that has changed is not."""
    one = archives.use_archive(str(directory), "run")
    assert one is not None
    assert {*AHEAD} <= {*sys.modules}
    inner = importlib.import_module("ociruntime.made_up.inner")
    assert (inner.NAME, inner.__package__) == ("ociruntime.made_up", "ociruntime.made_up")
    later = importlib.import_module("ociruntime.made_up.later")
    assert later.VALUE == 1
    assert later.__spec__ is not None
    assert type(later.__spec__.loader).__name__ == "Archive"
    package = one.find_spec("ociruntime.made_up")
    assert package is not None
    assert package.submodule_search_locations == [str(directory / "ociruntime" / "made_up")]
    assert one.find_spec("json") is None
    (directory / "ociruntime" / "made_up" / "later.py").write_text("VALUE = 22")
    assert one.find_spec("ociruntime.made_up.later") is None
    one.close()


def test_it_is_opened_again_after_close(directory: Path) -> None:
    one = archives.use_archive(str(directory), "")
    assert one is not None
    one.close()
    assert one.find_spec("ociruntime.made_up.later") is not None
    with pytest.raises(ImportError, match="was replaced"):
        one.exec_module(ModuleType("ociruntime.gone"))
    one.close()


def test_changed_source_is_not_loaded_ahead(directory: Path) -> None:
    (directory / "ociruntime" / "made_up" / "inner.py").unlink()
    assert archives.use_archive(str(directory), "run") is not None
    assert AHEAD[0] in sys.modules
    assert AHEAD[1] not in sys.modules


@pytest.mark.parametrize("damage", ["missing", "another interpreter"])
def test_no_archive(directory: Path, damage: str) -> None:
    file = directory / "ociruntime" / archives.NAME
    data = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(b"\0" + data[1:])
    before = list(sys.meta_path)
    assert archives.use_archive(str(directory), "run") is None
    assert sys.meta_path == before
