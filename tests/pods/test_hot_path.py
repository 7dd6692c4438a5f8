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
MAIN = project.PACKAGE / "pods" / "cli" / "__main__.py"

# Written in C, or what Python's ``os`` brings along.
NEEDED = {
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
    *("_sha2", "_sha256"),
}
# Of the package: wanted when an image is fetched, unpacked or checked, and not before.
FETCHING = {
    f"ociruntime.images.{name}"
    for name in (
        *("formats.local_image", "registry.registry", "store.incoming", "tar.archives"),
        *("unpack.layer", "unpack.tree_hash", "unpack.unpack"),
    )
}


def test_an_image_in_the_store_is_run_without_anything_heavy(ocipod: Ocipod, work: Path) -> None:
    image = ocipod("fetch", "--full", busybox(work)).ok().out.split()[-1]
    os.utime(ocipod.directory / "cas" / "index.db", (5, 5))  # it has not changed for long
    ocipod("prepare", image).ok()  # its tree is there from now on, and a copy of the index
    empty = _loaded([*INTERPRETER, "-c", "pass"], work / "empty")
    words = ocipod.command("run", "--net=none", image, "--name=app", *shell("true"))
    loaded = _loaded([*INTERPRETER, str(MAIN), *words[1:]], work / "log")
    assert _foreign(loaded - empty) - NEEDED == set()
    assert loaded & FETCHING == set()


def _loaded(command: list[str], log: Path) -> set[str]:
    """What ``command`` loads, with its children."""
    with log.open("w") as file:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=file, timeout=60)
    assert status.returncode == 0, log.read_text()
    lines = log.read_text(encoding="utf-8").splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:  ")}


def _foreign(names: set[str]) -> set[str]:
    return {name for name in names if name.partition(".")[0] != "ociruntime"}
