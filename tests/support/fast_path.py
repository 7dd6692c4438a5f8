"""Run the program with and without the interpreter, and compare the results."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from tests.support import processes
from tests.support.container import Container
from tests.support.runtime import Result, Runtime, execute

LEFT_TO_PYTHON = "left to the interpreter"
# Understood by Python alone, and without effect.
BY_PYTHON = "--log-level=error"


class Alone:
    """The program with a package that always fails.

    Whatever succeeds is done without Python; a command left to Python fails with a specific
    message.
    """

    def __init__(self, runtime: Runtime, place: Path) -> None:
        self.program = place / "bin" / "ociruntime"
        self.root = runtime.root
        self.program.parent.mkdir()
        shutil.copy(runtime.path, self.program)
        version = f"python3.{sys.version_info.minor}"
        main = place / "lib" / version / "site-packages" / "ociruntime" / "__main__.py"
        main.parent.mkdir(parents=True)
        main.write_text(f"import sys\nsys.exit({LEFT_TO_PYTHON!r})\n")

    def __call__(self, *arguments: str) -> Result:
        return execute([str(self.program), "--root", str(self.root), *arguments])


def by_python(runtime: Runtime) -> Runtime:
    """The runtime, called so that everything is left to Python."""
    return Runtime(runtime.path, runtime.root, BY_PYTHON)


def plain(result: Result, name: str) -> tuple[int, str, str]:
    """Return status and output without values that differ between containers or calls."""
    out, err = result.out.replace(name, "ID"), result.err.replace(name, "ID")
    return result.status, out, re.sub(r'time="[^"]*"', "", err)


def after(one: Container, python: Runtime) -> tuple[str, bool]:
    """Return the container's status, and whether its process is alive."""
    done = python("state", one.id)
    found = re.search(r'"status": "(\w+)"', done.out)
    gone = f"status {done.status}: {'does not exist' in done.err}"
    return found[1] if found else gone, processes.alive(one.pid)
