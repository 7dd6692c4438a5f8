"""What virtual machines are made of: a kernel, its modules, and numbers.

``$LOCAL_CONFIG/kvm.json`` may say so, all of it optional:

    {"kernel": FILE, "modules": DIRECTORY, "memory": MEBIBYTES, "cpus": N,
     "accelerator": "auto|kvm|tcg", "qemu": FILE}

Without it the host's own kernel is taken, as far as it lies in /boot.
"""

from __future__ import annotations

import os

from ociruntime.base.errors import PodError, reason
from ociruntime.base.programs import find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "kvm.json"
DEVICE = "/dev/kvm"
ACCELERATORS = ("auto", "kvm", "tcg")
MEMORY = 256  # MiB
OWN_MEMORY = 96  # MiB that kernel and guest need besides the apps
LEAST_MEMORY, MOST_CPUS = 64, 255
_TEXTS = ("kernel", "modules", "accelerator", "qemu")
_NUMBERS = ("memory", "cpus")


class Settings:
    """``accelerator`` is "kvm" or, in software, "tcg"; ``modules`` "" if the kernel has it all."""

    __slots__ = ("accelerator", "cpus", "kernel", "memory", "modules", "qemu")

    def __init__(self) -> None:
        self.kernel = ""
        self.modules = ""
        self.memory = 0  # not told
        self.cpus = 0
        self.accelerator = "auto"
        self.qemu = f"qemu-system-{os.uname().machine}"


def settings(local_config: str, kernel: str = "") -> Settings:
    """The settings of this host; ``kernel`` goes before what the file says.

    Raises PodError, with a reason, if this host cannot have virtual machines.
    """
    found = _read(f"{local_config}/{FILE}")
    if os.uname().machine != "x86_64":
        raise PodError(f"flavour kvm is not available on {os.uname().machine}")
    program = found.qemu if found.qemu.startswith("/") else find_program(found.qemu)
    if not os.access(program, os.X_OK):
        raise PodError(f"flavour kvm needs {found.qemu}, which is not installed")
    found.qemu = program
    _find_kernel(found, kernel)
    if found.accelerator == "auto":
        found.accelerator = "kvm" if _can_open(DEVICE) else "tcg"
    elif found.accelerator == "kvm" and not _can_open(DEVICE):
        raise PodError(f"{DEVICE} cannot be opened", '"accelerator": "tcg" does without')
    return found


def _find_kernel(found: Settings, kernel: str) -> None:
    hint = f'--kvm-kernel FILE, or "kernel" in {FILE}'
    release = os.uname().release
    if kernel:
        found.kernel, found.modules = os.path.abspath(kernel), ""
    elif not found.kernel:
        found.kernel = f"/boot/vmlinuz-{release}"
        if not os.path.isfile(found.kernel):
            raise PodError("flavour kvm needs a kernel for the virtual machine", hint)
    try:
        with open(found.kernel, "rb"):
            pass
    except OSError as error:
        raise PodError(f"the kernel {found.kernel}: {reason(error)}", hint) from None
    if not found.modules:
        found.modules = _modules_beside(found.kernel)
    elif not os.path.isdir(found.modules):
        raise PodError(f"the kernel's modules {found.modules} are no directory", FILE)


def _modules_beside(kernel: str) -> str:
    """As packages install them: ``X/boot/vmlinuz-RELEASE`` and ``X/lib/modules/RELEASE``."""
    place, _, name = kernel.rpartition("/")
    release = name.partition("-")[2]
    for root in (os.path.dirname(place).rstrip("/"), ""):
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
        raise PodError(f"{path} is not JSON: {error}") from None
    _fill(found, document, path)
    return found


def _fill(found: Settings, document: Any, path: str) -> None:  # noqa: ANN401 - JSON
    if not isinstance(document, dict):
        raise PodError(f"{path} is no JSON object")
    for name, value in document.items():
        is_text = name in _TEXTS and isinstance(value, str) and value
        is_number = name in _NUMBERS and type(value) is int and value > 0
        if is_text or is_number:
            setattr(found, name, value)
        elif name in _TEXTS + _NUMBERS:
            kind = "text" if name in _TEXTS else "number above 0"
            raise PodError(f'{path}: "{name}" wants a {kind}')
        else:
            raise PodError(f'{path}: nobody knows "{name}"', ", ".join(_TEXTS + _NUMBERS))
    if found.accelerator not in ACCELERATORS:
        message = f'{path}: "{found.accelerator}" is no accelerator'
        raise PodError(message, ", ".join(ACCELERATORS))
    if found.memory and found.memory < LEAST_MEMORY:
        raise PodError(f'{path}: "memory" is at least {LEAST_MEMORY} (MiB)')
    if found.cpus > MOST_CPUS:
        raise PodError(f'{path}: "cpus" is at most {MOST_CPUS}')


def memory_of(found: Settings, limits: list[int | None], whole: int | None = None) -> int:
    """MiB of a machine: what the pod may have, as set, or what its apps need together.

    ``limits`` are those of the apps, ``whole`` that of the pod, in bytes.
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
    """Processors of a machine: those of the pod, as set, or what its apps need together.

    ``limits`` are those of the apps, ``whole`` that of the pod, in thousandths.
    """
    if whole is not None:
        limits = [whole]
    elif found.cpus:
        return found.cpus
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or not known:
        return 1
    return min(MOST_CPUS, os.cpu_count() or 1, max(1, -(-sum(known) // 1000)))
