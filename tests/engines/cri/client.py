"""containerd's CRI plugin, configured by packaging/engines and called like the kubelet does.

Two installations of containerd can be tested: the distribution's, and a recent one that the script
``recent`` next to this file unpacks, with a recent runc.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.engines.command import execute
from tests.engines.daemon import PATH, Daemon
from tests.engines.installed import SNIPPETS
from tests.support import criu, processes
from tests.support.runtime import Result

PAUSE = "localhost/pause:latest"
HOOKS = ("createRuntime", "createContainer", "poststart", "poststop")
SECONDS = 60  # that a call may take
UNPACKED = Path(
    os.environ.get("OCIRUNTIME_CONTAINERD_DIR", "/var/tmp/ociruntime-containerd"), "bin"
)
HERE = Path(__file__).parent
NETWORK = HERE / "network.sh"  # a CNI plugin
# Behind the file of packaging/engines: places of its own, and what a host needs without
# AppArmor, overlayfs (perhaps), and CAP_SYS_RESOURCE (restrict_oom_score_adj).
# The handlers with "-more" have a hook in their base specification, and get --debug from a script.
MORE_OF_A_HANDLER = """
[plugins."{runtime_plugin}".containerd.runtimes.{name}-more]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "{home}/base.json"

[plugins."{runtime_plugin}".containerd.runtimes.{name}-more.options]
BinaryName = "{home}/{name}-debug"
"""
RUNC = """
[plugins."{runtime_plugin}".containerd.runtimes.runc.options]
BinaryName = "{runc}"
"""
# For each handler. The files in packaging/engines have it as a comment.
BY_SYSTEMD = "SystemdCgroup = true\n"
MORE_OF_1 = """
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{home}/networks"
bin_dir = "{home}/plugins"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
default_runtime_name = "{default}"

