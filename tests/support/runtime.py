"""The runtime under test, called by its command line, like an engine does.

Standard output and error are files, never pipes: a container keeps them open, and a pipe's reader
would wait for the container's exit instead of the command's.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


class Result:
    """The result of a command: ``status`` (negative for a signal), ``out`` and ``err`` as text."""

    def __init__(self, command: Sequence[str], status: int, out: str, err: str) -> None:
        self.command = list(command)
        self.status = status
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        words = " ".join(self.command)
        return f"<{words}: status {self.status}, out {self.out!r}, err {self.err!r}>"

    @property
    def message(self) -> str:
        """Return the only line on standard error, without the log's quotes."""
        assert self.err.count("\n") == 1, self
        text = self.err.rstrip("\n").partition(" msg=")[2] or self.err.rstrip("\n")
        message: str = json.loads(text) if text.startswith('"') else text
        return message

    def ok(self) -> Result:
        """Assert success."""
        assert self.status == 0, self
        return self

    def silent(self) -> Result:
        """Assert success without output."""
        assert (self.status, self.out, self.err) == (0, "", ""), self
        return self

    def failed(self, *words: str) -> Result:
        """Assert exit status 1, nothing on stdout, and each word in the error."""
        assert self.status == 1, self
        assert self.out == "", self
        for word in words:
            assert word in self.err, f"{word!r} is not in the error of {self}"
        return self


def execute(
    command: Sequence[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
    timeout: float = 60,
) -> Result:
    """Run to the end, with output in files; raises subprocess.TimeoutExpired after killing it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=stdin, stdout=out, stderr=err, pass_fds=pass_fds
        )
        try:
            status = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return Result(command, status, content(out), content(err))


def content(file: IO[bytes]) -> str:
    """Return all text of a file, without changing its offset, which a container may share."""
    return os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace")


class Runtime:
    """A program with a state root and further global options."""

    def __init__(self, path: Path, root: Path, *options: str) -> None:
        self.path = path
        self.root = root
        self.options = options
        self.kind = kind_of(path)

    def command(self, *args: str) -> list[str]:
        return [str(self.path), "--root", str(self.root), *self.options, *args]

    def logging_to(self, log: Path, form: str = "json") -> Runtime:
        """Return the same runtime with a log file, as engines call it."""
        return Runtime(self.path, self.root, "--log", str(log), "--log-format", form)

    def __call__(
        self,
        *args: str,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        timeout: float = 60,
    ) -> Result:
        """Run ``RUNTIME --root ROOT ARGS``."""
        return execute(
            self.command(*args), cwd=cwd, env=env, stdin=stdin, pass_fds=pass_fds, timeout=timeout
        )

    def popen(
        self,
        *args: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        start_new_session: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a command and do not wait for it."""
        return subprocess.Popen(
            self.command(*args),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=start_new_session,
        )


def kind_of(path: Path) -> str:
    """Return the first word of ``--version``: ociruntime, runc, crun, youki."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split(" ", 1)[0].strip()
