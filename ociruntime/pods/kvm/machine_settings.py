"""Read the settings of virtual machines (kernel, modules, size), and check the options of kvm pods.

The settings come from ``$LOCAL_CONFIG/kvm.json``.  Every member of this file is optional:

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
MEMORY = 256  # MiB, the default
OWN_MEMORY = 96  # MiB for the kernel and the guest agent, added to the apps' memory
LEAST_MEMORY, MOST_CPUS = 64, 255
_UNSUPPORTED_ISOLATORS = (
    *(isolators.ULIMITS, isolators.MEMORY_SWAP, isolators.MEMORY_RESERVATION),
    *(isolators.CPU_QUOTA, isolators.CPUSET_CPUS, isolators.CPUSET_MEMS, isolators.PRIVILEGED),
)
_TEXTS = ("kernel", "modules", "accelerator", "qemu")
_NUMBERS = ("memory", "cpus")


class Settings:
    """The settings in kvm.json, with default values for missing members.

    ``modules`` is the directory of the kernel's modules, "" if all drivers are built in.
    ``accelerator`` is "kvm", "tcg" (emulation) or "auto" (kvm if available).  ``memory`` (MiB) and
    ``cpus`` are 0 if not set.
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
    """Return the settings in the file kvm.json of the directory ``local_config``.

    Missing settings get defaults, and the paths of qemu and the kernel are looked up.  ``kernel``
    (--kvm-kernel) overrides the kernel in kvm.json unless it is "".  Raises PodError if this host
    cannot run virtual machines, or if kvm.json is invalid.
    """
    kvm = _read(f"{local_config}/{FILE}")
    if os.uname().machine != "x86_64":
        raise PodError(
            f'flavour kvm: architecture "{os.uname().machine}" is not supported',
            "supported: x86_64",
        )
    program = kvm.qemu if kvm.qemu.startswith("/") else find_program(kvm.qemu)
    if not os.access(program, os.X_OK):
        hint = f'install qemu, or set "qemu" in {FILE}'
        raise PodError(f'flavour kvm: "{kvm.qemu}" is not installed', hint)
    kvm.qemu = program
    _find_kernel(kvm, kernel)
    if kvm.accelerator == "auto":
        kvm.accelerator = "kvm" if _can_open(DEVICE) else "tcg"
    elif kvm.accelerator == "kvm" and not _can_open(DEVICE):
        hint = f'set "accelerator": "tcg" in {FILE} for emulation'
        raise PodError(f'flavour kvm: cannot open "{DEVICE}"', hint)
    return kvm


def _find_kernel(kvm: Settings, kernel: str) -> None:
    """Set the paths of the kernel and its modules in ``kvm``.

    ``kernel`` (--kvm-kernel) overrides the kernel in ``kvm`` unless it is "".  Raises PodError if
    the kernel or the directory of modules is not found.
    """
    hint = f'use --kvm-kernel FILE, or set "kernel" in {FILE}'
    release = os.uname().release
    if kernel:
        kvm.kernel, kvm.modules = os.path.abspath(kernel), ""
    elif not kvm.kernel:
        kvm.kernel = f"/boot/vmlinuz-{release}"
        if not os.path.isfile(kvm.kernel):
            raise PodError(f'flavour kvm: kernel "{kvm.kernel}" not found', hint)
    try:
        with open(kvm.kernel, "rb"):
            pass
    except OSError as error:
        raise PodError(f'flavour kvm: open kernel "{kvm.kernel}": {reason(error)}', hint) from None
    if not kvm.modules:
        kvm.modules = _modules_beside(kvm.kernel)
    elif not os.path.isdir(kvm.modules):
        hint = f'set "modules" in {FILE} to a directory such as /lib/modules/{release}'
        raise PodError(f'flavour kvm: kernel modules "{kvm.modules}": not a directory', hint)


