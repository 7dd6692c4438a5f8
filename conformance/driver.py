"""Run the runtime under test by its command line, as an engine does.

Standard output and error are files, never pipes: the container inherits them, so the reader of a
pipe would wait for the container's exit instead of the command's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance import children
from conformance.case import Failed
from conformance.clauses import version_key

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Runtime:
    """A runtime under test: the program at ``path``, and its global options.

    ``versions``: those of the specification that it accepts as ``ociVersion``; () if unknown.
    ``build`` tells it from others with the same name and version; see ``tell_apart``.
    """

    path: Path
    name: str
    version: str
    options: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    build: str = ""

    @property
    def release(self) -> str:
        """Name and version, such as "runc 1.1.5"; builds of one version have them in common."""
        return f"{self.name} {self.version}"

    @property
    def label(self) -> str:
        """Name and version, and the build if several are tested: "runc 1.1.5 (/opt/runc)"."""
        return f"{self.release} ({self.build})" if self.build else self.release

    def config_version(self, since: str) -> str:
        """Return the ``ociVersion`` to use for a feature of version ``since``.

        It is the newest version up to ``since`` that the runtime accepts, else ``since``.
        """
        older = [one for one in self.versions if version_key(one) <= version_key(since)]
        return max(older, key=version_key) if older else since

    @property
    def systemd(self) -> bool:
        """True if the runtime is called with ``--systemd-cgroup``."""
        return "--systemd-cgroup" in self.options


@dataclass(frozen=True)
class Result:
    """A command's result; ``status`` is the exit status, negative for a signal."""

    command: tuple[str, ...]
    status: int
    out: str
    err: str
    seconds: float

    @property
    def ok(self) -> bool:
        """True if the command succeeded."""
        return self.status == 0

    @property
    def complaint(self) -> str:
        """The last line of standard error, or of standard output if that is empty."""
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1].strip() if lines else "(no message)"

    def json(self) -> Any:
        """Return standard output parsed as JSON; raises Failed if it is invalid."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise Failed(f"{self.verb} printed invalid JSON: {self.out[:200]!r}") from None

    @property
    def verb(self) -> str:
        """The runtime's command (``create``, ``start`` ...), for messages."""
        words = [word for word in self.command[1:] if not word.startswith("/")]
        return next((word for word in words if not word.startswith("-")), self.command[0])


@dataclass
class Shell:
    """Run programs for a case in ``directory``, and record them in ``history``.

    ``seconds`` is the default timeout of a command.
    """

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
        """Run a command to its end; kill it and raise Failed after ``seconds``.

        ``stdin``: bytes, or a descriptor.  ``outputs``: files to append standard output and error
        to.  ``before`` is called in the child before execve.
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
    """Return the runtime with the name and version in ``version_text``, printed by --version."""
    match = re.search(r"(\S+) version:? (\d\S*)", version_text)
    match = match or re.search(r"(\S+)[ :]+v?(\d\S*)", version_text)
    name, version = (match[1], match[2]) if match else (path.name, "unknown")
    return Runtime(path, name, re.split(r"[+~]", version)[0], tuple(options))


def tell_apart(runtimes: Sequence[Runtime]) -> list[Runtime]:
    """Return the runtimes with a build for each whose name and version others have, too.

    It is the path of the program; a number follows for what is listed twice.
    """
    releases = Counter(one.release for one in runtimes)
    seen: Counter[tuple[str, Path]] = Counter()
    told = []
    for one in runtimes:
        build = ""
        if releases[one.release] > 1:
            seen[one.release, one.path] += 1
            number = seen[one.release, one.path]
            build = f"{one.path}" if number == 1 else f"{one.path} #{number}"
        told.append(replace(one, build=build))
    return told
