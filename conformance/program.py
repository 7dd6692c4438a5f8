"""The probe: prebuilt in an installed package, else compiled once with the local compiler."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).with_name("probe")
PREBUILT = SOURCES / "probe"
FLAGS = ("-std=gnu11", "-O2", "-static", "-s", "-Wall", "-Wextra")


class NoProbe(Exception):
    """There is no probe and it cannot be made."""


def compile_probe(target: Path) -> None:
    """Compile the sources to ``target``; CC and CFLAGS are honoured.  Raises NoProbe."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    extra = shlex.split(os.environ.get("CFLAGS", ""))
    sources = sorted(map(str, SOURCES.glob("*.c")))
    command = [*compiler, *FLAGS, *extra, "-o", str(target), *sources]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoProbe(f"cannot run {compiler[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise NoProbe(f"cannot compile the probe:\n{done.stderr}")


@cache
def probe_path() -> Path:
    """The static program; raises NoProbe."""
    if PREBUILT.is_file():
        return PREBUILT
    digest = hashlib.sha256(os.uname().machine.encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    target = Path(home, "oci-conformance", f"probe-{digest.hexdigest()[:16]}")
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Several runs may start at once; the rename makes one of them win.
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        compile_probe(partial)
        partial.rename(target)
    return target
