"""The canary: host state that no container may change, compared before and after each test.

This is the state of device nodes, sysctls, mounts, the runtimes' own programs, the session's
keyrings and the test process's descriptors.  tests/support/leaks.py checks what a container leaves
behind.
"""

from __future__ import annotations

import ctypes
import fnmatch
import gc
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support import project

# Sysctls that change by themselves, or as other programs of the machine work.
UNSTEADY = (
    "debug/exception-trace",
    "fs/aio-nr",
    "fs/binfmt_misc/*",  # handlers come with the packages of other programs
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "fs/quota/*",
    "kernel/ns_last_pid",
    "kernel/pty/nr",
    "kernel/random/*",
    "kernel/sched_domain/*",
    "kernel/tainted",
    "net/netfilter/nf_conntrack_count",
    "sunrpc/transports",
    "vm/nr_hugepages",  # /sys/kernel/mm has them as well, and tests set those
    "vm/nr_hugepages_mempolicy",
    "vm/stat_refresh",  # to read it is to make every CPU work
)
# Settings of a network interface or protocol family appear and vanish with interfaces.
PER_INTERFACE = ("net/ipv4/conf/*", "net/ipv6/conf/*", "net/ipv4/neigh/*", "net/ipv6/neigh/*")
# Set by container networks on purpose: forwarding, and what bridges hand to the firewall.
SET_BY_NETWORKS = ("net/ipv4/ip_forward", "net/bridge/*", "net/netfilter/*", "net/nf_conntrack_max")
SYSCTL = "/proc/sys/"

# The kernel moves the times of a terminal's node when a process writes to the terminal.
MOVING = ("tty*", "console", "ptmx", "hvc*")

PEERS = ("/usr/sbin/runc", "/usr/bin/crun")

KEYCTL_DESCRIBE = 6
KEYCTL_READ = 11
KEYRINGS = {"session": -3, "user": -4, "user session": -5}
_NR_KEYCTL = {"x86_64": 250, "aarch64": 219}

_libc = ctypes.CDLL(None, use_errno=True)

Values = dict[str, object]
Snapshot = dict[str, Values]  # the host at one moment: subject -> name -> value


@dataclass(frozen=True)
class Node:
    """The properties of a device node that a container could change.

    Times are left out for terminals and directories.
    """

    device: int
    mode: int
    owner: tuple[int, int]
    times: tuple[int, int]

    def __str__(self) -> str:
        uid, gid = self.owner
        return f"{stat.filemode(self.mode)} {uid}:{gid}, times {self.times}"


def device_node(path: str) -> Node | None:
    """Return the properties of a node or directory; None for a link or a missing file."""
    try:
        about = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_ISLNK(about.st_mode) else _node(os.path.basename(path), about)


def _node(name: str, about: os.stat_result) -> Node:
    moving = stat.S_ISDIR(about.st_mode) or any(fnmatch.fnmatchcase(name, one) for one in MOVING)
    times = (0, 0) if moving else (about.st_mtime_ns, about.st_ctime_ns)
    return Node(about.st_rdev, about.st_mode, (about.st_uid, about.st_gid), times)


def device_nodes(top: str = "/dev") -> Values:
    """Return all nodes and directories below a directory of devices, without mounts in it."""
    found: Values = {}
    pending = [top]
    device = os.stat(top).st_dev
    while pending:
        place = pending.pop()
        about = os.stat(place)
        if about.st_dev != device:
            continue
        found[place] = _node(place, about)
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    about = entry.stat(follow_symlinks=False)
                    found[entry.path] = _node(entry.name, about)
    return found


@cache
def sysctl_names() -> tuple[str, ...]:
    """Return the paths of all sysctls that change only when they are set."""
    unsteady = UNSTEADY + PER_INTERFACE + SET_BY_NETWORKS
    found: list[str] = []
    for place, _, names in os.walk(SYSCTL):
        for name in names:
            path = os.path.join(place, name)
            inside = path.removeprefix(SYSCTL)
            if not any(fnmatch.fnmatchcase(inside, one) for one in unsteady):
                found.append(path)
    return tuple(found)


def sysctls(names: Iterable[str] | None = None) -> Values:
    """Return the values of sysctls; unreadable ones are omitted."""
    found: Values = {}
    for path in sysctl_names() if names is None else names:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            found[path] = os.read(descriptor, 65536)
        except OSError:
            pass
        finally:
            os.close(descriptor)
    return found


