"""The hardware of a pod's virtual machine, and the qemu command line that starts it."""

from __future__ import annotations

from ociruntime.base.errors import PodError

CONSOLE = "machine.log"  # in the pod's directory: output of the kernel and the guest agent
MOST_DEVICES = 26  # free slots of the machine's PCI bus
_KERNEL = (
    "console=ttyS0",
    "quiet",
    "panic=-1",  # reboot at once on a panic, which ends qemu
    "rdinit=/init",
    "no_timer_check",
    "random.trust_cpu=on",
)
# qemu starts no other programs and changes no user ids.
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


class Share:
    """A host directory that the guest mounts; ``tag`` is the 9p mount tag of the directory."""

    __slots__ = ("path", "read_only", "tag")

    def __init__(self, tag: str, path: str, read_only: bool) -> None:
        self.tag = tag
        self.path = path
        self.read_only = read_only


class Hardware:
    """The hardware of a virtual machine.

    ``ports`` are descriptors of listening sockets: one for the guest agent, then one per app.
    ``memory`` is in MiB.  ``program`` (qemu), ``kernel`` and ``initramfs`` are paths.  ``networks``
    are pairs (descriptor of a tap device, MAC address).
    """

    __slots__ = (
        *("accelerator", "cpus", "initramfs", "kernel", "memory", "name", "networks", "ports"),
        *("program", "shares"),
    )

    def __init__(self, program: str, name: str) -> None:
        self.program = program
        self.name = name
        self.accelerator = "tcg"
        self.cpus = 1
        self.memory = 256
        self.kernel = ""
        self.initramfs = ""
        self.shares: list[Share] = []
        self.ports: list[int] = []
        self.networks: list[tuple[int, str]] = []


def command(hardware: Hardware) -> list[str]:
    """Return the argv that starts qemu with ``hardware``.

    Raises PodError if the machine's PCI bus has too few slots for its devices.
    """
    devices = len(hardware.shares) + len(hardware.networks)
    if devices > MOST_DEVICES:
        raise PodError(
            f'start virtual machine "{hardware.name}": too many devices: '
            f"{devices} directories and networks, at most {MOST_DEVICES} are supported",
            "use fewer apps, volumes or networks",
        )
    argv = [
        *(hardware.program, "-name", _value(hardware.name)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "q35", "-accel", hardware.accelerator, "-cpu", "max"),
        *("-m", f"{hardware.memory}M", "-smp", str(hardware.cpus), "-sandbox", _SANDBOX),
        *("-kernel", hardware.kernel, "-initrd", hardware.initramfs),
        *("-append", " ".join(_KERNEL)),
        *("-chardev", f"file,id=console,path={CONSOLE},append=on", "-serial", "chardev:console"),
        *("-device", f"virtio-serial-pci,id=ports,max_ports={len(hardware.ports) + 1}"),
    ]
    for number, fd in enumerate(hardware.ports, 1):
        argv += ["-chardev", f"socket,id=port{number},fd={fd},server=on,wait=off"]
        argv += ["-device", f"virtserialport,bus=ports.0,nr={number},chardev=port{number}"]
    for share in hardware.shares:
        options = ["security_model=passthrough", "multidevs=remap"]
        if share.read_only:
            options.append("readonly=on")
        path = _value(share.path)
        argv += ["-fsdev", f"local,id={share.tag},path={path},{','.join(options)}"]
        argv += ["-device", f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}"]
    for number, (fd, address) in enumerate(hardware.networks):
        argv += ["-netdev", f"tap,id=net{number},fd={fd}"]
        argv += ["-device", f"virtio-net-pci,netdev=net{number},mac={address},romfile="]
    return argv


def _value(text: str) -> str:
    """Return ``text`` with its commas doubled, as qemu requires in the value of a suboption."""
    return text.replace(",", ",,")
