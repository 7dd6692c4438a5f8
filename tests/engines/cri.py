"""containerd's CRI plugin, spoken to as the kubelet does it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.engines import image
from tests.engines.command import execute
from tests.engines.daemon import PATH, Daemon
from tests.engines.installed import SNIPPETS
from tests.support import leaks, processes

PAUSE = "localhost/pause:latest"
HOOKS = ("createRuntime", "createContainer", "poststart", "poststop")
SECONDS = 60  # that a call may take
READY, NOT_READY = 0, 1
CREATED, RUNNING, EXITED = 0, 1, 2
# Behind the file of packaging/engines: places of its own, and what a host needs without
# AppArmor, overlayfs (perhaps), and CAP_SYS_RESOURCE (restrict_oom_score_adj).
# The handlers with "-more" have a hook in their base specification, and get --debug from a script.
MORE_OF_A_HANDLER = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}-more]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "{home}/base.json"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}-more.options]
BinaryName = "{home}/{name}-debug"
"""
MORE = """
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{home}/networks"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"

[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
"""


class Cri:
    """The daemon, and its runtime service: ``cri.RunPodSandbox(...)`` and all the others."""

    def __init__(
        self,
        daemon: str,
        ctr: str,
        home: Path,
        snapshotter: str,
        cgroup: str,
        programs: dict[str, str],
    ) -> None:
        # Large, and needed by these tests alone.
        import grpc

        self.home = home
        self.cgroup = cgroup
        self.ctr = [ctr, f"--address={home}/containerd.sock", "--namespace=k8s.io"]
        self.env = {"PATH": PATH}
        config = home / "config.toml"
        more = MORE.format(pause=PAUSE, home=home, snapshotter=snapshotter)
        for name, program in programs.items():
            more += MORE_OF_A_HANDLER.format(home=home, name=name)
            script = home / f"{name}-debug"
            script.write_text(f'#!/bin/sh\nexec {program} --debug "$@"\n')
            script.chmod(0o755)
        (home / "base.json").write_text(json.dumps(self._base_specification(ctr)))
        config.write_text((SNIPPETS / "containerd-1.toml").read_text() + more)
        places = [f"--root={home}/root", f"--state={home}/state"]
        words = [daemon, f"--config={config}", f"--address={home}/containerd.sock", *places]
        # protoc knows files by their path below a directory of the import path.
        sys.path.append(str(Path(__file__).parent))
        try:
            self.messages, services = grpc.protos_and_services("cri.proto")
        finally:
            sys.path.pop()
        self.daemon = Daemon(words, home / "log", self.env)
        self.daemon.wait(lambda: execute([*self.ctr, "version"], self.env, home).status == 0)
        self._channel = grpc.insecure_channel(f"unix://{home}/containerd.sock")
        # Else the first call would connect, in a test whose descriptors are watched.
        grpc.channel_ready_future(self._channel).result(60)
        self._service = services.RuntimeServiceStub(self._channel)
        self.Error: type[Exception] = grpc.RpcError

    def _base_specification(self, ctr: str) -> dict[str, Any]:
        """What containerd starts from, with hooks that write the state to files."""
        base: dict[str, Any] = json.loads(
            execute([ctr, "oci", "spec"], self.env, self.home).ok().out
        )
        hook = {"path": "/bin/sh", "env": [f"PATH={PATH}"]}
        base["hooks"] = {
            kind: [{**hook, "args": ["sh", "-c", f"cat >>{self.home}/{kind}"]}] for kind in HOOKS
        }
        return base

    def load(self, archive: Path) -> None:
        """Import an image."""
        execute([*self.ctr, "image", "import", str(archive)], self.env, self.home).ok()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - messages are made while tests run
        """A call of the runtime service, or the maker of a message."""
        messages = self.__dict__["messages"]
        methods = messages.DESCRIPTOR.services_by_name["RuntimeService"].methods_by_name
        if name not in methods:
            return getattr(messages, name)
        request = getattr(messages, methods[name].input_type.name)
        call = getattr(self.__dict__["_service"], name)
        return lambda **fields: call(request(**fields), timeout=SECONDS)

    def close(self) -> None:
        self._channel.close()
        self.daemon.stop()


class Pod:
    """A sandbox on the host's network, and containers in it."""

    def __init__(self, cri: Cri, handler: str, *, shared_pids: bool = False) -> None:
        self.cri = cri
        pid = 0 if shared_pids else 1
        self.namespaces = cri.NamespaceOption(network=2, pid=pid, ipc=0)
        self.logs = Path(tempfile.mkdtemp(prefix="logs-", dir=cri.home))
        security = cri.LinuxSandboxSecurityContext(namespace_options=self.namespaces)
        self.config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name="pod", uid=f"uid-{handler}", namespace="tests"),
            log_directory=str(self.logs),
            linux=cri.LinuxPodSandboxConfig(cgroup_parent=cri.cgroup, security_context=security),
        )
        self.containers: list[str] = []
        self.id: str = cri.RunPodSandbox(config=self.config, runtime_handler=handler).pod_sandbox_id

    def create(
        self,
        name: str,
        *command: str,
        terminal: bool = False,
        profile: str = "",
        **resources: int,
    ) -> str:
        """A container that is not yet started; its id."""
        cri = self.cri
        linux = cri.LinuxContainerConfig(
            resources=cri.LinuxContainerResources(**resources),
            security_context=cri.LinuxContainerSecurityContext(
                namespace_options=self.namespaces, seccomp_profile_path=profile
            ),
        )
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name),
            image=cri.ImageSpec(image=image.NAME),
            command=command,
            log_path=f"{name}.log",
            linux=linux,
            tty=terminal,
            stdin=terminal,
        )
        made: str = cri.CreateContainer(
            pod_sandbox_id=self.id, config=config, sandbox_config=self.config
        ).container_id
        self.containers.append(made)
        return made

    def run(
        self,
        name: str,
        *command: str,
        terminal: bool = False,
        profile: str = "",
        **resources: int,
    ) -> str:
        """A container at work; its id."""
        made = self.create(name, *command, terminal=terminal, profile=profile, **resources)
        self.cri.StartContainer(container_id=made)
        return made

    def execute(self, container: str, *command: str) -> tuple[int, str, str]:
        """Exit status, output and errors of a further process."""
        done = self.cri.ExecSync(container_id=container, cmd=command, timeout=SECONDS)
        return done.exit_code, done.stdout.decode(), done.stderr.decode()

    def status(self, container: str) -> Any:  # noqa: ANN401 - a message
        return self.cri.ContainerStatus(container_id=container).status

    def await_state(self, container: str, state: int) -> Any:  # noqa: ANN401 - a message
        """The status as soon as it is that one."""
        assert processes.until(lambda: self.status(container).state == state), self.status(
            container
        )
        return self.status(container)

    def log(self, name: str) -> list[str]:
        """What a container has written: ``stdout text`` or ``stderr text``."""
        text = (self.logs / f"{name}.log").read_text()
        lines = [line.split(" ", 3) for line in text.splitlines()]
        return [f"{stream} {words}" for _, stream, _, words in lines]

    def remove(self) -> None:
        """Stop and remove all of it, as often as the kubelet likes."""
        for container in self.containers:
            self.cri.RemoveContainer(container_id=container)
        for _ in range(2):
            self.cri.StopPodSandbox(pod_sandbox_id=self.id)
        self.cri.RemovePodSandbox(pod_sandbox_id=self.id)
        tasks = self.cri.home / "state/io.containerd.runtime.v2.task/k8s.io"
        assert processes.until(lambda: not leaks.entries(tasks)), leaks.entries(tasks)
