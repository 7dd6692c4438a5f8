"""Probes of the host besides the kernel: cgroups, users, privileges and the installation."""

# ruff: noqa: ARG001  # the rows of a table take the same arguments

from __future__ import annotations

import os

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import RuntimeFailure
from ociruntime.runtime.cgroups.hierarchies import Layout, detect
from ociruntime.runtime.check.finding import LIMITED, MISSING, OK, Answer, Host, Probe
from ociruntime.runtime.executor.spawn import PROGRAM
from ociruntime.runtime.host.idmap import GID, PACKAGES, UID, find_helper, granted_ranges, user_name
from ociruntime.runtime.host.namespaces import NONE_ALLOWED, SWITCHES
from ociruntime.runtime.lifecycle.features import libseccomp_version

CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")

# Capability that the runtime uses -> the consequence if it is missing.
USED: dict[str, str] = {
    "CAP_SYS_ADMIN": "mounts and new namespaces are refused without a user namespace",
    "CAP_SYS_CHROOT": "chroot is refused",
    "CAP_SETUID": "process.user cannot be another user",
    "CAP_SETGID": "process.user cannot have additional groups",
    "CAP_SETPCAP": "capabilities cannot be dropped from the bounding set",
    "CAP_DAC_OVERRIDE": "files of other users in the root filesystem cannot be replaced",
    "CAP_CHOWN": "terminals and devices cannot be given to process.user",
    "CAP_MKNOD": "linux.devices cannot be created",
    "CAP_NET_ADMIN": "linux.netDevices cannot be moved, and loopback cannot be brought up",
    "CAP_KILL": "processes of other users cannot be killed",
    "CAP_SYS_PTRACE": "namespaces of other users' processes cannot be joined",
    "CAP_SYS_RESOURCE": "process.rlimits above the caller's hard limits and a lower oomScoreAdj"
    " are refused",
    "CAP_SYS_NICE": "real-time schedulers and priorities (process.scheduler) are refused",
}


def _mode(host: Host) -> Answer:
    layout = detect()
    if not layout.hierarchies:
        return Answer(
            LIMITED, "not mounted", "containers have no limits, and processes are killed one by one"
        )
    return Answer(
        OK, {"v1": "v1", "v2": "v2", "hybrid": "v1 hierarchies and a v2 hierarchy"}[layout.mode]
    )


def _controllers(host: Host) -> Answer:
    available = offered(detect())
    missing = [name for name in CONTROLLERS if name not in available]
    if missing:
        return Answer(LIMITED, "missing: " + ", ".join(missing))
    return Answer(OK, ", ".join(sorted(available)))


def offered(layout: Layout) -> set[str]:
    """Return the available cgroup controllers, by their cgroup v2 names (``io``)."""
    names = {name for each in layout.hierarchies for name in each.controllers}
    return {{"blkio": "io"}.get(name, name) for name in names}


def _delegation(host: Host) -> Answer:
    layout = detect()
    usable = [each for each in layout.hierarchies if host.writable(each.mountpoint)]
    if layout.hierarchies and len(usable) == len(layout.hierarchies):
        return Answer(OK, "this user may use all hierarchies")
    own = _own_group(host, layout)
    if own and host.writable(f"{own}/cgroup.procs"):
        names = ", ".join(host.read(f"{own}/cgroup.controllers").split())
        return Answer(OK, f"{own}: {names or 'no controllers'}")
    if usable:
        return Answer(
            LIMITED, f"this user may use {len(usable)} of {len(layout.hierarchies)} hierarchies"
        )
    return Answer(LIMITED, "no cgroup is delegated to this user")


def _own_group(host: Host, layout: Layout) -> str:
    """Return the v2 cgroup below which an unprivileged user's containers are created.

    Returns "" if the host has v1 hierarchies.
    """
    if layout.mode != "v2":
        return ""
    path = host.read("/proc/self/cgroup").strip().rpartition(":")[2]
    return f"{layout.hierarchies[0].mountpoint}{path.rpartition('/')[0]}"


