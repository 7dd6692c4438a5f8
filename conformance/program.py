"""Find or compile the probe, the static program that runs inside the test containers.

An installed package has it prebuilt; otherwise it is compiled once and cached.
"""

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
    """The probe is not prebuilt and cannot be compiled."""


def compile_probe(target: Path) -> None:
    """Compile the probe to ``target``, with CC and CFLAGS of the environment.  Raises NoProbe."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    extra = shlex.split(os.environ.get("CFLAGS", ""))
    sources = sorted(map(str, SOURCES.glob("*.c")))
    command = [*compiler, *FLAGS, *extra, "-o", str(target), *sources]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        hint = "install a C compiler, or set CC"
        message = f"cannot run {compiler[0]}: {error.strerror} ({hint})"
        raise NoProbe(f"compile the probe: {message}") from None
    if done.returncode != 0:
        raise NoProbe(f"compile the probe: {shlex.join(command)}:\n{done.stderr}")


@cache
def probe_path() -> Path:
    """Return the path of the probe, compiling it if needed; raises NoProbe."""
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