def mounts() -> Values:
    """Return mount id -> the rest of its line in mountinfo: flags and propagation as well."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        lines = [line.rstrip("\n").partition(" ") for line in file]
    return {identity: rest for identity, _, rest in lines}


@cache
def programs() -> tuple[str, ...]:
    """Return the programs that root runs for a runtime: launchers, executor, peers."""
    build = project.ROOT / ".venv"
    found = [path for path in (build / "bin").glob("oci*") if path.is_file()]
    found += [path for path in (build / "lib").glob("ociruntime/**/*") if path.is_file()]
    package = project.ROOT / "ociruntime"
    found += [path for path in package.rglob("*") if path.suffix in {".so", ".bin"}]
    found += [path for path in package.rglob("_*") if path.is_file() and os.access(path, os.X_OK)]
    found += [Path(path) for path in PEERS]
    return tuple(sorted({str(path.resolve()) for path in found if path.exists()}))


def program_stamps(paths: Iterable[str] | None = None) -> Values:
    """Return {path: properties that change when the program is written or replaced}."""
    found: Values = {}
    for path in programs() if paths is None else paths:
        try:
            about = os.stat(path)
        except OSError:
            continue
        identity = about.st_ino, about.st_size, about.st_mode, about.st_uid, about.st_gid
        found[path] = (*identity, about.st_mtime_ns, about.st_ctime_ns)
    return found


def program_hashes(paths: Iterable[str] | None = None) -> Values:
    """Return {path: SHA-256}, for the start and end of a session."""
    chosen = programs() if paths is None else paths
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in chosen}


def _keyctl(operation: int, keyring: int) -> bytes | None:
    """Return keyctl(2)'s description of a keyring; None if it does not exist."""
    number = _NR_KEYCTL.get(os.uname().machine)
    if number is None:
        return None
    buffer = ctypes.create_string_buffer(4096)
    arguments = (ctypes.c_long(operation), ctypes.c_long(keyring), buffer, ctypes.c_long(4096))
    size: int = _libc.syscall(ctypes.c_long(number), *arguments)
    return buffer.raw[: min(size, 4096)] if size >= 0 else None


def keyrings() -> Values:
    """Return the caller's keyrings: description (type, owner, permissions, name) and members."""
    found: Values = {}
    for name, keyring in KEYRINGS.items():
        described = _keyctl(KEYCTL_DESCRIBE, keyring)
        if described is not None:
            found[name] = (described.rstrip(b"\0"), _keyctl(KEYCTL_READ, keyring))
    return found


def descriptors() -> Values:
    """Return the test process's descriptors: number -> target."""
    found: Values = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of the listing itself
            continue
    return found


def snapshot() -> Snapshot:
    """Return the state of the host; takes about 5 ms."""
    return {
        "device node": device_nodes(),
        "sysctl": sysctls(),
        "mount": mounts(),
        "program": program_stamps(),
        "keyring": keyrings(),
        "descriptor": descriptors(),
    }


def compare(subject: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Return a line for each value that is new, missing or changed."""
    lines = [f"{subject} {name} is new: {after[name]}" for name in after.keys() - before.keys()]
    lines += [f"{subject} {name} is gone: {before[name]}" for name in before.keys() - after.keys()]
    lines += [
        f"{subject} {name} changed: {before[name]} -> {after[name]}"
        for name in before.keys() & after.keys()
        if before[name] != after[name]
    ]
    return sorted(lines)


def difference(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each change of the host; kernel modules may add or remove sysctls."""
    lines: list[str] = []
    for subject, values in before.items():
        names = values.keys() | after[subject].keys()
        if subject == "sysctl":
            names = values.keys() & after[subject].keys()
        looks = [
            {name: one[name] for name in names & one.keys()} for one in (values, after[subject])
        ]
        lines += compare(subject, *looks)
    return lines


def changes(before: Snapshot) -> list[str]:
    """Compare the present state; descriptors that Python has not closed yet do not count."""
    found = difference(before, snapshot())
    if any(line.startswith("descriptor ") for line in found):
        gc.collect()
        found = difference(before, snapshot())
    return found


def may_pass(lines: list[str]) -> bool:
    """Return whether all changes may vanish by themselves, as exiting processes release mounts."""
    return all(line.startswith(("mount ", "keyring ", "descriptor ")) for line in lines)


def restore(before: Snapshot) -> None:
    """Restore device nodes and sysctls, so that the next test is not affected."""
    for path, node in before["device node"].items():
        found = device_node(path)
        if isinstance(node, Node) and found and found.device == node.device and found != node:
            os.chown(path, *node.owner)
            os.chmod(path, stat.S_IMODE(node.mode))
    now = sysctls()
    for path, value in before["sysctl"].items():
        if isinstance(value, bytes) and now.get(path, value) != value:
            try:
                Path(path).write_bytes(value)
            except OSError:  # read-only, or the kernel takes no value back
                continue
