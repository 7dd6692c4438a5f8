"""Generated files match the current output of their generators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import project

GENERATORS = [
    path for path in project.with_suffix(".py") if project.name_of(path).startswith("tools/gen")
]


@pytest.mark.parametrize("generator", GENERATORS, ids=project.name_of)
def test_up_to_date(generator: Path) -> None:
    command = [sys.executable, str(generator), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_generated_file_names_a_generator() -> None:
    known = {project.name_of(path) for path in GENERATORS}
    named = {project.generator_of(path) for path in project.with_suffix(".py", ".c", ".h", ".md")}
    assert named - {""} == known
