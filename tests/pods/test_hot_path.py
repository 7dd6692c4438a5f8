"""What ``ocipod run`` and its monitor load: imports are most of what a start costs.

A module that turns up here is to be imported where it is needed, or to be argued for in these
tables; see tests/meta/test_hot_path.py, which has the same for the runtime.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import project
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell

INTERPRETER = [os.path.realpath(sys.executable), "-I", "-S", "-B", "-X", "utf8", "-X", "importtime"]
MAIN = project.PACKAGE / "ocipod" / "__main__.py"

# Written in C, or what Python's ``os`` brings along.
MONITOR = {
    *(
        "_cffi_backend",
        "_collections_abc",
        "_json",
        "_socket",
        "_stat",
        "_struct",
        "errno",
        "fcntl",
    ),
    *("__future__", "gc", "genericpath", "os", "os.path", "posixpath", "select", "stat", "struct"),
}
# Looking an image up takes SQLite, which is written in C and takes functools.
PREPARING = MONITOR | {
    *("_collections", "_functools", "_operator", "_sha2", "_sha256", "_sqlite3", "collections"),
    *("functools", "itertools", "keyword", "operator", "reprlib", "types"),
}
# Of the package: wanted when an image is fetched, unpacked or checked, and not before.
FETCHING = {
    f"ociruntime.image.{name}"
    for name in ("archives", "incoming", "layer", "local_image", "registry", "tree_hash", "unpack")
}


def test_an_image_in_the_store_is_run_without_anything_heavy(ocipod: Ocipod, work: Path) -> None:
    image = ocipod("fetch", "--full", busybox(work)).ok().out.split()[-1]
    ocipod("prepare", image).ok()  # its tree is there from now on
    empty = _programs([*INTERPRETER, "-c", "pass"], work / "empty")[0]
    words = ocipod.command("run", "--net=none", image, "--name=app", *shell("true"))
    preparing, monitor = _programs([*INTERPRETER, str(MAIN), *words[1:]], work / "log")
    assert _foreign(preparing - empty) - PREPARING == set()
    assert _foreign(monitor - empty) - MONITOR == set()
    assert (preparing | monitor) & FETCHING == set()


def _programs(command: list[str], log: Path) -> list[set[str]]:
    """What each program loads that the process of ``command`` becomes, with its children."""
    with log.open("w") as file:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=file, timeout=60)
    assert status.returncode == 0, log.read_text()
    found: list[set[str]] = []
    for line in log.read_text(encoding="utf-8").splitlines():
        name = line.rpartition("|")[2].strip()
        if line.startswith("import time: self"):
            found.append(set())
        elif line.startswith("import time:"):
            found[-1].add(name)
    return found


def _foreign(names: set[str]) -> set[str]:
    return {name for name in names if name.partition(".")[0] != "ociruntime"}
