"""Pods and containers, created like the kubelet does."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.engines import image
from tests.engines.cri.client import SECONDS, Cri
from tests.support import leaks, processes

READY, NOT_READY = 0, 1
CREATED, RUNNING, EXITED = 0, 1, 2
POD, CONTAINER, NODE, TARGET = 0, 1, 2, 3
Fields = dict[str, Any]  # of a message
Message = Any  # messages are made while tests run


class Pod:
    """A sandbox, by default on the host's network, and its containers.

    ``namespaces`` are fields of NamespaceOption, which also apply to the containers.
    """

    def __init__(
        self,
        cri: Cri,
        handler: str,
        *,
        namespaces: Fields | None = None,
        sysctls: dict[str, str] | None = None,
        name: str = "pod",
        privileged: bool = False,
    ) -> None:
        self.cri = cri
        self.handler = handler
        self.namespaces = {"network": NODE, "pid": CONTAINER, "ipc": POD, **(namespaces or {})}
        self.logs = Path(tempfile.mkdtemp(prefix="logs-", dir=cri.home))
        metadata = {"name": name, "uid": f"uid-{handler}", "namespace": "tests"}
        security = {"namespace_options": self.namespaces, "privileged": privileged}
        linux = {
            "cgroup_parent": cri.cgroup,
            "security_context": security,
            "sysctls": sysctls or {},
        }
        self.config = cri.PodSandboxConfig(
            metadata=metadata,
            hostname="" if self.namespaces["network"] == NODE else "host-of-pod",
            log_directory=str(self.logs),
            linux=linux,
        )
        self.containers: list[str] = []
        self.id: str = cri.RunPodSandbox(config=self.config, runtime_handler=handler).pod_sandbox_id

    def create(
        self,
        name: str,
        *command: str,
        terminal: bool = False,
        security: Fields | None = None,
        resources: Fields | None = None,
        **fields: Any,  # noqa: ANN401 - those of ContainerConfig
    ) -> str:
        """Create a container; return its id.

        ``security`` are fields of LinuxContainerSecurityContext, ``resources`` of
        LinuxContainerResources.
        """
        context = {"namespace_options": self.namespaces, **(security or {})}
        config = {
            "metadata": {"name": name},
            "image": {"image": image.NAME},
            "command": command,
            "log_path": f"{name}.log",
            "linux": {"resources": resources or {}, "security_context": context},
            "tty": terminal,
            "stdin": terminal,
            **fields,
        }
        made: str = self.cri.CreateContainer(
            pod_sandbox_id=self.id, config=config, sandbox_config=self.config
        ).container_id
        self.containers.append(made)
        return made

    def run(self, name: str, *command: str, **how: Any) -> str:  # noqa: ANN401 - as create()
        """Create and start a container; return its id."""
        made = self.create(name, *command, **how)
        self.cri.StartContainer(container_id=made)
        return made

    def output(self, name: str, *command: str, **how: Any) -> str:  # noqa: ANN401 - as create()
        """Run a container to its end, and return its standard output."""
        made = self.run(name, *command, **how)
        ended = self.await_state(made, EXITED)
        assert ended.exit_code == 0, (ended, self.log(name))
        # The shim may have more to copy to the log when containerd knows of the exit.
        assert processes.until(lambda: bool(self.log(name)))
        lines = [line.partition(" ") for line in self.log(name)]
        return "\n".join(text for stream, _, text in lines if stream == "stdout")

    def execute(self, container: str, *command: str) -> tuple[int, str, str]:
        """Run a process in a container; return (exit status, output, errors)."""
        done = self.cri.ExecSync(container_id=container, cmd=command, timeout=SECONDS)
        return done.exit_code, done.stdout.decode(), done.stderr.decode()

    def shell(self, container: str, script: str) -> str:
        """Run a script in a container; return its output.

        Raises AssertionError if it fails.
        """
        status, out, err = self.execute(container, "sh", "-c", script)
        assert status == 0, (script, out, err)
        return out

    def status(self, container: str) -> Message:
        return self.cri.ContainerStatus(container_id=container).status

    def await_state(self, container: str, state: int) -> Message:
        """Wait until the container has that state; return its status."""
        assert processes.until(lambda: self.status(container).state == state), self.status(
            container
        )
        return self.status(container)

    def log(self, name: str) -> list[str]:
        """Return a container's log: lines such as ``stdout text`` or ``stderr text``."""
        lines: list[str] = []
        begun: dict[str, str] = {}  # long lines come in parts, by stream
        for line in (self.logs / f"{name}.log").read_text().splitlines():
            _, stream, tag, words = line.split(" ", 3)
            words = begun.pop(stream, "") + words
            if tag == "P":
                begun[stream] = words
            else:
                lines.append(f"{stream} {words}")
        return lines

    def clear(self) -> None:
        """Remove all containers, including running ones."""
        for container in self.containers:
            self.cri.RemoveContainer(container_id=container)
        self.containers.clear()
        for log in self.logs.iterdir():
            log.unlink()

    def remove(self) -> None:
        """Stop and remove the sandbox, repeatedly, like the kubelet; its shim exits, too."""
        for container in self.containers:
            self.cri.RemoveContainer(container_id=container)
        for _ in range(2):
            self.cri.StopPodSandbox(pod_sandbox_id=self.id)
        self.cri.RemovePodSandbox(pod_sandbox_id=self.id)
        own = {str(self.cri.tasks() / name) for name in (self.id, *self.containers)}

        def left() -> set[str]:
            return own & leaks.entries(self.cri.tasks())

        assert processes.until(lambda: not left()), left()
