"""Bundles from which the benchmarks create containers."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

from bench.place import REPOSITORY
from tests.support import rootfs

GOLDEN = REPOSITORY / "tests" / "golden" / "docker" / "config.json"
PROFILE = REPOSITORY / "tests" / "data" / "seccomp_profile.json"
PLAIN, DOCKER = "plain", "docker"
SLEEP = ["sleep", "1000"]
TARGETS = 2000  # directories in the root filesystem, as mount points
Config = dict[str, Any]


class Bundles:
    """Bundles that share a root filesystem with busybox."""

    def __init__(self, place: Path, specification: Path) -> None:
        """Create the root filesystem, and the configurations ``plain`` and ``docker``.

        ``specification`` is a runtime, whose command ``spec`` writes the plain configuration.
        """
        self._place = place
        self.root = place / "rootfs"
        rootfs.build(self.root, {"bin/busybox": rootfs.BUSYBOX})
        for number in range(TARGETS):
            (self.root / "m" / str(number)).mkdir(parents=True)
        subprocess.run([specification, "spec"], cwd=place, check=True)
        self.plain = plain(json.loads((place / "config.json").read_text()), self.root)
        self.docker = docker(
            self.plain, json.loads(GOLDEN.read_text()), json.loads(PROFILE.read_text())
        )

    def write(self, name: str, config: Config) -> Path:
        """Write or replace a bundle, with the config on one line as engines do; return its path."""
        bundle = self._place / "bundles" / name
        bundle.mkdir(parents=True, exist_ok=True)
        (bundle / "config.json").write_text(json.dumps(config))
        return bundle


def plain(config: Config, root: Path) -> Config:
    """Change a config from ``spec`` to use ``root`` and to run ``sleep``."""
    config["ociVersion"] = "1.0.2"  # older versions of crun accept no other
    config["process"]["terminal"] = False
    config["process"]["args"] = SLEEP
    config["root"]["path"] = str(root)
    return config


def docker(config: Config, golden: Config, profile: Config) -> Config:
    """Return a copy with the mounts and restrictions that Docker sets by default.

    ``golden`` is a config from Docker, ``profile`` the seccomp profile.
    """
    found = copy.deepcopy(config)
    found["process"]["capabilities"] = golden["process"]["capabilities"]
    found["mounts"] = [mount for mount in golden["mounts"] if mount["type"] != "bind"]
    for name in ("maskedPaths", "readonlyPaths"):
        found["linux"][name] = golden["linux"][name]
    found["linux"]["seccomp"] = profile
    return found


def that_ends(config: Config) -> Config:
    """Return a copy with a program that exits at once."""
    found = copy.deepcopy(config)
    found["process"]["args"] = ["true"]
    return found


def with_bind_mounts(config: Config, count: int, source: Path) -> Config:
    """Return a copy with ``count`` bind mounts of the host's directory ``source``."""
    return _with_mounts(config, count, "bind", str(source), ["rbind", "ro"])


def with_tmpfs(config: Config, count: int) -> Config:
    """Return a copy with ``count`` tmpfs mounts."""
    return _with_mounts(config, count, "tmpfs", "tmpfs", ["nosuid", "nodev", "size=64k"])


def _with_mounts(config: Config, count: int, kind: str, source: str, options: list[str]) -> Config:
    found = copy.deepcopy(config)
    # Some runtimes keep a descriptor for each mount after they have set the container's rlimits.
    found["process"].pop("rlimits", None)
    found["mounts"] += [
        {"destination": f"/m/{number}", "type": kind, "source": source, "options": options}
        for number in range(count)
    ]
    return found


def with_devices(config: Config, count: int) -> Config:
    """Return a copy with ``count`` device rules, each for a different device."""
    found = copy.deepcopy(config)
    rules = found["linux"].setdefault("resources", {}).setdefault("devices", [])
    rules += [
        {"allow": True, "type": "c", "major": 240 + number // 256, "minor": number % 256,
         "access": "rw"}
        for number in range(count)
    ]  # fmt: skip
    return found


def with_seccomp(config: Config, count: int, seed: int) -> Config:
    """Return a copy with a seccomp filter of ``count`` rules for different argument values.

    Different seeds give different filters, which no runtime can have cached.
    """
    found = copy.deepcopy(config)
    found["linux"]["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [
            {
                "names": ["personality"],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": 1,
                "args": [{"index": 0, "value": (seed << 16) + number, "op": "SCMP_CMP_EQ"}],
            }
            for number in range(count)
        ],
    }
    return found