def _systemd(host: Host) -> Answer:
    if not host.exists("/run/systemd/system"):
        return Answer(LIMITED, "not running")
    try:
        from ociruntime.runtime.cgroups.systemd_bus import SystemdManager

        manager = SystemdManager(host.rootless)
    except (ImportError, RuntimeFailure) as error:
        return Answer(LIMITED, str(error))
    manager.close()
    return Answer(OK, f"version {manager.version}, {'user' if host.rootless else 'system'} manager")


def _user_namespaces(host: Host) -> Answer:
    if host.read("/proc/sys/user/max_user_namespaces").strip() == "0":
        return Answer(MISSING if host.rootless else LIMITED, "not allowed", remedy=NONE_ALLOWED)
    for name, refusing, advice in SWITCHES:
        if host.read(f"/proc/sys/{name}").strip() == refusing:
            setting = f"{name.replace('/', '.')} is {refusing}"
            if host.rootless:
                return Answer(MISSING, setting, remedy=advice)
            return Answer(LIMITED, setting, "unprivileged users cannot run containers", advice)
    return Answer(OK, "allowed for all users")


def _ranges(host: Host) -> Answer:
    name = user_name(host.uid)
    counts = []
    for kind in (UID, GID):
        granted = granted_ranges(host.read(kind.ranges), name, host.uid)
        counts.append(sum(size for _, size in granted))
    if all(counts):
        return Answer(OK, f"{counts[0]} uids, {counts[1]} gids for {name or host.uid}")
    if not host.rootless:
        return Answer(OK, "not needed by root")
    start, user = 100000, name or str(host.uid)
    lines = " and ".join(f"echo {user}:{start}:65536 >>{kind.ranges}" for kind in (UID, GID))
    return Answer(
        LIMITED, f"none for {user}", remedy=f"as root: {lines}, with a range that no other user has"
    )


def _helpers(host: Host) -> Answer:
    try:
        return Answer(OK, ", ".join(find_helper(kind) for kind in (UID, GID)))
    except RuntimeFailure as error:
        if not host.rootless:
            return Answer(OK, "not installed, not needed by root")
        return Answer(LIMITED, error.message.partition(": ")[2] or error.message)


def capabilities(host: Host) -> Answer:
    """Report which of the capabilities in ``USED`` this process lacks."""
    effective = int(host.status("CapEff") or "0", 16)
    if host.uid != 0:
        return Answer(OK, "unprivileged user: has capabilities only in user namespaces")
    missing = [name for name in USED if not effective >> CAPABILITIES.index(name) & 1]
    if not missing:
        return Answer(OK, "all capabilities that ociruntime uses")
    meaning = "; ".join(f"{USED[name]} ({name})" for name in missing)
    state = MISSING if "CAP_SYS_ADMIN" in missing else LIMITED
    return Answer(state, "missing: " + ", ".join(missing), meaning)


def _no_new_privileges(host: Host) -> Answer:
    if host.status("NoNewPrivs") == "1":
        return Answer(LIMITED, "no_new_privs is set")
    return Answer(OK, "not set")


def _outer_filter(host: Host) -> Answer:
    if host.status("Seccomp") == "2":
        return Answer(
            LIMITED,
            f"{host.status('Seccomp_filters') or 'some'} in force for this process",
        )
    return Answer(OK, "none in force for this process")


def _apparmor(host: Host) -> Answer:
    if not host.read("/sys/module/apparmor/parameters/enabled").startswith("Y"):
        return Answer(OK, "not enabled")
    label = host.read("/proc/self/attr/apparmor/current").strip() or "unknown"
    profiles = host.read("/sys/kernel/security/apparmor/profiles").count("\n")
    status = f"enabled, {profiles} profiles, this process {label}"
    if label == "unconfined" or label.endswith("(unconfined)"):
        return Answer(OK, status)
    return Answer(LIMITED, status, "the profile of ociruntime may deny mounts and namespaces")


def _selinux(host: Host) -> Answer:
    enforce = host.read("/sys/fs/selinux/enforce").strip()
    if not enforce:
        return Answer(OK, "not enabled")
    mode = "enforcing" if enforce == "1" else "permissive"
    return Answer(OK, f"{mode}, this process {host.read('/proc/self/attr/current').strip(chr(0))}")


