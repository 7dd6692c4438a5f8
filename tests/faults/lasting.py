"""Files that must survive a power failure: each is synced before its name refers to it.

The writer runs under the stepper, which reports the file of each fsync(2).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.faults.running import LIST
from tests.faults.stepping import Boundary, step


@dataclass(frozen=True)
class Writing:
    """A program that writes lasting files; ``script`` writes below ``place``."""

    name: str
    script: str
    publishes: str  # in the path of each name that a file gets by rename(2)
    directory: bool = False  # the name itself is to survive as well


WRITINGS = (
    Writing(
        "file",
        "from ociruntime.base.files import replace_file\n"
        "replace_file(f'{place}/lasting', b'x', lasting=True)",
        "/lasting",
    ),
    Writing(
        "record",
        "import os\n"
        "from ociruntime.manager.containers.container_records import RecordStore\n"
        "os.makedirs(f'{place}/containers/c1')\n"
        "RecordStore(place).write_marker('c1', 'mark')",
        "/c1/mark",
        directory=True,
    ),
    Writing(
        "blob",
        "from ociruntime.images.store.import_image import Incoming\n"
        "from ociruntime.images.store.store import Store\n"
        "with Incoming(Store(place)) as incoming:\n"
        "    incoming.add_bytes(b'x')",
        "sha256-",
    ),
    Writing(
        "exported-file",
        "from ociruntime.pods.cli.new_directory import new_file\n"
        "with new_file(f'{place}/exported', overwrite=False) as file:\n"
        "    file.write(b'x')",
        "exported",
    ),
)


def problems(stepper: Path, program: Path, writing: Writing, place: Path) -> list[str]:
    """Return the losses that a power failure could cause after the script has written."""
    package = next((program.parent.parent / "lib").glob("*/site-packages"))
    place.mkdir()
    script = f"import sys; sys.path.insert(0, {str(package)!r})\n"
    script += f"place = {str(place)!r}\n{writing.script}"
    done = step(stepper, LIST, [sys.executable, "-I", "-c", script])
    assert done.status == 0, done.err
    return judge(done.calls, writing, str(place))


def judge(calls: list[Boundary], writing: Writing, place: str) -> list[str]:
    """Return what is wrong with the order of fsync(2) and rename(2)."""
    renames = [
        at
        for at, one in enumerate(calls)
        if one.call in {"rename", "renameat", "renameat2"} and writing.publishes in one.path
    ]
    assert renames, f"{writing.name}: nothing gets a name"
    found = []
    before = 0
    for at in renames:
        name = calls[at].path
        directory = os.path.dirname(name) or place  # a name alone is in the directory written to
        if directory not in {os.path.dirname(path) for path in _synced(calls[before:at])}:
            found.append(f"{name}: has its name before it is on the disk")
        if writing.directory and directory not in _synced(calls[at:]):
            found.append(f"{name}: its name is not on the disk")
        before = at
    return found


def _synced(calls: list[Boundary]) -> list[str]:
    return [one.path for one in calls if one.call in {"fsync", "fdatasync"}]
