"""Plan ``mounts`` of config.json, in the order of the list."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import (
    CLONE_NEWNET,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MOUNT_ATTR_RDONLY,
    MS_REC,
    MS_SLAVE,
)
from ociruntime.base.paths import clean, is_below
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.cgroup_mounts import compile_cgroup_mount
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.mount_options import (
    MountOptions,
    check_data,
    parse_mount_options,
    suggestion,
    without_quotes,
)
from ociruntime.runtime.plan.operation_table import (
    MOUNT_COPY_UP,
    MOUNT_INHERIT_MODE,
    MOUNT_OR_BIND,
    MOUNT_REAL_DIRECTORY,
    NO_SLOT,
)
from ociruntime.runtime.spec.config_types import Mount

# Files that lxcfs and similar programs replace. A mount anywhere else inside /proc could redirect a
# later write to a procfs file (CVE-2019-16884, CVE-2025-52881).
ALLOWED_IN_PROC = (
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/net/dev",
    "/proc/slabinfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys/crypto/fips_enabled",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/uptime",
)

# Filesystem types whose mount points must be real directories: a symbolic link in the image must
# not move the kernel's files to another path (CVE-2019-19921).
REAL_DIRECTORY_TYPES = ("proc", "sysfs")


# Filesystem type -> CLONE_NEW* flag of the namespace whose objects it shows.
SHOWN: dict[str, int] = {"proc": CLONE_NEWPID, "sysfs": CLONE_NEWNET}


def is_bind(mount: Mount) -> bool | None:
    """Return True for a recursive bind mount, False for another bind mount, None for anything else.

    The options ``bind`` and ``rbind`` decide, whatever the mount's type; the last one wins.  A
    remount is not a bind mount.
    """
    recursive: bool | None = None
    remount = False
    for word in mount.get("options") or ():
        if word == "bind":
            recursive = False
        elif word == "rbind":
            recursive = True
        elif word == "remount":
            remount = True
    return None if remount else recursive


def is_id_mapped(mount: Mount) -> bool:
    """Return whether the mount has id mappings, or the option ``idmap`` or ``ridmap``."""
    options = mount.get("options") or ()
    return bool(mount.get("uidMappings")) or "idmap" in options or "ridmap" in options


def maps_recursively(mount: Mount) -> bool:
    """Return whether the mount's id mapping also applies to its submounts."""
    return "ridmap" in (mount.get("options") or ())


def bind_source(job: Compilation, mount: Mount) -> str:
    """Return the absolute path of the source of a bind mount."""
    return bind_path(job.request.bundle, mount["source"])


def bind_path(bundle: str, source: str) -> str:
    """Return the absolute path of a bind mount's source; a relative source starts in the bundle."""
    return source if source.startswith("/") else f"{bundle}/{source}"


def compile_mounts(job: Compilation) -> None:
    """Append operations for ``mounts``.

    If the runtime still has to create files in a read-only mount, the mount is writable at first
    and is added to ``job.read_only_later``.  Raises ConfigError for a mount that is not supported.
    """
    if job.linux.get("mountLabel") and not job.facts.selinux:
        raise ConfigError("linux.mountLabel", "SELinux is not enabled on this host")
    mounts: list[Mount] = job.config.get("mounts") or []
    for index, mount in enumerate(mounts):
        where = f"mounts[{index}]"
        target = clean(mount["destination"])
        options = parse_mount_options(mount.get("options") or (), where)
        fstype: str = mount.get("type") or ""
        _check_target(mount, target, options, where)
        _check_copy_up(mount, fstype, options, where)
        if options.remount:
            _remount(job, mount.get("type") or "", target, options, where)
            continue
        if options.bind:
            _bind(job, index, mount, target, options)
        elif fstype in {"cgroup", "cgroup2"}:
            compile_cgroup_mount(job, fstype, target, options, where)
            continue
        else:
            # A new filesystem has no submounts: treat recursive options as ordinary options.
            options.set = (options.set & ~options.clear_recursive) | options.set_recursive
            if options.set & MOUNT_ATTR_RDONLY and (
                options.copy_up
                or _written_later(mounts, index, fstype, target)
                or job.labels_of(fstype, ())[1]
            ):
                options.set &= ~MOUNT_ATTR_RDONLY
                job.read_only_later.append((target, index))
            if options.copy_up:
                # Copied data is charged to the writer's cgroup: enter the container's cgroup first.
                job.require_cgroup()
            source = mount.get("source") or fstype
            id_map = job.id_maps.get(index, NO_SLOT)
            _mount(job, fstype, source, target, options, id_map, where)
        _more_propagation(job, target, options, where)


