"""Format a plan as text for people, or convert it to a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.linux import (
    MOUNT_ATTR__ATIME,
    MOUNT_ATTR_NOATIME,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NODIRATIME,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_NOSYMFOLLOW,
    MOUNT_ATTR_RDONLY,
    MOUNT_ATTR_STRICTATIME,
    NAMESPACE_FILES,
    NAMESPACES,
    RLIM_INFINITY,
    RLIMITS,
    S_IFBLK,
    S_IFCHR,
    S_IFMT,
    SCHEDULERS,
)
from ociruntime.base.log import plain
from ociruntime.runtime.plan.mount_options import PROPAGATION
from ociruntime.runtime.plan.operation_table import (
    CONSOLE_BIND,
    CONSOLE_CONTROL,
    MOUNT_COPY_UP,
    MOUNT_INHERIT_MODE,
    MOUNT_OR_BIND,
    MOUNT_PRESENT,
    MOUNT_REAL_DIRECTORY,
    NO_SLOT,
    OPERATIONS,
    STAGE_CGROUP,
    STAGE_DONE,
    STAGE_HOOKS,
    STAGE_MAPS,
    STAGE_NETWORK,
    STAGE_READY,
)
from ociruntime.runtime.plan.plan import Operation, Plan

Fields = dict[str, Any]  # name of an operation's field -> its value


STAGES: dict[int, str] = {
    STAGE_MAPS: "the runtime writes uid and gid maps",
    STAGE_CGROUP: "the runtime puts the process into its cgroup",
    STAGE_NETWORK: "the runtime moves network devices here",
    STAGE_HOOKS: "the runtime runs prestart and createRuntime hooks",
    STAGE_READY: "the runtime records the container",
    STAGE_DONE: "the runtime ends this process",
}

# Operation -> its description as a verb phrase, if its name is not one.
VERBS: dict[str, str] = {
    "affinity": "set CPU affinity to",
    "become_root": "switch to root of the user namespace",
    "bounding": "drop capabilities from the bounding set",
    "capabilities": "set capabilities",
    "chdir": "chdir to",
    "chroot": "chroot into the root filesystem",
    "clone_init": "fork the container's init",
    "clone_process": "fork into the pid namespace",
    "close_host": "close descriptors of the host",
    "console": "open the console",
    "device": "create device",
    "domainname": "set domain name",
    "drop_extra": "drop capabilities",
    "exec": "execute",
    "find_executable": "find",
    "home": "look up the home directory",
    "hook": "run hook",
    "hostname": "set host name",
    "id_map": "create id map",
    "io_priority": "set I/O priority",
    "join_namespace": "join namespace",
    "join_process": "join namespaces",
    "keyring": "join a new session keyring",
    "listen_pid": "add LISTEN_PID to the environment",
    "loopback": "bring up loopback",
    "memory_policy": "set memory policy",
    "mkdir": "create directory",
    "move_root": "move the root filesystem to /",
    "no_new_privs": "set no_new_privs",
    "null_streams": "replace the host's null device",
    "open_namespace": "open namespace",
    "open_tree": "copy mount tree",
    "personality": "set personality",
    "propagation": "set mount propagation",
    "readonly": "make read-only",
    "reconfigure": "change filesystem",
    "recorded_root": "open root filesystem",
    "restrict": "restrict mount",
    "rlimit": "set limit",
    "root": "open root filesystem",
    "scheduler": "set scheduling policy",
    "seccomp": "load the seccomp filter",
    "set_attributes": "change mount",
    "shared_root": "open root filesystem",
    "stdio_owner": "change the owner of the standard streams to",
    "symlink": "create symbolic link",
    "sync": "wait for the runtime",
    "umask": "set umask",
    "unshare": "unshare namespaces",
    "user": "switch to user",
    "wait_start": "wait for start",
    "write_proc": "write",
}


def fields_of(operation: Operation) -> Fields:
    """Return an operation's values by field name: ``{"target": "/proc", "mode": 493}``."""
    names = (field[0] for field in OPERATIONS[operation.code - 1][2])
    return dict(zip(names, operation.values, strict=True))


