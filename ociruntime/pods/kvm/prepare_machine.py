"""Prepare a pod's virtual machine: its hardware, its initramfs, and the settings of its apps."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import exists
from ociruntime.pods.bundle.pod_context import SHARED_MEMORY
from ociruntime.pods.bundle.pod_network import INFO
from ociruntime.pods.bundle.write_bundle import write_bundle
from ociruntime.pods.kvm import network
from ociruntime.pods.kvm.kernel_modules import Modules
from ociruntime.pods.kvm.machine_settings import Settings, cpus_of, memory_of, settings
from ociruntime.pods.kvm.qemu import Hardware, Share
from ociruntime.pods.kvm.virtio_port import PROGRAM
from ociruntime.pods.manifest import isolators
from ociruntime.pods.manifest.oci_resources import unified

Json = dict[str, Any]


INIT = "init"
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p")
NET_MODULES = ("virtio_net",)


def prepare_machine(path: str, apps: list[str], config: dict[str, Any]) -> tuple[Hardware, bytes]:
    """Return the hardware of the pod's virtual machine and the content of its initramfs.

    The caller adds ports, networks and the path of the initramfs to the hardware.  ``path`` is the
    pod's directory, ``config`` its runtime-config; ``apps`` lists the names of its apps, in the
    manifest's order.  Mounts the apps' root filesystems, because qemu shares them with the guest.
    Raises RuntimeFailure if a setting is not supported, or if a file or mount cannot be created.
    """
    kvm = settings(str(config.get("local_config") or ""), str(config.get("kvm_kernel") or ""))
    configs = {}
    for app in apps:
        write_bundle(path, app, {})
        configs[app] = json_files.read(f"{path}/apps/{app}/bundle/config.json")
    description = describe(configs, path, _directories(configs))
    machine = Hardware(kvm.qemu, f"ocipod-{os.path.basename(path)}")
    machine.accelerator = kvm.accelerator
    machine.kernel = kvm.kernel
    machine.shares = description.shares
    manifest = json_files.read(f"{path}/pod")
    app_isolators = [entry["app"].get("isolators", []) for entry in manifest["apps"]]
    pod_isolators = manifest.get("isolators", [])
    memory = [isolators.memory_limit(each) for each in app_isolators]
    machine.memory = memory_of(kvm, memory, isolators.memory_limit(pod_isolators))
    cpus = [isolators.cpu_limit(each) for each in app_isolators]
    machine.cpus = cpus_of(kvm, cpus, isolators.cpu_limit(pod_isolators))
    networks = network.lines(networks_in(path))
    files = initial_files(kvm, description, str(config.get("hostname") or ""), networks)
    files["shm-options"] = f"mode=1777,size={config['shm_size']}".encode()
    return machine, archive(files, frozenset({INIT}))


def networks_in(path: str) -> list[dict[str, Any]]:
    """Return the member ``networks`` of a pod's net-info.json, or [] if the file is missing.

    ``path`` is the pod's directory.  Raises PodError if the file is damaged, HostError if it cannot
    be read.
    """
    if not exists(f"{path}/{INFO}"):
        return []
    networks: list[dict[str, Any]] = json_files.read(f"{path}/{INFO}")["networks"]
    return networks


def initial_files(
    kvm: Settings, description: Description, hostname: str, networks: list[str]
) -> dict[str, bytes]:
    """Return the files of the initramfs as {path: content}.

    The paths are relative to the guest's root directory.  ``networks`` contains the guest's
    addresses and routes, as lines in the format of ``csrc/guest/network.c``.  Raises PodError if a
    kernel module is missing, HostError if a file cannot be read.
    """
    files = {INIT: _read(PROGRAM), "hostname": hostname.encode()}
    files["network"] = "".join(f"{line}\n" for line in networks).encode()
    names = MODULES + (NET_MODULES if networks else ())
    modules = Modules(kvm.modules).load_order(names) if kvm.modules else []
    files |= {f"modules/{number}": data for number, data in enumerate(modules)}
    files["shares"] = "".join(f"{share.tag}\n" for share in description.shares).encode()
    files |= {f"apps/{number}": data for number, data in enumerate(description.apps)}
    files |= {f"files/{number}": _read(path) for number, path in enumerate(description.files)}
    return files


def _directories(configs: dict[str, dict[str, Any]]) -> frozenset[str]:
    """Return the paths of the host directories that apps bind-mount.

    Bind mounts of files are left out.  ``configs`` maps each app's name to its ``config.json``.
    """
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
        raise HostError(f'read "{path}"', error) from error


_MAGIC = b"070701"
_END = "TRAILER!!!"
_ALIGNMENT = 4


def archive(files: Mapping[str, bytes], programs: frozenset[str] = frozenset()) -> bytes:
    """Return a cpio archive (format newc) of ``files``, {relative path: content}.

    The archive also contains the parent directories of the files, and /dev/console for the guest's
    init.  Files whose paths are in ``programs`` are executable.
    """
    parts: list[bytes] = []
    directories: set[str] = set()

    def add(name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        parts.append(_entry(len(parts) + 1, name, mode, data, device))

    def add_directories(name: str) -> None:
        parent = name.rpartition("/")[0]
        if parent and parent not in directories:
            add_directories(parent)
            directories.add(parent)
            add(parent, stat.S_IFDIR | 0o755)

    add_directories("dev/console")
    add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    for name, data in files.items():
        add_directories(name)
        add(name, stat.S_IFREG | (0o755 if name in programs else 0o644), data)
    parts.append(_entry(0, _END, 0, b"", (0, 0)))
    return b"".join(parts)


def _entry(number: int, name: str, mode: int, data: bytes, device: tuple[int, int]) -> bytes:
    """Return an entry of a cpio archive: header, name and data.

    ``number`` is the inode number.  ``device`` is (major, minor) of a character device, otherwise
    (0, 0).
    """
    path = name.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device of the file (2), rdev (2), name size,
    # checksum
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
    head = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return _aligned(head + path) + _aligned(data)


def _aligned(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)


# The files that tell the guest agent how to run each app, converted from its OCI configuration.
# ``csrc/guest/become.c`` describes the format.

# Mount option -> flag of mount(2).
_FLAGS = {
    "ro": 1,
    "nosuid": 2,
    "nodev": 4,
    "noexec": 8,
    "sync": 16,
    "noatime": 1024,
    "nodiratime": 2048,
    "strictatime": 1 << 24,
}
_IGNORED = (
    *("rw", "bind", "rbind", "private", "rprivate", "slave", "rslave"),
    *("suid", "dev", "exec", "async", "atime", "diratime", "relatime"),
)


class Description:
    """The settings with which the guest agent runs a pod's apps.

    ``apps`` contains the settings of each app, in the manifest's order.  ``csrc/guest/become.c``
    describes the format.  ``files`` lists the paths of the pod's files to copy into the initramfs,
    ``shares`` the host directories to share with the guest.
    """

    def __init__(self) -> None:
        self.apps: list[bytes] = []
        self.files: list[str] = []
        self.shares: list[Share] = []

    def share(self, path: str, read_only: bool) -> str:
        """Add the host directory ``path`` to ``shares``; return its path in the guest."""
        for share in self.shares:
            if (share.path, share.read_only) == (path, read_only):
                return f"/share/{share.tag}"
        self.shares.append(Share(f"s{len(self.shares)}", path, read_only))
        return f"/share/{self.shares[-1].tag}"

    def file(self, path: str) -> str:
        """Add the pod's file ``path`` to ``files``; return its path in the guest."""
        if path not in self.files:
            self.files.append(path)
        return f"/files/{self.files.index(path)}"