def compile_read_only_mounts(job: Compilation) -> None:
    """Append operations that make the mounts in ``job.read_only_later`` read-only."""
    for target, index in job.read_only_later:
        job.make_read_only(target, f"mounts[{index}]")


def _written_later(mounts: list[Mount], index: int, fstype: str, target: str) -> bool:
    """Return whether the runtime may still have to create files in this mount.

    True for /dev.  Also true for a tmpfs if other mounts follow: their mount points may be inside
    the tmpfs, perhaps through symbolic links in the image.  False for a tmpfs that a later mount at
    the same destination covers.
    """
    if target == "/dev":
        return True
    later = [clean(mount["destination"]) for mount in mounts[index + 1 :]]
    return fstype == "tmpfs" and bool(later) and target not in later


def _check_target(mount: Mount, target: str, options: MountOptions, where: str) -> None:
    """Raise ConfigError for a mount on / and for a forbidden mount on or inside /proc."""
    if target == "/":
        raise ConfigError(
            f"{where}.destination",
            "a mount on the container's root is not supported",
            "set root.path to choose the root filesystem",
        )
    if target == "/proc":
        fstype = mount.get("type") or ""
        from_proc = clean(mount.get("source") or "") == "/proc" and options.bind
        if not (options.remount or from_proc or (fstype == "proc" and not options.bind)):
            raise ConfigError(
                where,
                '"/proc" must be a new proc filesystem or a bind mount of the host\'s "/proc"',
            )
    elif is_below(target, "/proc") and target not in ALLOWED_IN_PROC:
        raise ConfigError(
            f"{where}.destination",
            f'"{target}" is inside /proc, where mounts are not allowed',
            "exceptions: " + ", ".join(path[6:] for path in ALLOWED_IN_PROC),
        )


def _check_copy_up(mount: Mount, fstype: str, options: MountOptions, where: str) -> None:
    """Raise ConfigError for ``tmpcopyup`` on a mount that is not a new tmpfs."""
    if options.copy_up and (fstype != "tmpfs" or options.bind or options.remount):
        index = list(mount["options"]).index("tmpcopyup")
        raise ConfigError(
            f"{where}.options[{index}]", '"tmpcopyup" is only supported on a new tmpfs'
        )


def _mount(
    job: Compilation,
    fstype: str,
    source: str,
    target: str,
    options: MountOptions,
    id_map: int,
    where: str,
) -> None:
    """Append the operation that mounts a new filesystem."""
    check_data(fstype, options.data, where)
    data = [without_quotes(text) for _, text in options.data]
    flags = 0
    if fstype in REAL_DIRECTORY_TYPES:
        flags |= MOUNT_REAL_DIRECTORY
    elif fstype == "tmpfs":
        if not any(text.startswith("mode=") for text in data):
            flags |= MOUNT_INHERIT_MODE
        if options.copy_up:
            flags |= MOUNT_COPY_UP
    elif fstype == "devpts":
        data = _without_unmapped_group(job, data, where)
    context, label = job.labels_of(fstype, data)
    superblock = options.superblock
    if options.set & MOUNT_ATTR_RDONLY and fstype != "tmpfs":
        superblock = ["ro", *superblock]
    job.add(
        operations.mount(
            fstype=fstype,
            source=source,
            target=target,
            options=superblock + data + context,
            attributes=options.set,
            propagation=options.propagation[0] if options.propagation else 0,
            flags=flags | _fallback(job, fstype) | job.mount_flags,
            id_map=id_map,
            label=label,
            where=where,
        ),
    )


def _fallback(job: Compilation, fstype: str) -> int:
    """Return MOUNT_OR_BIND if the user namespace may be unable to mount ``fstype``, else 0.

    To mount proc, a user namespace must own the pid namespace; to mount sysfs, it must own the
    network namespace.  A container that shares the host's pid or network namespace can use a bind
    mount of the host's proc or sysfs instead, because the content is the same.
    """
    kind = SHOWN.get(fstype, 0)
    in_user_namespace = job.facts.user_namespace or (job.new | job.joined) & CLONE_NEWUSER
    return MOUNT_OR_BIND if in_user_namespace and kind & ~(job.new | job.joined) else 0


