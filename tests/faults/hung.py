"""Containers whose bundle, root or state root is on a filesystem that no longer answers."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults import judging, scenarios
from tests.faults.scenarios import Stage
from tests.support import isolation, project
from tests.support.fast_path import BY_PYTHON
from tests.support.runtime import content

WAIT_SECONDS = 1.5  # that a command which must not wait may take on a busy machine, and more
END_SECONDS = 5.0


@dataclass(frozen=True)
class Place:
    """The part of a container that is on the filesystem."""

    name: str
    holds_root: bool  # a program that is executed in the container comes from it

    def path(self, stage: Stage) -> Path:
        return {
            "bundle": stage.bundle.path,
            "root": stage.bundle.rootfs,
            "state": stage.root,
        }[self.name]


PLACES = (Place("bundle", True), Place("root", True), Place("state", False))


class Silent:
    """A silent filesystem, which still answers."""

    def __init__(self, target: Path, manner: str) -> None:
        self._target = target
        self._source = Path(tempfile.mkdtemp(prefix="source-", dir=target.parent))
        isolation.mount(str(target), str(self._source), "", isolation.MS_BIND | isolation.MS_REC)
        command = [sys.executable, "-m", "tests.faults.silent_filesystem"]
        self._server = subprocess.Popen(
            [*command, str(target), str(self._source), manner],
            cwd=project.ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._await("mounted")

    def _await(self, line: str) -> None:
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == f"{line}\n"

    def fall_silent(self) -> None:
        self._server.send_signal(signal.SIGUSR1)
        self._await("silent")

    def end(self) -> None:
        """End the filesystem: the kernel answers all pending requests with an error."""
        self._server.kill()
        self._server.communicate()
        isolation.unmount(str(self._target))
        isolation.unmount(str(self._source))
        self._source.rmdir()


@contextlib.contextmanager
def silent(stage: Stage, place: Place, manner: str = "deaf") -> Iterator[Silent]:
    """Mount a filesystem at that path that still answers."""
    target = place.path(stage)
    target.mkdir(mode=0o700, exist_ok=True)
    one = Silent(target, manner)
    try:
        yield one
    finally:
        one.end()


@dataclass(frozen=True)
class Ended:
    """How a command ended; ``waited``: a signal had to end it."""

    status: int | None  # None: not even by the signal
    waited: bool
    err: str


def attempt(command: list[str], number: int = signal.SIGINT) -> Ended:
    """Run a command; if it hangs, send it the signal."""
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
        )
        waited = not _ends(process, WAIT_SECONDS)
        if waited:
            process.send_signal(number)
        status = process.returncode if _ends(process, END_SECONDS) else None
        if status is None:
            process.kill()
        return Ended(status, waited, content(err))


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


COMMANDS: dict[str, tuple[str, ...]] = {
    "state": ("state", "{id}"),
    "state-python": (BY_PYTHON, "state", "{id}"),
    "list": ("list",),
    "ps": ("ps", "{id}"),
    "events": ("events", "--stats", "{id}"),
    "kill": ("kill", "{id}", "TERM"),
    "pause": ("pause", "{id}"),
    "update": ("update", "--memory", "50331648", "{id}"),
    "exec": ("exec", "{id}", "true"),
    "delete": ("delete", "--force", "{id}"),
    "create": ("create", "--bundle", "{bundle}", "{id}"),
    "run": ("run", "--bundle", "{bundle}", "{id}"),
}
MAKING = frozenset({"create", "run"})
# They need nothing of a bundle; of the others, `pause` waits for a process that is in the kernel.
INDEPENDENT = frozenset(COMMANDS) - MAKING - {"exec", "pause"}


def run(stage: Stage, place: Place, command: str, number: int, manner: str = "deaf") -> list[str]:
    """Run a command with a silent filesystem, and clean up afterwards; return the problems."""
    stage.bundle.args("sleep", "1000").save()
    before = judging.look(stage)
    words = [word.format(id=stage.id, bundle=stage.bundle.path) for word in COMMANDS[command]]
    try:
        with silent(stage, place, manner) as one:
            if command not in MAKING:
                scenarios.running(stage)
            one.fall_silent()
            ended = attempt(stage.command(*words), number)
            problems = _problems(stage, place, command, ended, may_wait=manner != "deaf")
        return problems + judging.cleaned(stage, before)
    except BaseException:
        judging.clear(stage, before)
        raise


def _problems(stage: Stage, place: Place, command: str, ended: Ended, may_wait: bool) -> list[str]:
    if ended.status is None:
        return ["the command hangs, and no signal ends it"]
    if may_wait:
        return []
    if place.name != "state" and command in INDEPENDENT:
        return [f"waits, or fails: {ended}"] if ended.waited or ended.status else []
    # The executor looks into the root; then the message has to say which.
    looked = place.name == "root" and command in {"create", "run", "exec"}
    if looked and str(stage.bundle.rootfs) not in ended.err:
        return [f"does not name the root: {ended}"]
    return []
