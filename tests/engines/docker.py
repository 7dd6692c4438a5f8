"""dockerd with private data, state, network and sockets, and its command line."""

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
    """Write a daemon.json with the runtime under test, the same with --debug, and the peer."""
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
    """``docker(...)`` runs one command; the method ``run`` is ``docker run`` without a network."""

    def __init__(
        self, daemon: str, program: str, config: Path, home: Path, driver: str, cgroup: str
    ) -> None:
        """Start dockerd with the runtimes of ``config``, whose default one is tested."""
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
        """Return the arguments of ``run``: options, the image's name, a command."""
        network = () if any(word.startswith("--network") for word in args) else ("--network=none",)
        return ["run", *network, *args]

    def run(self, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        """Run ``docker run``."""
        return self(*self.new(*args), stdin=stdin)

    def below(self, runtime: Path) -> Callable[..., Result]:
        """Run ``docker`` with another runtime, the one under test or the peer; ``run`` as above."""
        name = "peer" if runtime == PEER else self.runtime

        def command(*args: str) -> Result:
            words = self.new(f"--runtime={name}", *args[1:]) if args[0] == "run" else args
            return self(*words)

        return command

    def background(self, name: str, *args: str) -> None:
        """Run ``docker run -d``."""
        self.run("--detach", "--name", name, *args).ok()

    def probe(self, *flags: str) -> dict[str, Any]:
        """Return the report of the probe in a container."""
        facts: dict[str, Any] = json.loads(self.run("--rm", *flags, image.NAME, "probe").ok().out)
        return facts

    def terminal(self, *args: str) -> PtyCommand:
        """Run ``docker run`` in a pty."""
        return in_terminal([self.program, *self.new(*args)], self.env)

    def together(self, count: int, *args: str) -> Result:
        """Run the same ``docker run`` several times at once."""
        script = f'for _ in $(seq {count}); do "$@" & done; wait'
        words = ["/bin/sh", "-c", script, "sh", self.program, *self.new(*args)]
        return execute(words, self.env, self.home)

    def build(self, builder: str, context: Path, *flags: str) -> Result:
        """Run ``docker build``; ``builder`` 1 is BuildKit, 0 the classic one."""
        words = ["/usr/bin/env", f"DOCKER_BUILDKIT={builder}", self.program, "build"]
        return execute([*words, "--network=none", *flags, str(context)], self.env, self.home)

    def inspect(self, name: str, what: str) -> str:
        """Return one field of ``docker inspect``, named by a Go template."""
        return self("inspect", "--format", f"{{{{{what}}}}}", name).ok().out.strip()

    def pid(self, name: str) -> int:
        return int(self.inspect(name, ".State.Pid"))

    def await_log(self, name: str, text: str) -> None:
        """Wait until the container has printed the text."""
        assert processes.until(lambda: text in self("logs", name).ok().out), self("logs", name)

    def tidy(self) -> None:
        """Remove all containers; fail if the runtime or the shims have left anything behind."""
        if left := self("ps", "--all", "--quiet").ok().out.split():
            self("rm", "--force", *left).ok()
        # The daemon's containerd clears the bundle away after docker has answered.
        assert processes.until(lambda: not self._kept()), self._kept()

    def _kept(self) -> frozenset[str]:
        states = leaks.entries(self.home / f"exec/runtime-{self.runtime}/moby")
        tasks = self.home / "exec/containerd/daemon/io.containerd.runtime.v2.task/moby"
        return states | leaks.entries(tasks)
