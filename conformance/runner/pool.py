"""Run many cases concurrently, each in its own process."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import children, isolation, surroundings
from conformance.case import Case
from conformance.driver import Runtime
from conformance.runner import worker
from conformance.runner.outcome import Outcome, broken, from_json


@dataclass(frozen=True)
class Settings:
    """Settings of a run: ``timeout`` (of a case) and ``command_timeout`` are in seconds.

    ``jobs`` cases run in parallel; ``keep`` the scratch directories.
    """

    probe: Path
    jobs: int = 1
    timeout: float = 40
    command_timeout: float = 15
    stop_at_first: bool = False
    keep: bool = False


@dataclass
class Job:
    """A running worker process; ``reply`` is the pipe from which its outcome is read."""

    case: Case
    runtime: Runtime
    directory: Path
    pid: int
    reply: int
    deadline: float
    received: bytearray = field(default_factory=bytearray)


class Pool:
    """A pool of worker processes that run cases; it cleans up even if it is interrupted."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.jobs: dict[int, Job] = {}
        self._base = Path(tempfile.mkdtemp(prefix="oci-"))
        self._base.chmod(0o755)
        self.token = f"oc{secrets.token_hex(2)}x"  # in all names of this run
        self._count = 0

    def run(
        self,
        pairs: Sequence[tuple[Case, Runtime]],
        begun: Callable[[Case, Runtime], None] = lambda _case, _runtime: None,
    ) -> Iterator[Outcome]:
        """Run the pairs; yield outcomes in the order in which the cases end.

        ``begun`` is called when a case starts.
        """
        isolation.become_subreaper()
        waiting = sorted(pairs, key=lambda pair: pair[0].exclusive)
        stopped = False
        try:
            while self.jobs or (waiting and not stopped):
                while waiting and not stopped and self._may_begin(waiting[0][0]):
                    case, runtime = waiting.pop(0)
                    begun(case, runtime)
                    self._begin(case, runtime)
                for outcome in self._collect():
                    stopped = stopped or (self.settings.stop_at_first and outcome.bad)
                    yield outcome
        finally:
            self._end_all()
            # Clean up after workers that ran out of time: a v1 hierarchy lives as long as its last
            # cgroup.
            surroundings.clear_named(self._base / "state", self.token)
            if not self.settings.keep:
                shutil.rmtree(self._base, ignore_errors=True)

    @property
    def directory(self) -> Path:
        """The scratch directory of all cases."""
        return self._base

    def _may_begin(self, case: Case) -> bool:
        alone = case.exclusive or any(job.case.exclusive for job in self.jobs.values())
        return not self.jobs or (not alone and len(self.jobs) < self.settings.jobs)

    def _begin(self, case: Case, runtime: Runtime) -> None:
        self._count += 1
        directory = self._base / f"{self.token}{self._count}"
        timeout = case.timeout or self.settings.timeout
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            limits = (timeout, self.settings.command_timeout)
            worker.main(
                case, runtime, directory, self.settings.probe, limits, writing, self.settings.keep
            )
        os.close(writing)
        deadline = time.monotonic() + timeout + worker.CLEANUP_SECONDS + 10
        self.jobs[reading] = Job(case, runtime, directory, pid, reading, deadline)

    def _collect(self) -> Iterator[Outcome]:
        poll = select.poll()
        for fd in self.jobs:
            poll.register(fd, select.POLLIN | select.POLLHUP)
        nearest = min(job.deadline for job in self.jobs.values()) - time.monotonic()
        for fd, _ in poll.poll(max(0, min(nearest, 5)) * 1000):
            data = os.read(fd, 1 << 16)
            if data:
                self.jobs[fd].received += data
            else:
                yield self._end(self.jobs.pop(fd))
        now = time.monotonic()
        for job in [job for job in self.jobs.values() if job.deadline < now]:
            os.kill(job.pid, signal.SIGKILL)
            del self.jobs[job.reply]
            yield self._end(job)

    def _end(self, job: Job) -> Outcome:
        os.close(job.reply)
        os.waitpid(job.pid, 0)
        self._reap_orphans()
        try:
            document = json.loads(job.received)
            return from_json(document)
        except ValueError:
            message = "the case's process exited without an outcome"
        except (KeyError, TypeError):
            message = document.get("broken", "no outcome")
        # The worker may have been killed before its cleanup.
        surroundings.clear_named(job.directory / "state", job.directory.name)
        return broken(job.runtime.label, job.case, message)

    def _reap_orphans(self) -> None:
        """Reap processes that outlived their worker and became this process's children."""
        workers = {job.pid for job in self.jobs.values()}
        for pid in children.own() - workers:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue

    def _end_all(self) -> None:
        """End the workers by SIGALRM, their timeout signal, so that each cleans up."""
        for job in self.jobs.values():
            os.kill(job.pid, signal.SIGALRM)
        for job in self.jobs.values():
            os.waitpid(job.pid, 0)
            os.close(job.reply)
        self.jobs.clear()
        self._reap_orphans()
