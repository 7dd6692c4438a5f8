"""A background process that builds the test VM, installs the project in it and boots it.

Usage: background.py DIRECTORY [RUN...].  The test VM is a separate machine: its tests can run while
the session runs other tests.  Standard output reports the progress, one word a line: ``tree``, then
the name of each run.  The result is in ``DIRECTORY/WORD.json``.  The session holds standard input
open.  When the session ends, in whatever way, everything that was started here ends, and the
directory is removed.  The process does not descend from the tests, because they kill their own
descendants.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    # Appended: an installed package keeps its place before the sources.
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent))

from tests.support import isolation, processes
from tests.v2box import machine, runs

NICE = 5  # what the session does meanwhile comes first


def become_orphan() -> None:
    """Continue as an orphan in a separate session, outside terminals and job control."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.nice(NICE)
    isolation.adopt_orphans()


def end_with_input() -> None:
    """Exit, through ``finally``, when standard input is closed."""

    def wait() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=wait, daemon=True).start()


def tell(place: Path, word: str, outcome: dict[str, object]) -> None:
    (place / f"{word}.json").write_text(json.dumps(outcome))
    print(word, flush=True)


def attend(place: Path, names: list[str]) -> None:
    """Run all steps in order; without a test VM, only report the reason."""
    try:
        machine.built()
    except machine.NoBox as reason:
        tell(place, "tree", {"no box": str(reason)})
        return
    tell(place, "tree", {})
    if not names:
        return
    box = machine.installed(place)
    for name in names:
        result = runs.boot(box, name)
        tell(place, name, {"status": result.status, "out": result.out, "err": result.err})


def end_all() -> None:
    """End everything that was started, even while it waits for another session's VM."""
    while found := processes.descendants():
        processes.end(found)
    processes.reap_orphans()


def main(directory: str, *names: str) -> None:
    place = Path(directory)
    become_orphan()
    end_with_input()
    try:
        attend(place, list(names))
        signal.pause()
    finally:
        end_all()
        shutil.rmtree(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
