"""Complete configurations of apps, compared with reviewed ones.

``OCIPOD_GOLDEN=write`` updates them; review the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import ociruntime.pods.bundle
from ociruntime.pods.bundle.app_config import AppFacts, app_config
from ociruntime.pods.manifest.app_arguments import parse_pod_arguments, pod_request
from ociruntime.pods.manifest.app_options import APP_OPTIONS, PREPARE_OPTIONS
from ociruntime.pods.manifest.build_manifest import build
from ociruntime.pods.manifest.flavours import FLAVOURS
from ociruntime.runtime.spec.check_schema import check_schema

HERE = Path(__file__).parent / "configs"
SECCOMP = Path(ociruntime.pods.bundle.__file__).with_name("seccomp.json")

CASES = {
    "plain": "image",
    "limits": (
        "image --memory=64M --cpu=1.5 --cpu-shares=512 --pids=20 --oom-score-adj=100 "
        "--caps-retain=CAP_NET_BIND_SERVICE --no-new-privileges --readonly-rootfs"
    ),
    "volumes": (
        "--volume=h,kind=host,source=/srv,readOnly=true,recursive=false --volume=e,kind=empty "
        "--mount=volume=h,target=/srv image --mount=volume=e,target=/srv/deeper"
    ),
    "seccomp": "image --seccomp=mode=remove,errno=ENOSYS,mkdir",
    "further-limits": (
        "image --memory=64M --memory-swap=128M --memory-reservation=32M --cpu-quota=20000 "
        "--cpu-period=50000 --cpuset-cpus=0-1 --cpuset-mems=0"
    ),
    "devices": "image --device=/dev/a:/dev/b:r",
    "devices-with-users": "image --device=/dev/a:/dev/b:r",
    "privileged": "image --privileged",
    "kernel-settings": (
        "--sysctl=net.core.somaxconn=99 image --ulimit=nofile=64:128 --ulimit=core=-1 "
        "--tmpfs=/run:size=1m,mode=700,exec --tmpfs=/dev/shm"
    ),
    "fly": "image --exec=/bin/true",
    "private-users": "image --user=1000",
}


CONFIG: dict[str, Any] = {
    "os": "linux",
    "architecture": "amd64",
    "config": {
        "Entrypoint": ["/bin/entry"],
        "Cmd": ["one"],
        "Labels": {"org.opencontainers.image.title": "an image", "run.oci.handler": "evil"},
        "WorkingDir": "/srv",
    },
}


class Image:
    id = "sha256:" + "7" * 64
    name = "image"
    config = CONFIG


def made(case: str) -> dict[str, Any]:
    words = parse_pod_arguments(CASES[case].split(), PREPARE_OPTIONS, APP_OPTIONS)
    manifest = build(pod_request(words), [Image()], {}, {}).manifest
    facts = AppFacts("6733c088-a507-4694-aabf-5cd2e0b1f5b3", "/pod/apps/image/bundle/rootfs")
    facts.namespaces = {kind: f"/proc/9/ns/{kind}" for kind in ("pid", "network", "ipc", "uts")}
    facts.environment = {"PATH": "/bin", "AC_APP_NAME": "image"}
    facts.hostname = "box"
    facts.shared_memory = "/pod/shm"
    facts.binds = [("/pod/hosts", "/etc/hosts")]
    facts.volumes = {"h": "/srv", "e": "/pod/volumes/e"}
    facts.seccomp = json.loads(SECCOMP.read_text())
    if case != "plain":  # one whole filter is enough to read
        facts.seccomp |= {"allowed": ["read"], "capabilities": {}, "rules": []}
    if case == "fly":
        facts.flavour, facts.capabilities = FLAVOURS["fly"], ("CAP_KILL", "CAP_SYS_ADMIN")
    if case == "private-users":
        facts.private_users, facts.uid = (131072, 65536), 1000
        facts.namespaces["user"] = "/proc/9/ns/user"
        del facts.namespaces["network"]
    if case.startswith("devices"):
        names = ("source", "path", "type", "major", "minor", "fileMode", "uid", "gid", "access")
        device = ("/dev/a", "/dev/b", "c", 10, 7, 0o660, 0, 5, "r")
        facts.host_devices = [dict(zip(names, device, strict=True))]
    if case == "devices-with-users":
        facts.private_users = (131072, 65536)
    if case == "privileged":
        facts.capabilities = ("CAP_KILL", "CAP_SYS_ADMIN")
    return app_config(manifest, "image", CONFIG, facts)


@pytest.mark.parametrize("case", CASES)
def test_config(case: str) -> None:
    config = made(case)
    check_schema(config)
    file = HERE / f"{case}.json"
    text = json.dumps(config, indent=1, sort_keys=True) + "\n"
    if os.environ.get("OCIPOD_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert file.read_text() == text


def test_none_is_left_over() -> None:
    assert {file.stem for file in HERE.iterdir()} == set(CASES)
