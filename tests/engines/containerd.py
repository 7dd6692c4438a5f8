"""containerd with private root, state directory and sockets, and ``ctr`` as its client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Any

from tests.engines import image
from tests.engines.command import execute, in_terminal
from tests.engines.daemon import PATH, Daemon
from tests.support import leaks, processes
from tests.support.runtime import Result
from tests.support.terminal import PtyCommand

CONFIG = """
version = 2
root = "{home}/root"
state = "{home}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.restart"]

[grpc]
address = "{home}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
"""


class Containerd:
    """Runs ``ctr``; the method ``run`` is ``ctr run`` with the runtime under test."""

    def __init__(
        self, daemon: str, ctr: str, runtime: Path, home: Path, snapshotter: str, cgroup: str
    ) -> None:
        self.home = home
        self.cgroup = cgroup
        self.runtime = runtime
        self.program = ctr
        self.env = {
            "PATH": PATH,
            "CONTAINERD_ADDRESS": str(home / "containerd.sock"),
            "CONTAINERD_SNAPSHOTTER": snapshotter,
        }
        config = home / "config.toml"
        config.write_text(CONFIG.format(home=home))
        self.daemon = Daemon([daemon, "--config", str(config)], home / "log", self.env)
        self.daemon.wait(lambda: self("version").status == 0)

    def __call__(self, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        return execute([self.program, *args], self.env, self.home, stdin)

    def new(self, name: str, *args: str) -> list[str]:
        """Return the arguments of ``run``: options before the image, the program after it."""
        at = next((i for i, word in enumerate(args) if not word.startswith("-")), len(args))
        return [
            "run",
            f"--runc-binary={self.runtime}",
            *self.places(name),
            *args[:at],
            image.NAME,
            name,
            *args[at:],
        ]

    def places(self, name: str) -> list[str]:
        """Return the options of ``run`` that set a container's state root and cgroup."""
        return [f"--runc-root={self.home}/runtime", f"--cgroup={self.cgroup}/{name}"]

    def below(self, runtime: Path) -> Callable[..., Result]:
        """Run ``ctr`` with another runtime; for ``run``, pass all arguments but our own options.

        A program's output goes through a file, because ``ctr`` sometimes loses it on a busy
        machine.
        """
        log = self.home / "log-of-command"

        def command(*args: str) -> Result:
            log.unlink(missing_ok=True)
            words = list(args)
            if words[0] == "run":
                name = words[words.index(image.NAME) + 1]
                words[1:1] = [f"--runc-binary={runtime}", *self.places(name)]
            if words[:2] == ["task", "exec"]:
                words[2:2] = [f"--log-uri=file://{log}"]
            elif words[0] == "run" and "--null-io" not in words:
                words[1:1] = [f"--log-uri=file://{log}"]
            result = self(*words)
            printed = log.read_text() if log.exists() else ""
            return Result(args, result.status, result.out + printed, result.err)

        return command

    def run(self, name: str, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        """Run ``ctr run``, in the foreground unless an option says otherwise."""
        return self(*self.new(name, *args), stdin=stdin)

    def background(self, name: str, *args: str) -> None:
        """Run ``ctr run --detach``; the container's output goes to ``log_of``."""
        log = self.home / f"log-{name}"
        log.unlink(missing_ok=True)
        self.run(name, "--detach", f"--log-uri=file://{log}", *args).ok()

    def log_of(self, name: str) -> str:
        return (self.home / f"log-{name}").read_text()

    def probe(self, *flags: str) -> dict[str, Any]:
        """Return the report of the probe in a container.

        The probe writes to a file, because ``ctr run`` sometimes loses output on a busy machine.
        """
        self.background("probe", *flags, "probe")
        self.await_state("probe", "STOPPED")
        assert processes.until(lambda: self.log_of("probe").endswith("\n")), self.log_of("probe")
        self("task", "delete", "probe").ok()
        self("container", "delete", "probe").ok()
        facts: dict[str, Any] = json.loads(self.log_of("probe"))
        return facts

    def terminal(self, name: str, *args: str) -> PtyCommand:
        """Run ``ctr run`` in a pty."""
        return in_terminal([self.program, *self.new(name, *args)], self.env)

    def tasks(self) -> dict[str, tuple[int, str]]:
        """Return the tasks as {name: (pid, state)}."""
        lines = self("task", "list").ok().out.splitlines()[1:]
        fields = [line.split() for line in lines]
        return {name: (int(pid), state) for name, pid, state in fields}

    def await_state(self, name: str, state: str) -> None:
        """Wait until the task has the given state."""
        assert processes.until(lambda: self.tasks()[name][1] == state), self.tasks()

    def tidy(self) -> None:
        """Remove all containers; fail if the runtime or the shims have left anything behind."""
        if left := list(self.tasks()):
            self("task", "delete", "--force", *left)
        if containers := self("container", "list", "--quiet").ok().out.split():
            self("container", "delete", *containers).ok()
        # containerd answers before it has cleared everything away.
        assert processes.until(lambda: not self._kept()), self._kept()

    def _kept(self) -> frozenset[str]:
        states = leaks.entries(self.home / "runtime/default")
        return states | leaks.entries(self.home / "state/io.containerd.runtime.v2.task/default")
