"""Arguments for qemu and the guest, and errors for what a virtual machine does not support."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import PodError, UsageError
from ociruntime.pods.kvm.machine_settings import check_manifest, check_networks
from ociruntime.pods.kvm.prepare_machine import describe
from ociruntime.pods.kvm.qemu import Hardware, Share, command

COMMAND = """
/usr/bin/qemu-system-x86_64
-name ocipod-x -nodefaults -no-user-config -display none -no-reboot
-machine q35 -accel kvm -cpu max -m 300M -smp 2
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-kernel /boot/vmlinuz -initrd /proc/self/fd/9
-append console=ttyS0_quiet_panic=-1_rdinit=/init_no_timer_check_random.trust_cpu=on
-chardev file,id=console,path=machine.log,append=on -serial chardev:console
-device virtio-serial-pci,id=ports,max_ports=3
-chardev socket,id=port1,fd=4,server=on,wait=off
-device virtserialport,bus=ports.0,nr=1,chardev=port1
-chardev socket,id=port2,fd=5,server=on,wait=off
-device virtserialport,bus=ports.0,nr=2,chardev=port2
-fsdev local,id=s0,path=/pods/a,,b,security_model=passthrough,multidevs=remap
-device virtio-9p-pci,fsdev=s0,mount_tag=s0
-fsdev local,id=s1,path=/v,security_model=passthrough,multidevs=remap,readonly=on
-device virtio-9p-pci,fsdev=s1,mount_tag=s1
"""


def test_the_command_line() -> None:
    machine = Hardware("/usr/bin/qemu-system-x86_64", "ocipod-x")
    machine.accelerator, machine.memory, machine.cpus = "kvm", 300, 2
    machine.kernel, machine.initramfs = "/boot/vmlinuz", "/proc/self/fd/9"
    machine.ports = [4, 5]
    machine.shares = [Share("s0", "/pods/a,b", False), Share("s1", "/v", True)]
    words = [word.replace(" ", "_") for word in command(machine)]
    assert words == COMMAND.split()
    machine.shares *= 20
    with pytest.raises(PodError, match=r"directories and networks, .* 26 are"):
        command(machine)


def config(*mounts: dict[str, Any], **members: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {
        "process": {
            "user": {"uid": 7, "gid": 8, "additionalGids": [9]},
            "args": ["echo", ""],
            "env": ["A=1"],
            "cwd": "/w",
            "capabilities": {"bounding": [name for name in CAPABILITIES if name != "CAP_KILL"]},
        },
        "root": {"path": "/pod/apps/a/bundle/rootfs"},
        "mounts": list(mounts),
        "linux": {"maskedPaths": ["/proc/kcore"], "readonlyPaths": ["/proc/sys"]},
        **members,
    }


def bind(source: str, *options: str) -> dict[str, Any]:
    return {"destination": "/d", "type": "bind", "source": source, "options": ["rbind", *options]}


def test_the_description_of_an_app() -> None:
    made = describe(
        {
            "a": config(
                {"destination": "/p", "type": "proc", "source": "p", "options": ["nosuid", "x=1"]},
                bind("/v", "ro"),
                bind("/v", "rw"),
                bind("/pod/hosts"),
                bind("/pod/shm", "nosuid", "noexec"),
            )
        },
        "/pod",
        frozenset({"/v"}),
    )
    assert [(one.tag, one.path, one.read_only) for one in made.shares] == [
        ("s0", "/pod/apps/a/bundle/rootfs", False),
        ("s1", "/v", True),
        ("s2", "/v", False),
    ]
    assert made.files == ["/pod/hosts"]
    words = (
        b"r/share/s0\0"
        b"mp\0/p\0proc\x002\0x=1\0"
        b"m/share/s1\0/d\0bind\x001\0\0"
        b"m/share/s2\0/d\0bind\x000\0\0"
        b"m/files/0\0/d\0bind\x000\0\0"
        b"m/shm\0/d\0bind\x0010\0\0"
        b"x/proc/kcore\0y/proc/sys\0"
        b"u7\0g8\0G9\0b5\0w/w\0eA=1\0aecho\0a\0"
    )
    assert made.apps == [words]


def test_limits_and_restrictions() -> None:
    resources = {
        "memory": {"limit": 1 << 20},
        "cpu": {"quota": 50000, "period": 100000, "shares": 1024},
        "pids": {"limit": 5},
    }
    one = config(linux={"resources": resources}, root={"path": "/r", "readonly": True})
    one["process"]["noNewPrivileges"] = True
    words = describe({"a": one}, "/pod", frozenset()).apps[0].split(b"\0")
    assert words[1:10] == [
        b"o",
        *(b"lmemory.max", b"1048576", b"lcpu.max", b"50000 100000", b"lcpu.weight", b"100"),
        *(b"lpids.max", b"5"),
    ]
    assert b"n" in words


def test_what_an_app_cannot_have() -> None:
    with pytest.raises(PodError, match=r'/etc/passwd": .*directories only'):
        describe({"a": config(bind("/etc/passwd"))}, "/pod", frozenset())
    one = config()
    one["process"]["args"] = ["a\0b"]
    with pytest.raises(PodError, match="contain NUL"):
        describe({"a": one}, "/pod", frozenset())


def test_refusals() -> None:
    check_networks([("none", "")], "private")
    for networks, ipc, message in (
        ([("host", "")], "private", "the host's network"),
        ([("none", "")], "parent", "cannot share namespaces"),
    ):
        with pytest.raises(UsageError, match=message):
            check_networks(networks, ipc)
    for name in ("resource/pids", "os/linux/cpu-shares"):
        with pytest.raises(UsageError, match=f'"{name}": '):
            check_manifest({"apps": [], "volumes": [], "isolators": [{"name": name}]})
    entry: dict[str, Any] = {"name": "a", "app": {"streams": {"stdout": "tty"}}}
    with pytest.raises(UsageError, match="has no terminal"):
        check_manifest({"apps": [entry], "volumes": [], "isolators": []})
    for name in ("ociruntime/ulimits", "ociruntime/privileged", "ociruntime/cpuset-cpus"):
        entry = {"name": "a", "app": {"isolators": [{"name": name}]}}
        with pytest.raises(UsageError, match=f'app "a": isolator "{name}": '):
            check_manifest({"apps": [entry], "volumes": [], "isolators": []})
    entry = {"name": "a", "app": {}, "devices": [{}]}
    with pytest.raises(UsageError, match=r'"a": .*devices'):
        check_manifest({"apps": [entry], "volumes": [], "isolators": []})
    volume = {"name": "v", "kind": "host", "source": "/etc/passwd"}
    with pytest.raises(UsageError, match="directories only"):
        check_manifest({"apps": [], "volumes": [volume], "isolators": []})
