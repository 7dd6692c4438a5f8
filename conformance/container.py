"""A container: the runtime's commands for it, and its state as the host sees it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance import cgroups, children, mounts
from conformance.bundle import Bundle, Json
from conformance.case import Failed, Skipped
from conformance.driver import Result

if TYPE_CHECKING:
    from conformance.context import Context


class Container:
    """``created``: what ``create`` gave.  Output files hold what runtime and container wrote."""

    def __init__(self, context: Context, id: str, bundle: Bundle) -> None:
        self.context = context
        self.id = id
        self.bundle = bundle
        # Do not name the directory after the id, which may not be a valid file name.
        number = len(context.containers) + 1
        self.outputs = (
            context.directory / f"container{number}.out",
            context.directory / f"container{number}.err",
        )
        self.created: Result | None = None
        self.deleted = False
        self.exit_status: int | None = None
        self._pid = 0
        self._offsets = (0, 0)

    def attempt(self, verb: str, *words: str, **options: Any) -> Result:
        """Run ``RUNTIME VERB [-OPTION...] ID [WORD...]`` and return the result, success or not."""
        before = [word for word in words if word.startswith("-")]
        after = [word for word in words if not word.startswith("-")]
        return self.context.call(verb, *before, self.id, *after, **options)

    def remember(self, result: Result, pid_file: Path) -> None:
        """Note what ``create`` printed, so that ``out`` and ``err`` are the container's."""
        self.created = result
        if result.ok and pid_file.exists():
            self._pid = int(pid_file.read_text() or 0)
        self._offsets = (len(result.out.encode()), len(result.err.encode()))

    def start(self) -> Result:
        """Must succeed."""
        return self._must(self.attempt("start"))

    def kill(self, signal: str = "KILL") -> Result:
        """Must succeed."""
        return self._must(self.attempt("kill", signal))

    def delete(self, *options: str) -> Result:
        """Must succeed."""
        result = self._must(self.attempt("delete", *options))
        self.deleted = True
        return result

    def state(self) -> Json:
        """The state document; Failed when there is none."""
        state = self._must(self.attempt("state")).json()
        if not isinstance(state, dict):
            raise Failed(f"state is no object: {state!r}")
        return state

    @property
    def status(self) -> str:
        """``created``, ``running``, ``stopped``..."""
        return str(self.state().get("status"))

    @property
    def pid(self) -> int:
        """Return the container's pid on the host, as ``state`` reports it."""
        if not self._pid:
            pid = self.state().get("pid")
            if not isinstance(pid, int) or pid <= 0:
                raise Failed(f"state has no pid: {pid!r}")
            self._pid = pid
        return self._pid

    def wait(self, seconds: float = 10) -> int | None:
        """Wait for the process's end: its exit status, negative for a signal.

        None if the runtime did not leave it to its caller's subreaper.
        """
        pid = self.pid
        limit = time.monotonic() + seconds
        self.exit_status = children.wait(pid, seconds)
        while self.exit_status is None and Path(f"/proc/{pid}").exists():
            if time.monotonic() > limit:
                raise Failed(f"the container did not end within {seconds:g} s")
            time.sleep(0.01)
        return self.exit_status

    def wait_for(self, status: str, seconds: float = 5) -> None:
        """Wait until ``state`` reports that status."""
        self.context.until(lambda: self.status == status, f"status never became {status}", seconds)

    @property
    def out(self) -> str:
        """Standard output since create."""
        return self.outputs[0].read_bytes()[self._offsets[0] :].decode(errors="surrogateescape")

    @property
    def err(self) -> str:
        """Standard error since create."""
        return self.outputs[1].read_bytes()[self._offsets[1] :].decode(errors="surrogateescape")

    @property
    def reports(self) -> list[Json]:
        """Return the probe's output so far, line by line."""
        found: list[Json] = []
        for line in self.out.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def wait_for_reports(self, count: int = 1, seconds: float = 5) -> list[Json]:
        """Wait until there are that many."""
        self.context.until(
            lambda: len(self.reports) >= count, "the program printed no report", seconds
        )
        return self.reports

    def file(self, path: str) -> Path:
        """A file of the root file system, as the host sees it."""
        return self.bundle.rootfs / path.lstrip("/")

    def proc(self, name: str) -> Path:
        """``/proc/PID/NAME``."""
        return Path(f"/proc/{self.pid}/{name}")

    @property
    def root(self) -> Path:
        """The root directory that the process has, mounts included."""
        return self.proc("root")

    def namespace(self, kind: str) -> int:
        """Inode; ``kind`` as in /proc: cgroup ipc mnt net pid time user uts.

        Skips where the kernel lets an ordinary user not look at a process that may not be traced.
        """
        try:
            return self.proc(f"ns/{kind}").stat().st_ino
        except PermissionError as error:
            raise Skipped(f"needs root to look at {error.filename}") from None

    def mountinfo(self) -> list[mounts.Mount]:
        """Its mounts."""
        return mounts.of(self.pid)

    def cgroups(self) -> dict[str, Path]:
        """Controller (``""`` for v2) -> directory of the process."""
        return cgroups.of(self.pid)

    def cgroup_file(self, controller: str, v1: str, v2: str) -> str:
        """A control file's content without the last newline, by the version in use here."""
        found = self.cgroups()
        path = found[controller] / v1 if controller in found else found[""] / v2
        try:
            return path.read_text().rstrip("\n")
        except OSError as error:
            raise Failed(f"cannot read {path}: {error.strerror}") from None

    def until(self, condition: Callable[[], object], message: str, seconds: float = 5) -> None:
        """Wait until the condition holds; Failed with the message if it never does."""
        self.context.until(condition, message, seconds)

    def _must(self, result: Result) -> Result:
        if not result.ok:
            raise Failed(f"{result.verb} failed ({result.status}): {result.complaint}")
        return result