[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
"""
MORE_OF_2 = """
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
cdi_spec_dirs = ["{home}/cdi"]

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "{default}"

[plugins."io.containerd.cri.v1.runtime".cni]
conf_dir = "{home}/networks"
bin_dirs = ["{home}/plugins"]

[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
"""
# The second plugin is the one that containerd puts every pod's loopback device in the hands of.
PLUGINS = ("pod", "loopback")
NETWORK_OF_PODS = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [{"type": PLUGINS[0]}],
}


@dataclass(frozen=True)
class Installation:
    """A containerd and its runc; ``version`` is containerd's (major, minor) version."""

    directory: Path  # of containerd, its shim and ctr
    runc: Path
    version: tuple[int, int]

    @property
    def env(self) -> dict[str, str]:
        """The daemon's environment: its shim and criu are found on the PATH."""
        return {"PATH": f"{self.directory}:{Path(criu.BUILT).parent}:{PATH}"}


def installation(containerd: str, runc: str) -> Installation:
    """Return the installation of this containerd."""
    path = Path(containerd)
    words = execute([containerd, "--version"], {"PATH": PATH}, Path("/")).ok().out.split()
    major, minor = words[2].removeprefix("v").split(".")[:2]
    return Installation(path.parent, Path(runc), (int(major), int(minor)))


def recent() -> Installation | None:
    """Return the installation that the script ``recent`` has unpacked; None if there is none."""
    if not (UNPACKED / "runc").exists():
        return None
    return installation(str(UNPACKED / "containerd"), str(UNPACKED / "runc"))


@cache
def _compiled() -> tuple[ModuleType, ModuleType]:
    """Return the compiled modules of cri.proto: its messages and its services.

    The function grpc.protos_and_services does the same, but not with Debian's grpc_tools.
    """
    protoc = importlib.import_module("grpc_tools.protoc")
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        # Debian's protobuf is older than its Python.
        warnings.simplefilter("ignore", DeprecationWarning)
        outputs = (f"--python_out={directory}", f"--grpc_python_out={directory}")
        # protoc knows files by their path below a directory of the import path.
        assert protoc.main(["protoc", f"--proto_path={HERE}", *outputs, "cri.proto"]) == 0
        sys.path.append(directory)
        try:
            return importlib.import_module("cri_pb2"), importlib.import_module("cri_pb2_grpc")
        finally:
            sys.path.pop()


class Cri:
    """The daemon and a client of its runtime service, such as ``cri.RunPodSandbox(...)``.

    If ``cgroup``, the pods' parent, is a slice, the runtimes use systemd's cgroup driver.
    """

    def __init__(
        self,
        installed: Installation,
        home: Path,
        snapshotter: str,
        cgroup: str,
        programs: dict[str, str],
    ) -> None:
        self.installed = installed
        self.home = home
        self.cgroup = cgroup
        self.snapshotter = snapshotter
        self.env = installed.env
        ctr = str(installed.directory / "ctr")
        self._ctr = [ctr, f"--address={home}/containerd.sock", "--namespace=k8s.io"]
        for name, program in programs.items():
            script = home / f"{name}-debug"
            script.write_text(f'#!/bin/sh\nexec {program} --debug "$@"\n')
            script.chmod(0o755)
        (home / "base.json").write_text(json.dumps(self._base_specification(ctr)))
        self._write_network()
        self._handlers = list(programs)
        self.settings = home / "config.toml"
        self.set_default("runc")
        places = [f"--root={home}/root", f"--state={home}/state"]
        daemon = str(installed.directory / "containerd")
        self._words = [daemon, f"--address={home}/containerd.sock", *places]
        self._define()
        self.start()

    def set_default(self, handler: str) -> None:
        """Write config.toml so that pods without a runtime class use this handler."""
        self.settings.write_text(self._text_of_settings(handler))

    def _text_of_settings(self, default: str) -> str:
        """Return config.toml: the file of packaging/engines, and the tests' own settings."""
        new = self.installed.version >= (2, 0)
        plugin = "io.containerd.cri.v1.runtime" if new else "io.containerd.grpc.v1.cri"
        text = (SNIPPETS / f"containerd-{2 if new else 1}.toml").read_text() + RUNC
        parts = [(MORE_OF_A_HANDLER, name) for name in self._handlers]
        parts.append((MORE_OF_2 if new else MORE_OF_1, ""))
        fields = {
            "default": default,
            "home": self.home,
            "pause": PAUSE,
            "runtime_plugin": plugin,
            "snapshotter": self.snapshotter,
        }
        text = text.replace("{runtime_plugin}", plugin).replace("{runc}", str(self.installed.runc))
        text += "".join(part.format(name=name, **fields) for part, name in parts)
        if not self.cgroup.endswith(".slice"):
            return text
        text = text.replace(f"#{BY_SYSTEMD}", "")
        return re.sub(r"(?m)^BinaryName = .*\n", rf"\g<0>{BY_SYSTEMD}", text)

    def _base_specification(self, ctr: str) -> dict[str, Any]:
        """Return containerd's base specification, with hooks that write the state to files."""
        base: dict[str, Any] = json.loads(
            execute([ctr, "oci", "spec"], self.env, self.home).ok().out
        )
        hook = {"path": "/bin/sh", "env": [f"PATH={PATH}"]}
        base["hooks"] = {
            kind: [{**hook, "args": ["sh", "-c", f"cat >>{self.home}/{kind}"]}] for kind in HOOKS
        }
        return base

    def _write_network(self) -> None:
        for name in ("networks", "plugins", "cdi"):
            (self.home / name).mkdir(exist_ok=True)
        (self.home / "networks/pods.conflist").write_text(json.dumps(NETWORK_OF_PODS))
        for name in PLUGINS:
            shutil.copy(NETWORK, self.home / "plugins" / name)
            (self.home / "plugins" / name).chmod(0o755)

    def _define(self) -> None:
        # Large, and needed by these tests alone.
        import grpc

        self.messages, self._services = _compiled()
        self.Error: type[Exception] = grpc.RpcError

    def start(self) -> None:
        """Start the daemon and connect to it."""
        import grpc

        home = self.home
        words = [*self._words, f"--config={self.settings}"]
        self.daemon = Daemon(words, home / "log", self.env)
        self.daemon.wait(lambda: self.ctr("version").status == 0)
        self._channel = grpc.insecure_channel(f"unix://{home}/containerd.sock")
        # Else the first call would connect, in a test whose descriptors are watched.
        grpc.channel_ready_future(self._channel).result(60)
        self._service = self._services.RuntimeServiceStub(self._channel)
        self._images = self._services.ImageServiceStub(self._channel)
        # The plugin is registered only when all of containerd is.
        self.daemon.wait(self._answers)

    def _answers(self) -> bool:
        try:
            self.Version()
        except self.Error:
            return False
        return True

    def restart(self, with_daemon_down: Callable[[], object] = lambda: None) -> None:
        """Restart the daemon like ``systemctl restart``; the pods keep running."""
        self.close()
        with_daemon_down()
        self.start()

    def ctr(self, *words: str) -> Result:
        """Run containerd's own client in the CRI plugin's namespace."""
        return execute([*self._ctr, *words], self.env, self.home)

    def load(self, archive: Path, name: str) -> None:
        """Import an image, and wait until the CRI plugin knows it."""
        self.ctr("image", "import", f"--snapshotter={self.snapshotter}", str(archive)).ok()
        request = self.messages.ImageStatusRequest(image={"image": name})
        assert processes.until(
            lambda: bool(self._images.ImageStatus(request, timeout=SECONDS).image.id), SECONDS
        ), name

    def tasks(self) -> Path:
        """The directory in which shims keep the bundles of sandboxes and containers."""
        return self.home / "state/io.containerd.runtime.v2.task/k8s.io"

    def pid(self, container: str) -> int:
        """Return the pid of a container's init, as its shim reports it."""
        return int((self.tasks() / container / "init.pid").read_text())

    def config(self, container: str) -> dict[str, Any]:
        """Return the config.json that the runtime has got."""
        text = (self.tasks() / container / "config.json").read_text()
        config: dict[str, Any] = json.loads(text)
        return config

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - messages are made while tests run
        """Return a method of the runtime service, or the class of a message."""
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
