"""Settings of virtual machines: kernel, modules and sizes.

They come from ``$LOCAL_CONFIG/kvm.json``, in which every member is optional:

    {"kernel": FILE, "modules": DIRECTORY, "memory": MEBIBYTES, "cpus": N,
     "accelerator": "auto|kvm|tcg", "qemu": FILE}

The default kernel is the host's, /boot/vmlinuz-RELEASE.
"""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base.errors import PodError, UsageError, reason
from ociruntime.base.host_programs import find_program
from ociruntime.pods.manifest import isolators
from ociruntime.pods.manifest.request import PodRequest

FILE = "kvm.json"
DEVICE = "/dev/kvm"
ACCELERATORS = ("auto", "kvm", "tcg")
MEMORY = 256  # MiB
OWN_MEMORY = 96  # MiB for the kernel and the guest agent, besides the apps
LEAST_MEMORY, MOST_CPUS = 64, 255
_NOT_IN_A_MACHINE = (
    *(isolators.ULIMITS, isolators.MEMORY_SWAP, isolators.MEMORY_RESERVATION),
    *(isolators.CPU_QUOTA, isolators.CPUSET_CPUS, isolators.CPUSET_MEMS, isolators.PRIVILEGED),
)
_TEXTS = ("kernel", "modules", "accelerator", "qemu")
_NUMBERS = ("memory", "cpus")


class Settings:
    """The members of kvm.json, or defaults.

    ``modules`` is "" if the kernel has all drivers built in.  ``accelerator`` is "kvm", or "tcg"
    for emulation; ``settings`` resolves "auto".  ``memory`` and ``cpus`` are 0 if not set.
    """

    __slots__ = ("accelerator", "cpus", "kernel", "memory", "modules", "qemu")

    def __init__(self) -> None:
        self.kernel = ""
        self.modules = ""
        self.memory = 0
        self.cpus = 0
        self.accelerator = "auto"
        self.qemu = f"qemu-system-{os.uname().machine}"


def settings(local_config: str, kernel: str = "") -> Settings:
    """Return this host's settings; ``kernel`` (--kvm-kernel) overrides that of kvm.json.

    Raises PodError if this host cannot run virtual machines.
    """
    found = _read(f"{local_config}/{FILE}")
    if os.uname().machine != "x86_64":
        raise PodError(f"flavour kvm: architecture {os.uname().machine} is not supported")
    program = found.qemu if found.qemu.startswith("/") else find_program(found.qemu)
    if not os.access(program, os.X_OK):
        hint = f'install qemu, or set "qemu" in {FILE}'
        raise PodError(f"flavour kvm: {found.qemu} is not installed", hint)
    found.qemu = program
    _find_kernel(found, kernel)
    if found.accelerator == "auto":
        found.accelerator = "kvm" if _can_open(DEVICE) else "tcg"
    elif found.accelerator == "kvm" and not _can_open(DEVICE):
        hint = f'set "accelerator": "tcg" in {FILE} for emulation'
        raise PodError(f"flavour kvm: {DEVICE} cannot be opened", hint)
    return found


def _find_kernel(found: Settings, kernel: str) -> None:
    hint = f'set --kvm-kernel FILE, or "kernel" in {FILE}'
    release = os.uname().release
    if kernel:
        found.kernel, found.modules = os.path.abspath(kernel), ""
    elif not found.kernel:
        found.kernel = f"/boot/vmlinuz-{release}"
        if not os.path.isfile(found.kernel):
            raise PodError(f"flavour kvm: kernel {found.kernel} not found", hint)
    try:
        with open(found.kernel, "rb"):
            pass
    except OSError as error:
        raise PodError(f"flavour kvm: open kernel {found.kernel}: {reason(error)}", hint) from None
    if not found.modules:
        found.modules = _modules_beside(found.kernel)
    elif not os.path.isdir(found.modules):
        hint = f'"modules" in {FILE}'
        raise PodError(f"flavour kvm: kernel modules {found.modules}: not a directory", hint)


def _modules_beside(kernel: str) -> str:
    """Return ``X/lib/modules/REL`` for the kernel ``X/boot/vmlinuz-REL``, or /lib/modules/REL.

    Returns "" if neither is a directory.
    """
    boot, _, name = kernel.rpartition("/")
    release = name.partition("-")[2]
    for root in (os.path.dirname(boot).rstrip("/"), ""):
        directory = f"{root}/lib/modules/{release}"
        if release and os.path.isdir(directory):
            return directory
    return ""


