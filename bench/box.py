"""Run the same measurements on cgroup v2, in the test VM."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from bench.document import Document
from bench.place import Failed
from tests.v2box import machine

SECONDS = 1500
REPORT = "bench.json"
PEERS = "peers"


def measure(options: list[str], peers: list[Path]) -> Document:
    """Boot the machine, run the bench there with these options, and return its document.

    The project is installed there with the machine's own interpreter. ``peers`` of this host are
    copied; the machine has a crun of its own. Raises Failed without such a machine.
    """
    try:
        machine.built()
    except machine.NoBox as reason:
        raise Failed(str(reason)) from None
    with tempfile.TemporaryDirectory(prefix="ociruntime-bench-", dir="/var/tmp") as name:
        place = Path(name)
        box = machine.installed(place)
        # The one directory that the machine shares with this host and may write to.
        copied = box.reports / PEERS
        copied.mkdir()
        for peer in peers:
            shutil.copy(peer, copied / peer.name)
        inside = [f"{machine.REPORTS}/{PEERS}/{peer.name}" for peer in peers]
        result = box.boot(
            *("env", f"PYTHONPATH={machine.SOURCE}", "PYTHONDONTWRITEBYTECODE=1"),
            *(f"{box.place}/bin/python", "-P", "-m", "bench", *options),
            f"--runtime={box.place}/bin/ociruntime",
            f"--peers={','.join([*inside, 'crun'])}",
            f"--json={machine.REPORTS}/{REPORT}",
            seconds=SECONDS,
        )
        if result.status != 0:
            raise Failed(f"the bench in the virtual machine: {result.out[-2000:]}{result.err}")
        found: Document = json.loads((box.reports / REPORT).read_text())
        return found