def _without_unmapped_group(job: Compilation, data: list[str], where: str) -> list[str]:
    """Return the devpts options ``data`` without a ``gid=`` that the user namespace does not map.

    Adds a warning for each option that it leaves out.  The gid is usually the group tty.
    """
    if not job.new & CLONE_NEWUSER:
        return data
    result = []
    for text in data:
        key, _, value = text.partition("=")
        if key == "gid" and value.isdigit() and not _is_mapped(job, int(value)):
            job.warn(f"{where}: gid={value} left out: not mapped in the user namespace")
        else:
            result.append(text)
    return result


def _is_mapped(job: Compilation, gid: int) -> bool:
    return any(
        entry["containerID"] <= gid < entry["containerID"] + entry["size"]
        for entry in job.linux.get("gidMappings") or ()
    )


def _bind(job: Compilation, index: int, mount: Mount, target: str, options: MountOptions) -> None:
    """Append the operations for a bind mount."""
    where = f"mounts[{index}]"
    _ignore_data(job, options, where)
    if target == "/sys" and options.recursive and options.set & MOUNT_ATTR_RDONLY:
        # /sys/fs/cgroup contains cgroups that an ordinary user may write to (CVE-2023-25809).
        options.set_recursive |= MOUNT_ATTR_RDONLY
    slot = job.trees.get(index, NO_SLOT)
    if slot != NO_SLOT:
        # The tree was copied from the host's mount namespace: shared mounts propagate there.
        options.propagation.insert(0, MS_SLAVE | MS_REC)
    job.add(
        operations.bind(
            slot=slot,
            source=bind_source(job, mount),
            target=target,
            recursive=int(options.recursive),
            set_attributes=options.set,
            clear_attributes=options.clear,
            set_recursive=options.set_recursive,
            clear_recursive=options.clear_recursive,
            propagation=options.propagation[0] if options.propagation else 0,
            flags=job.mount_flags | (MOUNT_REAL_DIRECTORY if target == "/proc" else 0),
            id_map=job.id_maps.get(index, NO_SLOT) if slot == NO_SLOT else NO_SLOT,
            id_map_recursive=int(maps_recursively(mount)) if slot == NO_SLOT else 0,
            where=where,
        ),
    )


def _ignore_data(job: Compilation, options: MountOptions, where: str) -> None:
    """Add a warning for each filesystem option of a bind mount, because the kernel ignores them.

    Raises ConfigError for an option that looks misspelled: if a misspelled ``ro`` were ignored, the
    mount would be writable.
    """
    for option, text in options.data:
        hint = suggestion(text)
        if hint:
            message = f'unknown option "{text}" for a bind mount'
            raise ConfigError(f"{where}.options[{option}]", message, hint)
        job.warn(f'{where}.options[{option}]: "{text}" is ignored: not an option of bind mounts')


def _remount(job: Compilation, fstype: str, target: str, options: MountOptions, where: str) -> None:
    """Append operations that remount a mount with other options.

    With the option ``bind``, they change only the attributes of the mount.  Without it, they also
    change options of the filesystem.
    """
    if options.bind:
        _ignore_data(job, options, where)
    else:
        check_data(fstype, options.data, where)
        changes = options.superblock + [without_quotes(text) for _, text in options.data]
        if changes:
            job.add(operations.reconfigure(target=target, options=changes, where=where))
    job.add(
        operations.set_attributes(
            target=target,
            set_attributes=options.set,
            clear_attributes=options.clear,
            recursive=0,
            propagation=options.propagation[0] if options.propagation else 0,
            where=where,
        ),
    )
    if options.set_recursive | options.clear_recursive:
        job.add(
            operations.set_attributes(
                target=target,
                set_attributes=options.set_recursive,
                clear_attributes=options.clear_recursive,
                recursive=1,
                propagation=0,
                where=where,
            ),
        )
    _more_propagation(job, target, options, where)


def _more_propagation(job: Compilation, target: str, options: MountOptions, where: str) -> None:
    """Append operations for the propagation options after the first one.

    ``slave`` followed by ``shared`` makes the mount both.
    """
    for propagation in options.propagation[1:]:
        job.add(
            operations.set_attributes(
                target=target,
                set_attributes=0,
                clear_attributes=0,
                recursive=0,
                propagation=propagation,
                where=where,
            ),
        )