def arguments(operation: Operation) -> str:
    """Return an operation's arguments as text, for its line in ``explain``."""
    name = OPERATIONS[operation.code - 1][0]
    fields = fields_of(operation)
    write = WRITERS.get(name)
    return write(fields) if write else ""


def describe(operation: Operation) -> str:
    """Describe an operation in a phrase for an error message: ``mount proc on "/proc"``."""
    name = OPERATIONS[operation.code - 1][0]
    verb = VERBS.get(name) or name.replace("_", " ")
    fields = fields_of(operation)
    short = SHORT.get(name)
    return f"{verb} {short(fields)}".rstrip() if short else verb


def operation_lines(operations: Sequence[Operation], first: int = 1) -> list[str]:
    """Return a line of text for each operation.

    A line contains the operation's number, name and arguments, and the JSON path of the setting
    that requires the operation.  ``first`` is the number of the first operation.
    """
    lines = []
    for number, operation in enumerate(operations, first):
        name = OPERATIONS[operation.code - 1][0]
        line = f"{number:3}  {name:<16}{arguments(operation)}".rstrip()
        lines.append(f"{line:<78}  # {operation.where}" if operation.where else line)
    return lines


def explain(plan: Plan) -> str:
    """Return the plan as text, one line for each operation."""
    namespaces = " ".join(namespace_names(plan.clone_flags))
    first = f"in new namespaces: {namespaces}" if namespaces else "on the host"
    if plan.preserve_fds:
        first += f", keeping descriptors 3 to {2 + plan.preserve_fds}"
    lines = [f"  0  {'spawn':<16}{first}", *operation_lines(plan.operations)]
    lines += [f"warning: {text}" for text in plan.warnings]
    return "".join([f"{plain(line)}\n" for line in lines])


def plan_document(plan: Plan) -> dict[str, object]:
    """Return the plan as a JSON object, with flags as numbers and bytes in hexadecimal."""
    entries = []
    for operation in plan.operations:
        entry: dict[str, object] = {"operation": OPERATIONS[operation.code - 1][0]}
        for name, value in fields_of(operation).items():
            entry[name] = value.hex() if isinstance(value, bytes) else value
        if operation.where:
            entry["where"] = operation.where
        entries.append(entry)
    return {
        "namespaces": namespace_names(plan.clone_flags),
        "preserveFds": plan.preserve_fds,
        "operations": entries,
        "warnings": list(plan.warnings),
    }


def _flags(names: list[str]) -> str:
    return f" ({','.join(names)})" if names else ""


def _mount(f: Fields) -> str:
    names = attribute_names(f["attributes"])
    names += [name for name in f["options"] if name not in names]
    names += _mount_flag_names(f)
    if f["label"]:
        names.append(f"label {f['label']}")
    return f"{f['fstype']} on {f['target']}{_flags(names)}"


def _map(lines: str) -> str:
    """Format the lines of an id map: ``0 1000 1`` becomes ``0=1000+1``.

    The numbers are the first id on disk, the first id shown in the mount, and the number of ids.
    """
    return ",".join("{}={}+{}".format(*line.split()) for line in lines.splitlines())


def _id_map_names(f: Fields) -> list[str]:
    if f["id_map"] == NO_SLOT:
        return []
    name = "ridmap" if f.get("id_map_recursive") else "idmap"
    return [f"{name} {f['id_map']}"]


def _mount_flag_names(f: Fields) -> list[str]:
    """Describe a mount's propagation, the treatment of its mount point, and its id map in words."""
    names = [propagation_name(f["propagation"])] if f["propagation"] else []
    if f["flags"] & MOUNT_REAL_DIRECTORY:
        names.append("real directory")
    if f["flags"] & MOUNT_INHERIT_MODE:
        names.append("mode of the directory")
    if f["flags"] & MOUNT_COPY_UP:
        names.append("content of the directory")
    if f["flags"] & MOUNT_OR_BIND:
        names.append("or the host's")
    if f["flags"] & MOUNT_PRESENT:
        names.append("recorded by the runtime")
    return names + _id_map_names(f)


