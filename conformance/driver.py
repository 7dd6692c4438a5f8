"""The runtime under test, driven by its command line as an engine does it.

Standard output and error are files, never pipes: a container keeps them open, and a pipe's
reader would wait for the container's end instead of the command's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import children
from conformance.case import Failed
from conformance.clauses import version_key

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Runtime:
    """A program with the global options that it is always called with.

    ``versions``: those of the specification that it takes in a config; empty if unknown.
    """

    path: Path
    name: str
    version: str
    options: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``runc 1.1.5``; for columns and file names."""
        return f"{self.name} {self.version}"

    def config_version(self, since: str) -> str:
        """The version for a config about something that is there ``since`` then."""
        older = [one for one in self.versions if version_key(one) <= version_key(since)]
        return max(older, key=version_key) if older else since

    @property
    def systemd(self) -> bool:
        """Return true if the runtime was told to use systemd for the control groups."""
        return "--systemd-cgroup" in self.options


@dataclass(frozen=True)
class Result:
    """A command's result. ``status``: exit status, negative for a signal."""

    command: tuple[str, ...]
    status: int
    out: str
    err: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Return true if the command reports success."""
        return self.status == 0

    @property
    def complaint(self) -> str:
        """The last line that it wrote on standard error, or else on standard output."""
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1].strip() if lines else "(no message)"

    def json(self) -> Any:
        """Standard output as JSON; Failed if it is none."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise Failed(f"{self.verb} printed no JSON: {self.out[:200]!r}") from None

    @property
    def verb(self) -> str:
        """``create``, ``start``...: what was called, for messages."""
        words = [word for word in self.command[1:] if not word.startswith("/")]
        return next((word for word in words if not word.startswith("-")), self.command[0])


@dataclass
class Shell:
    """Runs programs for a case, and keeps what they were and did."""

    directory: Path
    seconds: float
    history: list[Result] = field(default_factory=list)

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | int = b"",
        outputs: tuple[Path, Path] | None = None,
        pass_fds: Sequence[int] = (),
        before: Callable[[], None] | None = None,
        seconds: float | None = None,
    ) -> Result:
        """Run to the end; Failed if that does not come within ``seconds``.

        ``stdin``: bytes, or a descriptor.  ``outputs``: files for standard output and error,
        to be looked at after the command.  ``before``: called in the child before execve.
        """
        number = len(self.history)
        out, err = outputs or (self.directory / f"{number}.out", self.directory / f"{number}.err")
        limit = self.seconds if seconds is None else seconds
        started = time.monotonic()
        with out.open("ab") as out_file, err.open("ab") as err_file:
            source = stdin if isinstance(stdin, int) else _file_of(stdin)
            pid = children.spawn(
                command,
                cwd=cwd,
                env={"PATH": PATH} if env is None else env,
                stdin=source,
                stdout=out_file.fileno(),
                stderr=err_file.fileno(),
                pass_fds=pass_fds,
                before=before,
            )
            if source != stdin:
                os.close(source)
        status = children.wait(pid, limit)
        hung = status is None
        if status is None:
            os.kill(pid, signal.SIGKILL)
            status = children.wait(pid, 5)
        result = Result(
            tuple(command),
            -signal.SIGKILL if status is None else status,
            out.read_text(errors="replace"),
            err.read_text(errors="replace"),
            time.monotonic() - started,
        )
        self.history.append(result)
        if hung:
            raise Failed(f"{result.verb} did not return within {limit:g} s")
        return result


def _file_of(content: bytes) -> int:
    fd = os.memfd_create("stdin")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def identify(path: Path, version_text: str, options: Sequence[str] = ()) -> Runtime:
    """Name and version from what ``--version`` prints first."""
    match = re.search(r"(\S+) version:? (\d\S*)", version_text)
    match = match or re.search(r"(\S+)[ :]+v?(\d\S*)", version_text)
    name, version = (match[1], match[2]) if match else (path.name, "unknown")
    return Runtime(path, name, re.split(r"[+~]", version)[0], tuple(options))