def _state_root(host: Host) -> Answer:
    path = host.state_root
    while not host.exists(path):
        path = os.path.dirname(path)
    if host.writable(path):
        return Answer(OK, host.state_root)
    return Answer(MISSING, f'"{path}" is not writable')


def _executor(host: Host) -> Answer:
    return (
        Answer(OK, PROGRAM)
        if host.exists(PROGRAM)
        else Answer(MISSING, f'"{PROGRAM}" does not exist')
    )


def _extension_module(host: Host) -> Answer:
    try:
        from ociruntime import _system_calls
    except ImportError as error:
        return Answer(MISSING, str(error))
    return Answer(OK, str(_system_calls.__file__))


def _libseccomp(host: Host) -> Answer:
    version = libseccomp_version()
    return Answer(OK, version) if version else Answer(LIMITED, "ociruntime was built without it")


def _criu(host: Host) -> Answer:
    path = host.program("criu")
    return Answer(OK, path) if path else Answer(LIMITED, "not installed")


REINSTALL = "reinstall the package: pip install --force-reinstall ociruntime"

CGROUPS: tuple[Probe, ...] = (
    Probe(
        "hierarchies",
        _mode,
        "linux.resources are refused",
        "mount -t cgroup2 none /sys/fs/cgroup",
    ),
    Probe(
        "controllers",
        _controllers,
        "limits of these controllers are refused",
        "kernel command line: add cgroup_enable=memory, or remove cgroup_disable",
    ),
    Probe(
        "delegation",
        _delegation,
        "containers stay in the caller's cgroup, and linux.resources are refused",
        "systemd-run --user --scope -p Delegate=yes COMMAND",
    ),
    Probe(
        "systemd",
        _systemd,
        "--systemd-cgroup fails",
        "omit --systemd-cgroup: ociruntime then creates cgroups itself",
    ),
)

USERS: tuple[Probe, ...] = (
    Probe(
        "user namespaces",
        _user_namespaces,
        "containers with a user namespace fail",
        "",
        essential=True,
    ),
    Probe(
        "subordinate ids",
        _ranges,
        "a container has only one user: only the caller's own id can be mapped",
        "",
    ),
    Probe(
        "newuidmap, newgidmap",
        _helpers,
        "a container has only one user: only the caller's own id can be mapped",
        f"install {PACKAGES}",
    ),
)

PRIVILEGES: tuple[Probe, ...] = (
    Probe(
        "capabilities",
        capabilities,
        "",
        "start ociruntime with these capabilities; "
        "inside a container, pass --cap-add to the engine",
        essential=True,
    ),
    Probe(
        "no_new_privs",
        _no_new_privileges,
        "newuidmap, newgidmap and AppArmor profiles have no effect",
        "start ociruntime without it: in a systemd unit NoNewPrivileges=no",
    ),
    Probe(
        "outer filter",
        _outer_filter,
        "system calls that the filter denies fail; SCMP_ACT_NOTIFY may be in use already",
        "start the outer container with --security-opt seccomp=unconfined",
    ),
    Probe(
        "AppArmor",
        _apparmor,
        "",
        "start ociruntime unconfined, or give it a profile that allows mount and userns",
    ),
    Probe("SELinux", _selinux, "", ""),
)

INSTALLATION: tuple[Probe, ...] = (
    Probe(
        "state directory",
        _state_root,
        "no container can be created",
        "set XDG_RUNTIME_DIR or pass --root DIR",
        essential=True,
    ),
    Probe("executor", _executor, "no container can be started", REINSTALL, essential=True),
    Probe(
        "extension module",
        _extension_module,
        "no container can be started",
        REINSTALL,
        essential=True,
    ),
    Probe(
        "libseccomp",
        _libseccomp,
        "containers with linux.seccomp are refused",
        "install libseccomp and its headers, then reinstall the package",
    ),
    Probe("criu", _criu, "containers cannot be checkpointed", "install criu"),
)
