"""dockerd with data, state, network and sockets of its own, and its command line."""

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

PEER = Path("/usr/sbin/runc")


def two_runtimes(home: Path, runtime: Path) -> Path:
    """Make a daemon.json with the runtime to test, the same with --debug, and the peer."""
    config = {
        "runtimes": {
            "tested": {"path": str(runtime)},
            "debugging": {"path": str(runtime), "runtimeArgs": ["--debug"]},
            "peer": {"path": str(PEER)},
        },
        "default-runtime": "tested",
    }
    (home / "daemon.json").write_text(json.dumps(config))
    return home / "daemon.json"


class Docker:
    """``docker(...)`` is one command; ``run`` is ``docker run`` without a network."""

    def __init__(
        self, daemon: str, program: str, config: Path, home: Path, driver: str, cgroup: str
    ) -> None:
        """``config`` says which runtimes there are; the default one is tested."""
        self.home = home
        self.program = program
        self.env = {"PATH": PATH, "HOME": str(home), "DOCKER_HOST": f"unix://{home}/docker.sock"}
        runtimes = json.loads(config.read_text())
        self.runtime: str = runtimes["default-runtime"]
        places = {
            "config-file": config,
            "host": f"unix://{home}/docker.sock",
            "data-root": home / "data",
            "exec-root": home / "exec",
            "pidfile": home / "pid",
            "storage-driver": driver,
            "cgroup-parent": cgroup,
            # Nothing of the host's network is touched.
            "bridge": "none",
            "iptables": "false",
            "ip6tables": "false",
            "ip-forward": "false",
            "userland-proxy": "false",
        }
        # BuildKit runs what is called runc, whatever the configuration says.
        (home / "bin").mkdir()
        (home / "bin/runc").symlink_to(runtimes["runtimes"][self.runtime]["path"])
        command = [daemon, *(f"--{name}={value}" for name, value in places.items())]
        env = {**self.env, "PATH": f"{home}/bin:{PATH}"}
        self.daemon = Daemon(command, home / "log", env)
        self.daemon.wait(lambda: self("version").status == 0)

    def __call__(self, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        return execute([self.program, *args], self.env, self.home, stdin)

    def new(self, *args: str) -> list[str]:
        """Arguments of ``run``: flags, the image's name, a command."""
        network = () if any(word.startswith("--network") for word in args) else ("--network=none",)
        return ["run", *network, *args]

    def run(self, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        """``docker run``."""
        return self(*self.new(*args), stdin=stdin)

    def below(self, runtime: Path) -> Callable[..., Result]:
        """``docker ...`` with that runtime, the one under test or the peer; ``run`` as above."""
        name = "peer" if runtime == PEER else self.runtime

        def command(*args: str) -> Result:
            words = self.new(f"--runtime={name}", *args[1:]) if args[0] == "run" else args
            return self(*words)

        return command

    def background(self, name: str, *args: str) -> None:
        """``docker run -d``."""
        self.run("--detach", "--name", name, *args).ok()

    def probe(self, *flags: str) -> dict[str, Any]:
        """What a process in a container sees of itself."""
        facts: dict[str, Any] = json.loads(self.run("--rm", *flags, image.NAME, "probe").ok().out)
        return facts

    def terminal(self, *args: str) -> PtyCommand:
        """``docker run`` in a pty."""
        return in_terminal([self.program, *self.new(*args)], self.env)

    def together(self, count: int, *args: str) -> Result:
        """So many times the same ``run`` at once."""
        script = f'for _ in $(seq {count}); do "$@" & done; wait'
        words = ["/bin/sh", "-c", script, "sh", self.program, *self.new(*args)]
        return execute(words, self.env, self.home)

    def build(self, builder: str, context: Path, *flags: str) -> Result:
        """``docker build``; ``builder`` 1 is BuildKit, 0 the classic one."""
        words = ["/usr/bin/env", f"DOCKER_BUILDKIT={builder}", self.program, "build"]
        return execute([*words, "--network=none", *flags, str(context)], self.env, self.home)

    def inspect(self, name: str, what: str) -> str:
        """One field of ``docker inspect``, as a Go template names it."""
        return self("inspect", "--format", f"{{{{{what}}}}}", name).ok().out.strip()

    def pid(self, name: str) -> int:
        return int(self.inspect(name, ".State.Pid"))

    def await_log(self, name: str, text: str) -> None:
        """Wait until the container has written the text."""
        assert processes.until(lambda: text in self("logs", name).ok().out), self("logs", name)

    def tidy(self) -> None:
        """Remove all containers; fail if the runtime or the shims have left something."""
        if left := self("ps", "--all", "--quiet").ok().out.split():
            self("rm", "--force", *left).ok()
        # The daemon's containerd clears the bundle away after docker has answered.
        assert processes.until(lambda: not self._kept()), self._kept()

    def _kept(self) -> frozenset[str]:
        states = leaks.entries(self.home / f"exec/runtime-{self.runtime}/moby")
        tasks = self.home / "exec/containerd/daemon/io.containerd.runtime.v2.task/moby"
        return states | leaks.entries(tasks)