def _can_open(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _read(path: str) -> Settings:
    import json

    found = Settings()
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        return found
    except OSError as error:
        raise PodError(f"read {path}: {reason(error)}") from None
    except ValueError as error:
        raise PodError(f"{path}: invalid JSON: {error}") from None
    _fill(found, document, path)
    return found


def _fill(found: Settings, document: Any, path: str) -> None:  # noqa: ANN401 - JSON
    if not isinstance(document, dict):
        raise PodError(f"{path}: must be a JSON object")
    for name, value in document.items():
        is_text = name in _TEXTS and isinstance(value, str) and value
        is_number = name in _NUMBERS and type(value) is int and value > 0
        if is_text or is_number:
            setattr(found, name, value)
        elif name in _TEXTS + _NUMBERS:
            kind = "string" if name in _TEXTS else "number above 0"
            raise PodError(f'{path}: "{name}" must be a {kind}')
        else:
            raise PodError(f'{path}: unknown member "{name}"', ", ".join(_TEXTS + _NUMBERS))
    if found.accelerator not in ACCELERATORS:
        message = f'{path}: unknown accelerator "{found.accelerator}"'
        raise PodError(message, ", ".join(ACCELERATORS))
    if found.memory and found.memory < LEAST_MEMORY:
        raise PodError(f'{path}: "memory" must be at least {LEAST_MEMORY} (MiB)')
    if found.cpus > MOST_CPUS:
        raise PodError(f'{path}: "cpus" must be at most {MOST_CPUS}')


def memory_of(found: Settings, limits: list[int | None], whole: int | None = None) -> int:
    """Return the machine's memory in MiB: the pod's limit, the setting, or the apps' sum.

    ``limits`` are the apps' limits in bytes, ``whole`` is the pod's; None means no limit.  The
    default is 256, if an app has no limit.
    """
    if whole is not None:
        return max(LEAST_MEMORY, OWN_MEMORY + -(-whole // (1 << 20)))
    if found.memory:
        return found.memory
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or not known:
        return MEMORY
    return max(LEAST_MEMORY, OWN_MEMORY + -(-sum(known) // (1 << 20)))


def cpus_of(found: Settings, limits: list[int | None], whole: int | None = None) -> int:
    """Return the machine's number of CPUs: the pod's limit, the setting, or the apps' sum.

    ``limits`` are the apps' limits in thousandths of a CPU, ``whole`` is the pod's; None means no
    limit.  The default is 1, if an app has no limit.
    """
    if whole is not None:
        limits = [whole]
    elif found.cpus:
        return found.cpus
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or not known:
        return 1
    return min(MOST_CPUS, os.cpu_count() or 1, max(1, -(-sum(known) // 1000)))


def check_request(request: PodRequest, local_config: str) -> None:
    """Check a request to prepare a pod.

    Raises UsageError; PodError if this host cannot run virtual machines.
    """
    if request.private_users:
        raise UsageError(
            "--private-users: not supported by flavour kvm, whose guest has its own users"
        )
    check_run(request, local_config, request.kvm_kernel)


def check_run(request: PodRequest, local_config: str, kernel: str) -> None:
    """Check what ``run-prepared`` may request, too.  Raises UsageError, PodError."""
    if request.interactive and os.isatty(0):
        raise UsageError(
            "--interactive: a virtual machine has no terminal", "redirect standard input"
        )
    settings(local_config, kernel)


def check_networks(networks: list[tuple[str, str]], ipc: str) -> None:
    """Check ``networks``, a list of (name, arguments), and the IPC mode.  Raises UsageError."""
    for name, _ in networks:
        if name == "host":
            hint = "choose another network"
            raise UsageError("--net=host: a virtual machine cannot have the host's network", hint)
    if ipc == "parent":
        message = "a virtual machine cannot share memory, processes or its name with the host"
        raise UsageError(f"--ipc, --pid or --uts=parent: {message}")


def check_manifest(manifest: dict[str, Any]) -> None:
    """Check isolators, streams and volumes of a pod for flavour kvm.  Raises UsageError."""
    for isolator in manifest["isolators"]:
        if isolator["name"] not in (isolators.MEMORY, isolators.CPU):
            message = f"{isolator['name']}: not supported for a whole pod of flavour kvm"
            raise UsageError(message, "set it for each app, after its image")
    for entry in manifest["apps"]:
        for isolator in entry["app"].get("isolators", ()):
            if isolator["name"] in _NOT_IN_A_MACHINE:
                message = f'app "{entry["name"]}": {isolator["name"]}: not supported'
                raise UsageError(f"{message} by flavour kvm")
        if entry.get("devices"):
            message = f'app "{entry["name"]}": a virtual machine has no devices of the host'
            raise UsageError(message)
        if "tty" in entry["app"].get("streams", {}).values():
            name = entry["name"]
            hint = "use stream instead of tty"
            raise UsageError(f'app "{name}": a virtual machine has no terminal', hint)
    for volume in manifest["volumes"]:
        if volume["kind"] == "host" and not os.path.isdir(volume["source"]):
            name, source = volume["name"], volume["source"]
            message = f'volume "{name}": {source}: a virtual machine supports directories only'
            raise UsageError(message)