def _bind(f: Fields) -> str:
    names = ["recursive"] if f["recursive"] else []
    names += attribute_names(f["set_attributes"], f["clear_attributes"])
    names += ["r" + name for name in attribute_names(f["set_recursive"], f["clear_recursive"])]
    names += _mount_flag_names(f)
    source = f["source"] if f["slot"] == NO_SLOT else f"tree {f['slot']} ({f['source']})"
    return f"{source} on {f['target']}{_flags(names)}"


def _set_attributes(f: Fields) -> str:
    names = attribute_names(f["set_attributes"], f["clear_attributes"])
    if f["recursive"]:
        names = ["r" + name for name in names]
    if f["propagation"]:
        names.append(propagation_name(f["propagation"]))
    return f"{f['target']}{_flags(names)}"


def _reconfigure(f: Fields) -> str:
    return f"{f['target']}{_flags(f['options'])}"


def _device(f: Fields) -> str:
    kind = {S_IFCHR: "c", S_IFBLK: "b"}.get(f["mode"] & S_IFMT, "p")
    numbers = "" if kind == "p" else f" {f['major']}:{f['minor']}"
    owner = f" {f['uid']}:{f['gid']}" if f["uid"] or f["gid"] else ""
    return f"{f['target']} {kind}{numbers} {f['mode'] & 0o7777:04o}{owner}"


def _symlink(f: Fields) -> str:
    names = [f"if {f['requires']}"] if f["requires"] else []
    if f["replace"]:
        names.append("replaced")
    return f"{f['target']} -> {f['text']}{_flags(names)}"


def _limit(value: int) -> str:
    return "unlimited" if value == RLIM_INFINITY else str(value)


def _capabilities(f: Fields) -> str:
    kinds = ("effective", "permitted", "inheritable", "ambient")
    return "; ".join(f"{kind} {_set(f[kind])}" for kind in kinds)


def _set(mask: int) -> str:
    names = capability_names(mask)
    return ",".join(names) if names else "none"


def _user(f: Fields) -> str:
    groups = " ".join(map(str, f["groups"])) or "none"
    note = groups if f["set_groups"] else "unchanged"
    return f"{f['uid']}:{f['gid']}, supplementary groups {note}"


def _hook(f: Fields) -> str:
    timeout = f" (timeout {f['timeout']} s)" if f["timeout"] else ""
    return f"{f['source']} {f['args'][1:] or ''}".rstrip() + timeout


def _scheduler(f: Fields) -> str:
    names = [scheduler_name(f["policy"])]
    nice = f["nice"] - (f["nice"] >> 31 << 32)  # the field has the 32-bit two's complement
    values = (("nice", nice), *((k, f[k]) for k in ("priority", "runtime", "deadline", "period")))
    names += [f"{name} {value}" for name, value in values if value]
    return ", ".join(names)


def _write_proc(f: Fields) -> str:
    return f"/proc/{f['path']} {f['data']!r}"


def _mask(f: Fields) -> str:
    names = [f"context={f['context']}"] if f["context"] else []
    return f"{f['target']}{_flags(names)}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _mount_place(f: Fields) -> str:
    return f"{f['fstype']} on {_quoted(f['target'])}"


def _bind_place(f: Fields) -> str:
    return f"{_quoted(f['source'])} on {_quoted(f['target'])}"


def _target(f: Fields) -> str:
    return str(f["target"])


def _namespaces(f: Fields) -> str:
    return " ".join(namespace_names(f["flags"]))


def _join(f: Fields) -> str:
    return " ".join(namespace_names(f["kind"]))


def _rlimit(f: Fields) -> str:
    return f"{rlimit_name(f['resource'])} {_limit(f['soft'])} of {_limit(f['hard'])}"


