"""Count the lines and branches that a program of the package executes, from its first line on.

``tools/measure_coverage.py`` has each ``__main__.py`` of a copy of the package execute this file:
programs start without ``site``, which would load the coverage tool, and end with ``_exit``.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import posix
import sys
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parent.parent
SETTINGS = TREE / ".coveragerc"


def start() -> None:
    """Start counting.

    The counts are saved before this process exits, executes a program or changes its root.
    """
    library = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    sys.path.append(f"{TREE}/.venv/lib/{library}/site-packages")
    import coverage

    counter = coverage.Coverage(config_file=str(SETTINGS))
    counter.start()
    exit_at_once, execute, execute_with = posix._exit, posix.execv, posix.execve
    change_root = posix.chroot

    def save() -> None:
        counter.stop()
        # The file is out of reach once the root has been changed.
        with contextlib.suppress(coverage.CoverageException):
            counter.save()

    def counted_chroot(path: str) -> None:
        save()
        counter.start()
        change_root(path)

    def counted_exit(status: int) -> None:
        save()
        exit_at_once(status)

    def counted_execution(*arguments: Any) -> None:  # noqa: ANN401 - those of execv(2)
        save()
        try:
            execute(*arguments) if len(arguments) == 2 else execute_with(*arguments)
        finally:  # it has failed
            counter.start()

    atexit.register(save)  # a test session ends like any program
    for module in (posix, os):
        vars(module)["_exit"] = counted_exit
        vars(module)["chroot"] = counted_chroot
        vars(module)["execv"] = vars(module)["execve"] = counted_execution


start()
