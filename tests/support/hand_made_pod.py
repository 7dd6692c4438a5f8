"""Pod directories made by hand: the monitor is tried without what prepares pods."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from pathlib import Path
from typing import Any

from tests.support import rootfs

TREE = "tree-of-busybox"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def app(name: str, *args: str, **members: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """An app of a manifest that runs ``args``, or those words in a shell."""
    words = list(args) if len(args) != 1 else ["/bin/sh", "-c", args[0]]
    return {
        "name": name,
        "image": {"id": "sha256:" + "0" * 64, "name": "busybox", "labels": []},
        "app": {"exec": words, "user": "0", "group": "0", "workingDirectory": "/", **members},
        "mounts": [],
        "annotations": [],
    }


class HandMadePod:
    """A pod in phase run whose lock this process holds until the monitor has taken it."""

    def __init__(
        self, directory: Path, runtime: Path, *apps: dict[str, Any], **config: object
    ) -> None:
        self.uuid = str(uuid.uuid4())
        self.path = directory / "pods" / "run" / self.uuid
        self.path.mkdir(parents=True)
        tree = directory / "cas" / "tree" / TREE / "rootfs"
        if not tree.exists():
            tree.mkdir(parents=True)
            rootfs.build(tree, {"bin/busybox": rootfs.BUSYBOX})
        for name in ("logs", "apps", "volumes"):
            (self.path / name).mkdir()
        for name in ("pod.lck", "pod-created"):
            (self.path / name).touch()
        manifest = {"acVersion": "0.8.11", "acKind": "PodManifest", "apps": list(apps)}
        self.write("pod", {**manifest, "volumes": [], "ports": [], "annotations": []})
        settings = {
            "flavor": "oci",
            "runtime": str(runtime),
            "mutable": False,
            "on_failure": "keep",
            "net": [["none", ""]],
            "hostname": "",
            "insecure": [],
            "overlay": True,
            "private_users": None,
            "directory": str(directory),
        }
        self.write("runtime-config", {**settings, **config})
        for entry in apps:
            self.make_app(entry["name"])
        self.lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def make_app(self, name: str) -> None:
        home = self.path / "apps" / name
        for directory in ("bundle/rootfs", "upper", "work"):
            (home / directory).mkdir(parents=True)
        self.write(f"apps/{name}/image.json", {"id": "", "name": "", "tree": TREE, "config": {}})
        self.write(f"apps/{name}/env", {"PATH": PATH})

    def write(self, name: str, value: Any) -> None:  # noqa: ANN401 - JSON
        (self.path / name).write_text(json.dumps(value))

    def release(self) -> None:
        """Leave the lock to the monitor."""
        os.close(self.lock)

    def read(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.path / name).read_text())
        return value

    def state(self, name: str) -> dict[str, Any]:
        return self.read(f"apps/{name}/state.json")