def _cpus(f: Fields) -> str:
    if not f["cpus"]:
        return "all of its cpuset"
    mask = int.from_bytes(f["cpus"], "little")
    return ",".join(str(cpu) for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def _console(f: Fields) -> str:
    names = [f"owner {f['uid']}, {f['rows']} rows, {f['columns']} columns"]
    names += ["at /dev/console"] if f["flags"] & CONSOLE_BIND else []
    names += ["controlling"] if f["flags"] & CONSOLE_CONTROL else []
    return ", ".join(names)


# Operation -> formatter of its arguments in a line of the explained plan.
WRITERS: dict[str, Callable[[Fields], str]] = {
    "affinity": _cpus,
    "bind": _bind,
    "bounding": lambda f: f"keep {_set(f['keep'])}",
    "capabilities": _capabilities,
    "chdir": lambda f: f["path"] + (" (tried)" if f["optional"] else ""),
    "clone_init": _namespaces,
    "clone_process": lambda f: "with its terminal" if f["terminal"] else "",
    "console": _console,
    "device": _device,
    "domainname": lambda f: f["name"],
    "drop_extra": lambda f: f"effective {_set(f['effective'])}",
    "exec": lambda f: f"{f['args']!r}, environment {f['env']!r}",
    "find_executable": lambda f: f["file"] + ("" if "/" in f["file"] else f" in {f['path']}"),
    "home": lambda f: f"of user {f['uid']}",
    "hook": _hook,
    "id_map": lambda f: f"uids {_map(f['uid_map'])}; gids {_map(f['gid_map'])} in slot {f['slot']}",
    "hostname": lambda f: f["name"],
    "io_priority": lambda f: f"class {f['value'] >> 13}, level {f['value'] & 7}",
    "join_namespace": lambda f: f"{_join(f)} from slot {f['slot']}",
    "join_process": lambda f: (
        _namespaces(f) + (f" with the root of process {f['root_of']}" if f["root_of"] else "")
    ),
    "mask": _mask,
    "memory_policy": lambda f: (
        f"mode {f['mode']:#x}, nodes {int.from_bytes(f['nodes'], 'little'):#x}"
    ),
    "mkdir": lambda f: f"{f['target']} {f['mode']:04o}",
    "mount": _mount,
    "move_root": lambda f: f"without {' '.join(f['uncovered'])}" if f["uncovered"] else "",
    "null_streams": lambda f: (
        f"with that of process {f['root_of']}" if f["root_of"] else "with the container's"
    ),
    "open_namespace": lambda f: f"{f['source']} in slot {f['slot']}",
    "open_tree": lambda f: (
        f"{f['source']} in slot {f['slot']}"
        + _flags((["recursive"] if f["recursive"] else []) + _id_map_names(f))
    ),
    "personality": lambda f: f"{f['domain']:#x}",
    "propagation": lambda f: f"/ {propagation_name(f['flags'])}",
    "readonly": _target,
    "reconfigure": _reconfigure,
    "recorded_root": lambda f: f["source"],
    "restrict": lambda f: f"{f['target']}{_flags(attribute_names(f['set_attributes']))}",
    "rlimit": _rlimit,
    "root": lambda f: f["source"],
    "scheduler": _scheduler,
    "seccomp": lambda f: f"{len(f['filter']) // 8} instructions, flags {f['flags']:#x}",
    "set_attributes": _set_attributes,
    "shared_root": lambda f: f["source"],
    "stdio_owner": lambda f: f"user {f['uid']}",
    "symlink": _symlink,
    "sync": lambda f: STAGES.get(f["stage"], str(f["stage"])),
    "unmount": lambda f: f["target"] + (" (links are followed)" if f["follow"] else ""),
    "umask": lambda f: f"{f['mask']:04o}",
    "unshare": _namespaces,
    "user": _user,
    "write_proc": _write_proc,
}

# Operation -> formatter of the arguments that identify it in an error message.
SHORT: dict[str, Callable[[Fields], str]] = {
    "affinity": _cpus,
    "bind": _bind_place,
    "chdir": lambda f: _quoted(f["path"]),
    "device": lambda f: _quoted(f["target"]),
    "domainname": lambda f: _quoted(f["name"]),
    "exec": lambda f: _quoted(f["args"][0]),
    "find_executable": lambda f: _quoted(f["file"]),
    "hook": lambda f: _quoted(f["source"]),
    "hostname": lambda f: _quoted(f["name"]),
    "join_namespace": _join,
    "join_process": _namespaces,
    "mask": lambda f: _quoted(f["target"]),
    "mkdir": lambda f: _quoted(f["target"]),
    "mount": _mount_place,
    "open_namespace": lambda f: _quoted(f["source"]),
    "open_tree": lambda f: _quoted(f["source"]),
    "readonly": lambda f: _quoted(f["target"]),
    "reconfigure": lambda f: _quoted(f["target"]),
    "recorded_root": lambda f: _quoted(f["source"]),
    "restrict": lambda f: _quoted(f["target"]),
    "rlimit": lambda f: (
        f"{rlimit_name(f['resource'])} to {_limit(f['soft'])} (hard: {_limit(f['hard'])})"
    ),
    "root": lambda f: _quoted(f["source"]),
    "set_attributes": lambda f: _quoted(f["target"]),
    "shared_root": lambda f: _quoted(f["source"]),
    "stdio_owner": lambda f: f"user {f['uid']}",
    "symlink": lambda f: _quoted(f["target"]),
    "unmount": lambda f: _quoted(f["target"]),
    "unshare": _namespaces,
    "user": lambda f: f"{f['uid']}:{f['gid']}",
    "write_proc": lambda f: _quoted(f"/proc/{f['path']}"),
}


# (bit, name when set, name when cleared)
ATTRIBUTE_NAMES: tuple[tuple[int, str, str], ...] = (
    (MOUNT_ATTR_RDONLY, "ro", "rw"),
    (MOUNT_ATTR_NOSUID, "nosuid", "suid"),
    (MOUNT_ATTR_NODEV, "nodev", "dev"),
    (MOUNT_ATTR_NOEXEC, "noexec", "exec"),
    (MOUNT_ATTR_NODIRATIME, "nodiratime", "diratime"),
    (MOUNT_ATTR_NOSYMFOLLOW, "nosymfollow", "symfollow"),
)


def attribute_names(on: int, off: int = 0) -> list[str]:
    """Return the mount options for MOUNT_ATTR_* masks to set (``on``) and to clear (``off``).

    For example, MOUNT_ATTR_RDONLY set and MOUNT_ATTR_NOSUID cleared are ``["ro", "suid"]``.
    """
    names = [name for bit, name, _ in ATTRIBUTE_NAMES if on & bit]
    names += [name for bit, _, name in ATTRIBUTE_NAMES if off & bit & ~on]
    if on & MOUNT_ATTR__ATIME == MOUNT_ATTR_NOATIME:
        names.append("noatime")
    elif on & MOUNT_ATTR__ATIME == MOUNT_ATTR_STRICTATIME:
        names.append("strictatime")
    elif off & MOUNT_ATTR__ATIME:
        names.append("relatime")
    return names


def namespace_names(flags: int) -> list[str]:
    """Return the namespaces in a CLONE_NEW* mask, named as in /proc/PID/ns: ``["mnt", "pid"]``."""
    return [NAMESPACE_FILES[kind] for kind, flag in NAMESPACES.items() if flags & flag]


def propagation_name(flags: int) -> str:
    """Return the mount option for MS_* propagation flags: ``rslave`` for MS_SLAVE | MS_REC."""
    return next((name for name, value in PROPAGATION.items() if value == flags), "")


def capability_names(mask: int) -> list[str]:
    """Return the names of the capabilities in a mask: ``["chown", "kill"]``."""
    return [name[4:].lower() for number, name in enumerate(CAPABILITIES) if mask >> number & 1]


def rlimit_name(resource: int) -> str:
    """Return the name of an RLIMIT_* number: ``nofile`` for 7."""
    return next((name[7:].lower() for name, n in RLIMITS.items() if n == resource), str(resource))


def scheduler_name(policy: int) -> str:
    """Return the name of a scheduling policy: ``SCHED_FIFO`` for 1."""
    return next((name for name, number in SCHEDULERS.items() if number == policy), str(policy))