def _modules_beside(kernel: str) -> str:
    """Return the directory of the modules for the kernel file ``kernel``, or "" if not found.

    For ``X/boot/vmlinuz-RELEASE`` this is ``X/lib/modules/RELEASE`` if it exists, otherwise
    ``/lib/modules/RELEASE``.
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
    """Return the settings in the file ``path``, or the defaults if the file does not exist.

    Raises PodError if the file cannot be read or is invalid.
    """
    import json

    kvm = Settings()
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        return kvm
    except OSError as error:
        raise PodError(f'read "{path}": {reason(error)}') from None
    except ValueError as error:
        raise PodError(f'read "{path}": invalid JSON: {error}') from None
    _fill(kvm, document, path)
    return kvm


def _fill(kvm: Settings, document: Any, path: str) -> None:  # noqa: ANN401 - JSON
    """Set the attributes of ``kvm`` from ``document``, the JSON in the file ``path``.

    Raises PodError if the document is invalid.
    """
    if not isinstance(document, dict):
        raise PodError(f'load "{path}": must be a JSON object')
    for name, value in document.items():
        is_text = name in _TEXTS and isinstance(value, str) and value
        is_number = name in _NUMBERS and type(value) is int and value > 0
        if is_text or is_number:
            setattr(kvm, name, value)
        elif name in _TEXTS + _NUMBERS:
            kind = "string" if name in _TEXTS else "positive integer"
            raise PodError(f'load "{path}": "{name}" must be a {kind}')
        else:
            raise PodError(
                f'load "{path}": unknown member "{name}"',
                f"supported: {', '.join(_TEXTS + _NUMBERS)}",
            )
    if kvm.accelerator not in ACCELERATORS:
        raise PodError(
            f'load "{path}": unknown accelerator "{kvm.accelerator}"',
            f"supported: {', '.join(ACCELERATORS)}",
        )
    if kvm.memory and kvm.memory < LEAST_MEMORY:
        raise PodError(f'load "{path}": "memory" must be at least {LEAST_MEMORY} (MiB)')
    if kvm.cpus > MOST_CPUS:
        raise PodError(f'load "{path}": "cpus" must be at most {MOST_CPUS}')


def memory_of(kvm: Settings, limits: list[int | None], pod_limit: int | None = None) -> int:
    """Return the memory size of a pod's virtual machine in MiB.

    The size is the first of these values that is set: the pod's limit ``pod_limit``, the setting
    ``kvm.memory``, or the sum of the apps' limits (``limits``).  The sum is not used if an app has
    no limit.  If no value is set, the size is 256.  Memory for the guest's kernel and agent is
    added to the pod's limit or the sum.  Limits are in bytes, None means no limit.
    """
    if pod_limit is not None:
        return max(LEAST_MEMORY, OWN_MEMORY + -(-pod_limit // (1 << 20)))
    if kvm.memory:
        return kvm.memory
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or not known:
        return MEMORY
    return max(LEAST_MEMORY, OWN_MEMORY + -(-sum(known) // (1 << 20)))


def cpus_of(kvm: Settings, limits: list[int | None], pod_limit: int | None = None) -> int:
    """Return the number of CPUs of a pod's virtual machine.

    This is the first of these values that is set: the pod's limit ``pod_limit``, the setting
    ``kvm.cpus``, or the sum of the apps' limits (``limits``).  The sum is not used if an app has no
    limit.  If no value is set, the result is 1.  The pod's limit or the sum is rounded up to whole
    CPUs.  It is then reduced to the number of the host's CPUs, and to at most 255.  Limits are in
    thousandths of a CPU, None means no limit.
    """
    if pod_limit is not None:
        limits = [pod_limit]
    elif kvm.cpus:
        return kvm.cpus
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or not known:
        return 1
    return min(MOST_CPUS, os.cpu_count() or 1, max(1, -(-sum(known) // 1000)))


def check_request(request: PodRequest, local_config: str) -> None:
    """Check that a pod in a virtual machine supports the options in ``request``.

    Raises UsageError for an unsupported option, PodError if this host cannot run virtual machines.
    """
    if request.private_users:
        raise UsageError(
            "--private-users: not supported by flavour kvm: the guest has its own users"
        )
    check_run(request, local_config, request.kvm_kernel)


def check_run(request: PodRequest, local_config: str, kernel: str) -> None:
    """Check that a pod in a virtual machine supports the run options in ``request``.

    ``kernel`` is the path of the machine's kernel, "" for the default.  Raises UsageError for an
    unsupported option, PodError if this host cannot run virtual machines.
    """
    if request.interactive and os.isatty(0):
        raise UsageError(
            "--interactive: a virtual machine has no terminal", "redirect stdin from a file or pipe"
        )
    settings(local_config, kernel)


def check_networks(networks: list[tuple[str, str]], ipc: str) -> None:
    """Check that a pod in a virtual machine supports ``networks`` and the --ipc mode ``ipc``.

    ``networks`` are pairs (name, CNI arguments).  Raises UsageError if a network or ``ipc`` would
    share a namespace of the host.
    """
    for name, _ in networks:
        if name == "host":
            hint = "choose another network"
            raise UsageError(
                "--net=host: a virtual machine cannot use the host's network namespace", hint
            )
    if ipc == "parent":
        message = "a virtual machine cannot share namespaces with the host"
        raise UsageError(f"--ipc=parent, --pid=parent or --uts=parent: {message}")


def check_manifest(manifest: dict[str, Any]) -> None:
    """Check that a pod with ``manifest`` can run in a virtual machine.

    Raises UsageError for an unsupported isolator, a terminal, a host device, or a volume that is
    not a directory.
    """
    for isolator in manifest["isolators"]:
        if isolator["name"] not in (isolators.MEMORY, isolators.CPU):
            raise UsageError(
                f'isolator "{isolator["name"]}": not supported for a whole pod of flavour kvm',
                "set it for each app, after its image",
            )
    for entry in manifest["apps"]:
        for isolator in entry["app"].get("isolators", ()):
            if isolator["name"] in _UNSUPPORTED_ISOLATORS:
                raise UsageError(
                    f'app "{entry["name"]}": isolator "{isolator["name"]}": '
                    "not supported by flavour kvm"
                )
        if entry.get("devices"):
            raise UsageError(
                f'app "{entry["name"]}": --device: host devices are not supported by flavour kvm'
            )
        if "tty" in entry["app"].get("streams", {}).values():
            name = entry["name"]
            hint = "use stream instead of tty for --stdin, --stdout and --stderr"
            raise UsageError(f'app "{name}": a virtual machine has no terminal', hint)
    for volume in manifest["volumes"]:
        if volume["kind"] == "host" and not os.path.isdir(volume["source"]):
            name, source = volume["name"], volume["source"]
            raise UsageError(
                f'volume "{name}": "{source}": a virtual machine supports directories only'
            )
