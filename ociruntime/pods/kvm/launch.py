"""Prepare the hardware description and the initramfs of a pod's virtual machine."""

from __future__ import annotations

import os

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.files import exists
from ociruntime.pods.bundle.pod_network import INFO
from ociruntime.pods.bundle.write_bundle import write_bundle
from ociruntime.pods.kvm import network
from ociruntime.pods.kvm.cpio import archive
from ociruntime.pods.kvm.description import Description, describe
from ociruntime.pods.kvm.kernel_modules import Modules
from ociruntime.pods.kvm.port import PROGRAM
from ociruntime.pods.kvm.qemu import Hardware
from ociruntime.pods.kvm.settings import Settings, cpus_of, memory_of, settings
from ociruntime.pods.manifest import isolators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INIT = "init"
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p")
NET_MODULES = ("virtio_net",)


def prepare_machine(path: str, apps: list[str], config: dict[str, Any]) -> tuple[Hardware, bytes]:
    """Return the machine, still without ports, and its initramfs.

    Mounts the root filesystems of ``apps`` (in the manifest's order), so that qemu can share them.
    Raises RuntimeFailure.
    """
    found = settings(str(config.get("local_config") or ""), str(config.get("kvm_kernel") or ""))
    configs = {}
    for app in apps:
        write_bundle(path, app, {})
        configs[app] = json_files.read(f"{path}/apps/{app}/bundle/config.json")
    description = describe(configs, path, _directories(configs))
    machine = Hardware(found.qemu, f"ocipod-{os.path.basename(path)}")
    machine.accelerator = found.accelerator
    machine.kernel = found.kernel
    machine.shares = description.shares
    manifest = json_files.read(f"{path}/pod")
    wanted = [entry["app"].get("isolators", []) for entry in manifest["apps"]]
    whole = manifest.get("isolators", [])
    memory = [isolators.memory_limit(each) for each in wanted]
    machine.memory = memory_of(found, memory, isolators.memory_limit(whole))
    cpus = [isolators.cpu_limit(each) for each in wanted]
    machine.cpus = cpus_of(found, cpus, isolators.cpu_limit(whole))
    told = network.lines(networks_in(path))
    files = initial_files(found, description, str(config.get("hostname") or ""), told)
    files["shm-options"] = f"mode=1777,size={config['shm_size']}".encode()
    return machine, archive(files, frozenset({INIT}))


def networks_in(path: str) -> list[dict[str, Any]]:
    """Return the networks of the pod's net-info.json, [] if none.  Raises PodError, HostError."""
    if not exists(f"{path}/{INFO}"):
        return []
    networks: list[dict[str, Any]] = json_files.read(f"{path}/{INFO}")["networks"]
    return networks


def initial_files(
    found: Settings, description: Description, hostname: str, networks: list[str]
) -> dict[str, bytes]:
    """Return the initramfs's files by path.  Raises PodError, HostError."""
    files = {INIT: _read(PROGRAM), "hostname": hostname.encode()}
    files["network"] = "".join(f"{line}\n" for line in networks).encode()
    wanted = MODULES + (NET_MODULES if networks else ())
    modules = Modules(found.modules).load_order(wanted) if found.modules else []
    files |= {f"modules/{number}": data for number, data in enumerate(modules)}
    files["shares"] = "".join(f"{share.tag}\n" for share in description.shares).encode()
    files |= {f"apps/{number}": data for number, data in enumerate(description.apps)}
    files |= {f"files/{number}": _read(path) for number, path in enumerate(description.files)}
    return files


def _directories(configs: dict[str, dict[str, Any]]) -> frozenset[str]:
    sources = {
        mount["source"]
        for config in configs.values()
        for mount in config["mounts"]
        if mount["type"] == "bind"
    }
    return frozenset(source for source in sources if os.path.isdir(source))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise HostError(f"read {path}", error) from error
