"""A container under test: the runtime's commands for it, and its state as seen from the host."""

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
    """A container of ``context``; ``created`` is the result of ``create``.

    ``outputs`` are the files with standard output and error of ``create`` and the container.
    """

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
        """Run ``RUNTIME VERB [OPTION...] ID [WORD...]`` and return the result, even of a failure.

        ``options`` are those of ``Shell.run``.
        """
        before = [word for word in words if word.startswith("-")]
        after = [word for word in words if not word.startswith("-")]
        return self.context.call(verb, *before, self.id, *after, **options)

    def remember(self, result: Result, pid_file: Path) -> None:
        """Record the result of ``create``; what it printed is not part of ``out`` and ``err``."""
        self.created = result
        if result.ok and pid_file.exists():
            self._pid = int(pid_file.read_text() or 0)
        self._offsets = (len(result.out.encode()), len(result.err.encode()))

    def start(self) -> Result:
        """Run ``start``, which must succeed (else raises Failed)."""
        return self._must(self.attempt("start"))

    def kill(self, signal: str = "KILL") -> Result:
        """Run ``kill``, which must succeed (else raises Failed)."""
        return self._must(self.attempt("kill", signal))

    def delete(self, *options: str) -> Result:
        """Run ``delete``, which must succeed (else raises Failed)."""
        result = self._must(self.attempt("delete", *options))
        self.deleted = True
        return result

    def state(self) -> Json:
        """Return the document that ``state`` prints; raises Failed if it fails."""
        state = self._must(self.attempt("state")).json()
        if not isinstance(state, dict):
            raise Failed(f"state: not a JSON object: {state!r}")
        return state

    @property
    def status(self) -> str:
        """The status that ``state`` reports: ``created``, ``running``, ``stopped`` ..."""
        return str(self.state().get("status"))

    @property
    def pid(self) -> int:
        """The pid of the container's init on the host, as in the pid file or ``state``."""
        if not self._pid:
            pid = self.state().get("pid")
            if not isinstance(pid, int) or pid <= 0:
                raise Failed(f"state: invalid pid: {pid!r}")
            self._pid = pid
        return self._pid

    def wait(self, seconds: float = 10) -> int | None:
        """Wait until the init exits; return its exit status, negative for a signal.

        None if the init was not reparented to the caller's subreaper.  Raises Failed on timeout.
        """
        pid = self.pid
        deadline = time.monotonic() + seconds
        self.exit_status = children.wait(pid, seconds)
        while self.exit_status is None and Path(f"/proc/{pid}").exists():
            if time.monotonic() > deadline:
                raise Failed(f"the container did not exit within {seconds:g} s")
            time.sleep(0.01)
        return self.exit_status

    def wait_for(self, status: str, seconds: float = 5) -> None:
        """Wait until ``state`` reports that status; raises Failed on timeout."""
        message = f"the status did not become {status} within {seconds:g} s"
        self.context.until(lambda: self.status == status, message, seconds)

    @property
    def out(self) -> str:
        """The container's standard output so far."""
        return self.outputs[0].read_bytes()[self._offsets[0] :].decode(errors="surrogateescape")

    @property
    def err(self) -> str:
        """The container's standard error so far."""
        return self.outputs[1].read_bytes()[self._offsets[1] :].decode(errors="surrogateescape")

    @property
    def reports(self) -> list[Json]:
        """The JSON reports that the probe printed so far, one a line; other lines are ignored."""
        reports: list[Json] = []
        for line in self.out.splitlines():
            try:
                reports.append(json.loads(line))
            except ValueError:
                continue
        return reports

    def wait_for_reports(self, count: int = 1, seconds: float = 5) -> list[Json]:
        """Wait until the probe has printed ``count`` reports; return them all."""
        message = f"the probe did not print {count} reports within {seconds:g} s"
        self.context.until(lambda: len(self.reports) >= count, message, seconds)
        return self.reports

    def file(self, path: str) -> Path:
        """Return the host's path of a file in the root filesystem, without mounts."""
        return self.bundle.rootfs / path.lstrip("/")

    def proc(self, name: str) -> Path:
        """Return the path ``/proc/PID/NAME`` for the init."""
        return Path(f"/proc/{self.pid}/{name}")

    @property
    def root(self) -> Path:
        """The init's root directory, with its mounts: ``/proc/PID/root``."""
        return self.proc("root")

    def namespace(self, kind: str) -> int:
        """Return the inode of a namespace; ``kind`` as in /proc/PID/ns: mnt, net, pid ...

        Skips if the kernel denies it: an unprivileged user cannot inspect an untraceable process.
        """
        try:
            return self.proc(f"ns/{kind}").stat().st_ino
        except PermissionError as error:
            raise Skipped(f"needs root to read {error.filename}") from None

    def mountinfo(self) -> list[mounts.Mount]:
        """Return the mounts of the init."""
        return mounts.of(self.pid)

    def cgroups(self) -> dict[str, Path]:
        """Return the init's cgroups as controller ("" for v2) -> directory."""
        return cgroups.of(self.pid)

    def cgroup_file(self, controller: str, v1: str, v2: str) -> str:
        """Return a control file's content without the last newline.

        ``v1`` and ``v2`` are the file's names for the two cgroup versions.
        """
        directories = self.cgroups()
        in_v1 = controller in directories
        path = directories[controller] / v1 if in_v1 else directories[""] / v2
        try:
            return path.read_text().rstrip("\n")
        except OSError as error:
            raise Failed(f"cannot read {path}: {error.strerror}") from None

    def until(self, condition: Callable[[], object], message: str, seconds: float = 5) -> None:
        """Wait until the condition holds; raises Failed with the message on timeout."""
        self.context.until(condition, message, seconds)

    def _must(self, result: Result) -> Result:
        if not result.ok:
            raise Failed(f"{result.verb} failed with status {result.status}: {result.complaint}")
        return result
