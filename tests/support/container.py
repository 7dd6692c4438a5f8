"""A container of the runtime under test, from create to delete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.support import processes
from tests.support.bundle import Bundle
from tests.support.runtime import Result, Runtime, content

State = dict[str, Any]


class Container:
    """A container: ``create``, ``start`` ... run the commands; ``output`` is what it printed."""

    def __init__(self, runtime: Runtime, name: str, bundle: Bundle) -> None:
        self.runtime = runtime
        self.id = name
        self.bundle = bundle
        self.exists = False
        self.executed: list[int] = []
        self.pid_file = bundle.path / f"pid-{name}"
        self._output = tempfile.TemporaryFile()

    def create(
        self,
        *flags: str,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        verb: str = "create",
    ) -> Result:
        """Run ``create``; the runtime's own output is in ``out`` of the result."""
        self.bundle.save()
        command = self.runtime.command(
            verb, "--bundle", str(self.bundle.path), "--pid-file", str(self.pid_file), *flags
        )
        command.append(self.id)
        os.ftruncate(self._output.fileno(), 0)
        self._output.seek(0)
        # One file for both: who reads it asks for the words, not for the stream.
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=self._output,
            stderr=self._output,
            pass_fds=pass_fds,
        )
        try:
            status = process.wait(60)
        except BaseException:
            process.kill()
            process.wait()
            self.exists = True
            raise
        self.exists = status == 0
        text = self.output
        return Result(command, status, "" if status else text, text if status else "")

    def created(self, *flags: str) -> Container:
        """Run ``create``, which must succeed and print nothing but warnings."""
        result = self.create(*flags).ok()
        lines = (result.out + result.err).splitlines()
        assert all("level=warning" in line for line in lines), result
        return self

    def started(self, *flags: str) -> Container:
        """Run ``create`` and ``start``, which must succeed, the latter silently."""
        self.created(*flags)
        self.start().silent()
        return self

    def start(self) -> Result:
        return self.runtime("start", self.id)

    def run(
        self,
        *flags: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        timeout: float = 60,
    ) -> Result:
        """Run ``run`` in the foreground; status and output are the container's."""
        self.bundle.save()
        path = str(self.bundle.path)
        result = self.runtime(
            "run",
            "--bundle",
            path,
            *flags,
            self.id,
            stdin=stdin,
            env=env,
            pass_fds=pass_fds,
            timeout=timeout,
        )
        self.exists = "--keep" in flags
        return result

    def exec(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        timeout: float = 60,
    ) -> Result:
        """Run ``exec`` in the foreground; ``words`` are options and the command, without the id."""
        options = []
        rest = list(words)
        while rest and rest[0].startswith("--"):
            options.append(rest.pop(0))
        return self.runtime(
            "exec",
            *options,
            self.id,
            *rest,
            env=env,
            cwd=cwd,
            stdin=stdin,
            pass_fds=pass_fds,
            timeout=timeout,
        )

    def exec_detached(self, *words: str, **how: Any) -> int:  # noqa: ANN401
        """Run ``exec --detach``, which must succeed silently; return the pid, reaped at the end."""
        file = self.bundle.path / f"pid-{self.id}-{len(self.executed)}"
        self.exec("--detach", f"--pid-file={file}", *words, **how).silent()
        self.executed.append(int(file.read_text()))
        return self.executed[-1]

    def end_executed(self) -> None:
        """Kill and reap exec processes.

        A pid namespace exits only after its last process is reaped.
        """
        while self.executed:
            pid = self.executed.pop()
            if processes.parent(pid) == os.getpid():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def state(self) -> State:
        """Return the state document; the command must print nothing on stderr."""
        result = self.runtime("state", self.id).ok()
        assert result.err == "", result
        document: State = json.loads(result.out)
        return document

    @property
    def status(self) -> str:
        status: str = self.state()["status"]
        return status

    def kill(self, *signal_word: str, everything: bool = False) -> Result:
        flags = ["--all"] if everything else []
        return self.runtime("kill", *flags, self.id, *signal_word)

    def delete(self, *flags: str) -> Result:
        result = self.runtime("delete", *flags, self.id)
        if result.status == 0:
            self.exists = False
        return result

    @property
    def pid(self) -> int:
        return int(self.pid_file.read_text())

    @property
    def output(self) -> str:
        """Return all output of the container (and of ``create``), stdout and stderr."""
        return content(self._output)

    def wait(self, seconds: float = 20) -> int:
        """Reap the init as its subreaper; return its exit status, 128 + n for a signal."""
        status: list[int] = []

        def ended() -> bool:
            pid, code = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                status.append(code)
            return pid != 0

        assert processes.until(ended, seconds), f"container {self.id} does not end"
        code = os.waitstatus_to_exitcode(status[0])
        return 128 - code if code < 0 else code

    def wait_output(self, text: str, seconds: float = 20) -> None:
        """Wait until the container has printed the text."""
        assert processes.until(lambda: text in self.output, seconds), (
            f"no {text!r} in the output of {self.id}: {self.output!r}"
        )

    def finish(self) -> None:
        """Delete the container by force if it exists."""
        self.end_executed()
        if self.exists:
            self.delete("--force").ok()

    def close(self) -> None:
        """Kill the process if it still runs, and close the output."""
        if self.pid_file.exists():
            text = self.pid_file.read_text()
            if text.isdigit() and processes.parent(int(text)) == os.getpid():
                os.kill(int(text), signal.SIGKILL)
        self._output.close()