def describe(configs: dict[str, Json], pod_path: str, directories: frozenset[str]) -> Description:
    """Return the description of a pod's apps for the guest agent.

    ``configs`` maps each app's name to its ``config.json``.  ``directories`` are the host
    directories that apps bind-mount.  Raises PodError for settings that a virtual machine does not
    support.
    """
    description = Description()
    for name, config in configs.items():
        description.apps.append(_app(description, name, config, pod_path, directories))
    return description


def _app(
    description: Description, name: str, config: Json, pod_path: str, directories: frozenset[str]
) -> bytes:
    """Return the settings of the app ``name`` in the format of ``csrc/guest/become.c``.

    Each setting ends with NUL.  Adds the files and directories that the app needs to
    ``description``.  ``directories`` are the host directories that apps bind-mount.  Raises
    PodError if a setting contains NUL or is not supported.
    """
    process = config["process"]
    user = process["user"]
    app_settings = ["r" + description.share(config["root"]["path"], False)]
    for mount in config["mounts"]:
        app_settings += _mount(description, name, mount, pod_path, directories)
    linux = config.get("linux", {})
    app_settings += [f"x{path}" for path in linux.get("maskedPaths", [])]
    app_settings += [f"y{path}" for path in linux.get("readonlyPaths", [])]
    if config["root"].get("readonly"):
        app_settings.append("o")
    for file, value in unified(linux.get("resources", {})):
        app_settings += [f"l{file}", value]
    app_settings += [f"u{user['uid']}", f"g{user['gid']}"]
    app_settings += [f"G{number}" for number in user.get("additionalGids", [])]
    bounding = process.get("capabilities", {}).get("bounding", [])
    app_settings += [
        f"b{n}" for n, capability in enumerate(CAPABILITIES) if capability not in bounding
    ]
    if process.get("noNewPrivileges"):
        app_settings.append("n")
    app_settings.append(f"w{process['cwd']}")
    app_settings += [f"e{variable}" for variable in process["env"]]
    app_settings += [f"a{argument}" for argument in process["args"]]
    for setting in app_settings:
        if "\0" in setting:
            raise PodError(f'app "{name}": its settings in config.json must not contain NUL')
    return b"".join(setting.encode("utf-8", "surrogateescape") + b"\0" for setting in app_settings)


def _mount(
    description: Description, name: str, mount: Json, pod_path: str, directories: frozenset[str]
) -> list[str]:
    """Convert a mount of the app ``name`` to settings in the format of ``csrc/guest/become.c``.

    Adds the source of a bind mount to ``description``.  ``directories`` are the host directories
    that apps bind-mount.  Raises PodError for a bind mount of a file outside the pod's directory.
    """
    source, kind = mount["source"], mount["type"]
    options = mount.get("options", [])
    flags = sum(_FLAGS.get(option, 0) for option in options)
    if kind != "bind":
        known = (*_FLAGS, *_IGNORED)
        data = ",".join(option for option in options if option not in known)
        return [f"m{source}", mount["destination"], kind, str(flags), data]
    if source == f"{pod_path}/{SHARED_MEMORY}":
        return ["m/shm", mount["destination"], kind, str(flags), ""]
    if source in directories:
        read_only = "ro" in options
        return [
            f"m{description.share(source, read_only)}",
            mount["destination"],
            kind,
            str(flags),
            "",
        ]
    if source.startswith(f"{pod_path}/"):
        return [f"m{description.file(source)}", mount["destination"], kind, str(flags), ""]
    raise PodError(f'app "{name}": volume "{source}": a virtual machine supports directories only')
