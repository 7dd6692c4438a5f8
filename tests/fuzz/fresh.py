"""Try fresh inputs on the Python targets: ``fresh.py SECONDS RUNS NAME...``.

One process imports all targets, which takes longest, and runs each in a child.  The seed is fixed:
the same code gets the same inputs.  The exit status is the number of targets that failed.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
with atheris.instrument_imports(include=["ociruntime"]):
    from tests.fuzz import corpus, table
    from tests.fuzz.run_python import start

    TARGETS = {name: table.load(name) for name in sys.argv[3:]}


def run(name: str, seconds: int, runs: int) -> bool:
    """Run a target in a child; return whether it has handled every input."""
    with tempfile.TemporaryDirectory() as directory:
        inputs = Path(directory, "inputs")
        inputs.mkdir()
        for data in [*TARGETS[name].seeds(), *corpus.inputs(name)]:
            (inputs / corpus.name_of(data)).write_bytes(data)
        known = len(os.listdir(inputs))
        end = f"-max_total_time={seconds}" if seconds else f"-runs={known + runs}"
        limits = ["-seed=1", "-max_len=4096", "-timeout=60", "-verbosity=0"]
        if child := os.fork():
            succeeded = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            for path in Path(directory).glob("crash-*"):
                print(f"{name}: {path.read_bytes()!r}", flush=True)
            return succeeded
        # libFuzzer ends the process: what it has written is removed with the directory.
        tempfile.tempdir = directory
        start(TARGETS[name], [name, end, *limits, f"-artifact_prefix={directory}/", str(inputs)])
        raise AssertionError("libFuzzer has not ended the process")


def main(arguments: list[str]) -> int:
    logging.disable()
    seconds, runs, *names = arguments
    failed = [name for name in names if not run(name, int(seconds), int(runs))]
    print("failed:", *failed, file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
