"""Run the benchmarks on cgroup v2, in the test VM."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from bench.document import Document
from bench.place import Failed
from tests.v2box import machine

SECONDS = 1500  # timeout of the benchmarks in the VM
REPORT = "bench.json"
PEERS = "peers"


def measure(options: list[str], peers: list[Path]) -> Document:
    """Boot the test VM, run the benchmarks there with these options, and return the document.

    ociruntime is installed there with the VM's own interpreter. ``peers`` are this host's runtimes
    to copy; the VM has a crun of its own. Raises Failed if there is no test VM.
    """
    try:
        machine.built()
    except machine.NoBox as reason:
        raise Failed(str(reason)) from None
    with tempfile.TemporaryDirectory(prefix="ociruntime-bench-", dir="/var/tmp") as name:
        box = machine.installed(Path(name))
        # The only directory of this host that the VM can write to.
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
            output = f"{result.out[-2000:]}{result.err}"
            raise Failed(f"bench in the test VM: exit status {result.status}: {output}")
        found: Document = json.loads((box.reports / REPORT).read_text())
        return found
