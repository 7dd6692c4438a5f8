"""The fuzz targets: their corpora, and fresh inputs from a fixed seed; ``./dev fuzz`` runs longer.

The native targets are built once for each state of their sources.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import corpus, native, table
from tests.fuzz.target import remove_directories

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: layers are unpacked"),
]

FRESH = Path(__file__).resolve().parent / "fresh.py"
RUNS = 60  # fresh inputs of a Python target
NATIVE_RUNS = 3000
LONG = 20  # times as many with --all; not more seconds, which make other inputs on a faster machine
SLOW = {"walk": 500}  # as many files are made for each input
LARGEST_CORPORA = 500_000  # bytes


@pytest.fixture
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Create temporary files of the targets below the test's directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    remove_directories()


def _factor(request: pytest.FixtureRequest) -> int:
    return LONG if request.config.getoption("--all") else 1


@pytest.mark.parametrize("name", table.PYTHON)
def test_corpus(name: str, own_directory: None) -> None:
    target = table.load(name)
    inputs = corpus.inputs(name)
    assert inputs
    for data in [*target.seeds(), *inputs]:
        target.run(data)


def test_fresh_inputs(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: there is none for this Python or processor")
    seconds = request.config.getoption("--fuzz-seconds")
    halves = list(table.PYTHON)[::2], list(table.PYTHON)[1::2]
    started = [
        subprocess.Popen(
            [sys.executable, FRESH, str(seconds), str(RUNS * _factor(request)), *names],
            stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        for names in halves
    ]  # fmt: skip
    texts = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(texts)


@pytest.fixture(scope="session")
def programs() -> dict[str, Path]:
    if why := native.missing():
        pytest.skip(why)
    return native.built()


@pytest.mark.parametrize("name", table.NATIVE)
def test_native(
    name: str, programs: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    known = [*native.seeds(name), *corpus.inputs(name)]
    for data in known:
        (inputs / corpus.name_of(data)).write_bytes(data)
    seconds = request.config.getoption("--fuzz-seconds")
    runs = len(known) + SLOW.get(name, NATIVE_RUNS) * _factor(request)
    end = f"-max_total_time={seconds}" if seconds else f"-runs={runs}"
    done = subprocess.run(
        [programs[name], end, "-seed=1", "-max_len=8192", "-verbosity=0", inputs],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "ASAN_OPTIONS": "", "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_size_of_the_corpora() -> None:
    archives = list(corpus.DIRECTORY.iterdir())
    assert {path.stem for path in archives} == set(table.NAMES)
    assert sum(path.stat().st_size for path in archives) < LARGEST_CORPORA
