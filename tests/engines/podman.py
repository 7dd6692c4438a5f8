"""podman with private storage, state, locks and configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Any

from tests.engines import image
from tests.engines.command import execute, in_terminal
from tests.engines.daemon import PATH
from tests.support import isolation, leaks, processes
from tests.support.runtime import Result
from tests.support.terminal import PtyCommand

# Podman's own limits are the highest that the kernel knows, which takes CAP_SYS_RESOURCE.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "{name}"
runtime_supports_json = ["{name}", "runc", "crun"]
runtime_supports_nocgroup = ["{name}"]
tmp_dir = "{home}/tmp"
static_dir = "{home}/storage/libpod"
volume_path = "{home}/storage/volumes"

[engine.runtimes]
{name} = ["{runtime}"]

[network]
network_config_dir = "{home}/networks"
"""

STORAGE_CONF = """
[storage]
driver = "{driver}"
graphroot = "{home}/storage"
runroot = "{home}/run"
"""

POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'


class Podman:
    """Runs ``podman``: ``podman(...)`` runs one command; ``run`` uses the tests' own cgroup."""

    def __init__(self, program: str, runtime: Path, home: Path, driver: str, cgroup: str) -> None:
        self.program = program
        self.cgroup = cgroup
        self.home = home
        self.env = {
            "PATH": PATH,
            "HOME": str(home),
            "TMPDIR": str(home),
            "CONTAINERS_CONF": str(home / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
        }
        # Past that length, podman's own clean-up command refuses to run.
        assert len(f"{home}/run") <= 50, home
        names = {"home": home, "runtime": runtime, "name": runtime.name, "driver": driver}
        (home / ".config/containers").mkdir(parents=True)
        (home / ".config/containers/policy.json").write_text(POLICY)
        (home / "containers.conf").write_text(CONTAINERS_CONF.format(**names))
        (home / "storage.conf").write_text(STORAGE_CONF.format(**names))

    def __call__(self, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        return execute([self.program, *args], self.env, self.home, stdin)

    def new(self, verb: str, *args: str) -> list[str]:
        """Return the arguments of ``run`` or ``create``: options, the image's name, a command."""
        network = () if any(word.startswith("--network") for word in args) else ("--network=none",)
        return [verb, *network, f"--cgroup-parent={self.cgroup}", *args]

    def run(self, *args: str, stdin: int | IO[bytes] = DEVNULL) -> Result:
        """Run ``podman run``."""
        return self(*self.new("run", *args), stdin=stdin)

    def below(self, runtime: Path) -> Callable[..., Result]:
        """Run ``podman`` with another runtime; ``run`` as above, pods in the same cgroup."""

        def command(*args: str) -> Result:
            words = list(args)
            if words[:2] == ["pod", "create"]:
                words[2:2] = ["--network=none", f"--cgroup-parent={self.cgroup}"]
            elif words[0] == "run" and not any(word.startswith("--pod=") for word in words):
                words = self.new(*words)
            return self("--runtime", str(runtime), *words)

        return command

    def background(self, name: str, *args: str) -> None:
        """Run ``podman run -d``."""
        self.run("-d", "--name", name, *args).ok()

    def probe(self, *flags: str) -> dict[str, Any]:
        """Return the report of the probe in a container."""
        facts: dict[str, Any] = json.loads(self.run("--rm", *flags, image.NAME, "probe").ok().out)
        return facts

    def together(self, count: int, *args: str) -> Result:
        """Run the same ``podman run`` several times at once."""
        script = f'for _ in $(seq {count}); do "$@" & done; wait'
        words = ["/bin/sh", "-c", script, "sh", self.program, *self.new("run", *args)]
        return execute(words, self.env, self.home)

    def build(self, context: Path, *flags: str) -> Result:
        """Run ``podman build``; buildah uses the cgroup parent itself as the cgroup."""
        ours = ("--network=none", f"--cgroup-parent={self.cgroup}/build")
        return self("build", *ours, *flags, str(context))

    def inspect(self, name: str, what: str) -> str:
        """Return one field of ``podman inspect``, named by a Go template."""
        return self("inspect", "--format", f"{{{{{what}}}}}", name).ok().out.strip()

    def pid(self, name: str) -> int:
        return int(self.inspect(name, ".State.Pid"))

    def terminal(self, *args: str) -> PtyCommand:
        """Run ``podman run`` in a pty of 33 rows and 101 columns."""
        return in_terminal([self.program, *self.new("run", *args)], self.env)

    def tidy(self) -> None:
        """Remove all containers, and the mount that podman leaves after some errors."""
        if left := self.containers():
            self("rm", "--force", "--time", "0", *left).ok()
        # conmon's clean-up command may still be at work, and mount it once more.
        self.await_rest()
        for target in leaks.mount_table().values():
            if target == f"{self.home}/storage/overlay":
                isolation.unmount(target)

    def await_rest(self) -> None:
        """Wait until all processes of podman have exited."""
        assert processes.until(lambda: not self._at_work()), self._at_work()

    def _at_work(self) -> list[str]:
        """Return the processes of podman and conmon below this process."""
        lines = [processes.describe(pid) for pid in processes.descendants()]
        return [line for line in lines if f"({self.program} " in line or "/conmon " in line]

    def containers(self) -> Sequence[str]:
        return self("ps", "--all", "--quiet", "--no-trunc").ok().out.split()
