"""Record and unmount the root of a container that shares the host's mount namespace.

All mounts of such a container are inside one bind mount of its root filesystem on itself.  That
mount is private, so nothing in it propagates.  One lazy unmount removes all mounts, even if the
container has renamed their directories, mounted over them, or still uses them.

``root-mount.json`` in the state directory identifies the mount.  It is written before the mount is
attached.  Once the container is complete, it also contains the ids of all mounts inside.

A mount that is made inside later may be the host's or the container's.  If the container is unable
to mount, the mount is the host's: it is copied before the root is unmounted, and attached to the
same directory afterwards.  If the container is able to mount, the mount is unmounted with the root.
Otherwise a later removal of the root filesystem would descend into what is mounted there.
"""

from __future__ import annotations

import errno
import os
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ociruntime.base.errors import HostError, RuntimeFailure, StepError
from ociruntime.base.files import read_file, replace_file
from ociruntime.base.json_text import dump, parse
from ociruntime.base.log import Log
from ociruntime.base.mountinfo import Mount as ShownMount
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.base.paths import is_below
from ociruntime.base.process import SIGKILL, await_end, open_process, send_signal, start_time
from ociruntime.runtime.host.gather_facts import gather
from ociruntime.runtime.host.mount_namespaces import MountId, mount_id
from ociruntime.runtime.host.state_directory import CREATING, DELETING, ROOT_MOUNT
from ociruntime.runtime.lifecycle.container import check_record
from ociruntime.runtime.lifecycle.mounts_add_remove import carry_out
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.live_mounts import compile_uncovering
from ociruntime.runtime.plan.plan import Operation, operation_name
from ociruntime.runtime.spec.config_types import Config

KILL_SECONDS = 10.0
ATTEMPTS = 20
_MEMBERS = (
    *(("rootfs", str), ("number", int), ("unique", int), ("boot", str), ("namespace", int)),
    *(("device", str), ("source", str), ("pid", int), ("started", int)),
    *(("inside", list | None), ("may_mount", bool)),
)


@dataclass
class RootMount:
    """The content of root-mount.json, which identifies the mount of a container's root.

    ``number`` and ``unique``: the ids of the mount.  ``boot`` and ``namespace``: the boot and the
    mount namespace in which these ids are valid.  ``device`` and ``source``: the mounted directory,
    as in mountinfo.  ``pid`` and ``started``: the process that attaches the mount.  ``inside``: the
    ids of the mounts below it, or None until the container is complete.  ``may_mount``: False if no
    process of the container can have mounted anything.
    """

    rootfs: str
    number: int
    unique: int
    boot: str
    namespace: int
    device: str
    source: str
    pid: int
    started: int
    inside: list[int] | None = None
    may_mount: bool = field(default=True)

    @property
    def id(self) -> MountId:
        """The kernel's id of the root mount."""
        return MountId(self.number, self.unique)


def record(directory: str, fd: int, rootfs: str, pid: int) -> None:
    """Record in the state directory the mount ``fd``, which process ``pid`` will attach.

    ``fd`` is a descriptor of a mount that is not attached yet.  Raises HostError.  Raises StepError
    if the mount is not a mount of ``rootfs``, or if another container's root is mounted at, above
    or below ``rootfs``.
    """
    found = mount_id(fd)
    shown = {mount.id: mount for mount in _mountinfo("self")}
    try:
        place = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f'open "{rootfs}"', error) from None
    try:
        below = shown.get(mount_id(place).number)
        same = os.path.sameopenfile(fd, place)
    finally:
        os.close(place)
    if found.number in shown or not same:
        raise StepError(f'mount "{rootfs}": the executor has sent a different mount')
    write(
        directory,
        RootMount(
            rootfs=rootfs,
            number=found.number,
            unique=found.unique,
            boot=_boot(),
            namespace=_namespace("self"),
            device=below.device if below else "",
            source=_source(below, rootfs) if below else "",
            pid=pid,
            started=start_time(pid),
        ),
    )
    _check_alone(directory, rootfs)


def _check_alone(directory: str, rootfs: str) -> None:
    """Raise StepError if another container's root is mounted at, above or below ``rootfs``.

    Unmounting one of the roots would also unmount mounts of the other container.  If two containers
    are created at the same time, each sees the root-mount.json of the other.
    """
    state_root, _, own = directory.rpartition("/")
    for name in os.listdir(state_root):
        if name == own or name.startswith(DELETING):
            continue
        try:
            other = read(f"{state_root}/{name}")
        except HostError:
            continue
        paths = rootfs, other.rootfs
        if rootfs != other.rootfs and not (is_below(*paths) or is_below(*reversed(paths))):
            continue
        if other.boot == _boot() and (other.inside is None or _is_mounted(other)):
            raise StepError(
                f'mount "{rootfs}": the root of container "{name.removeprefix(CREATING)}" is'
                f' mounted at "{other.rootfs}"',
                'create both with a mount namespace: add {"type": "mount"} to linux.namespaces',
            )


def _is_mounted(root_mount: RootMount) -> bool:
    joins = _namespace("self") != root_mount.namespace
    return not joins and _is_there(root_mount, _mountinfo("self"), joins=False)


def _source(below: ShownMount, rootfs: str) -> str:
    """Return the path of ``rootfs`` within its filesystem, as mountinfo will show it.

    ``below`` is the mount that contains ``rootfs`` now.
    """
    inside = os.path.relpath(rootfs, below.target)
    return below.root if inside == "." else f"{below.root.rstrip('/')}/{inside}"


def record_contents(directory: str, config: Config) -> None:
    """Record the mounts inside the root of a container that is now complete.

    They become ``inside`` and ``may_mount`` in root-mount.json.  Raises HostError.
    """
    root_mount = read(directory)
    process = config.get("process")
    bounding = ((process and process.get("capabilities")) or {}).get("bounding") or []
    namespaces = (config.get("linux") or {}).get("namespaces") or []
    in_user_namespace = any(each["type"] == "user" for each in namespaces)
    root_mount.inside = [mount.id for mount in _inside(root_mount.number, _mountinfo("self"))]
    root_mount.may_mount = "CAP_SYS_ADMIN" in bounding and not in_user_namespace
    write(directory, root_mount)


def write(directory: str, root_mount: RootMount) -> None:
    """Replace the root-mount.json of a state directory.  Raises HostError."""
    path = f"{directory}/{ROOT_MOUNT}"
    try:
        replace_file(path, dump(asdict(root_mount)).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f'write "{path}"', error) from None


def read(directory: str) -> RootMount:
    """Return the content of the root-mount.json of a state directory.

    Raises HostError if the file cannot be read, and ContainerError if it is damaged.
    """
    path = f"{directory}/{ROOT_MOUNT}"
    try:
        document: Any = parse(read_file(path), path)
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    check_record(document, _MEMBERS, path)
    return RootMount(**{each.name: document[each.name] for each in fields(RootMount)})


def clear(directory: str, log: Log) -> None:
    """Unmount the root recorded in a state directory, with all mounts in it.

    Does nothing if the root is no longer mounted.  Raises HostError if a mount cannot be unmounted,
    and StepError if another program has mounted something over the root.
    """
    root_mount = read(directory)
    if root_mount.boot != _boot():
        return
    if root_mount.inside is None:
        _end_creator(root_mount)
    process = _process_in(root_mount.namespace)
    if process is None:
        return  # the mount namespace has no process left, so its mounts are gone
    for _ in range(ATTEMPTS):
        # Retry: another mount may have covered the root in the meantime.
        if not _unmount_once(root_mount, *process, log):
            return
    raise StepError(
        f'unmount "{root_mount.rootfs}": other mounts keep covering it',
        "delete the container again",
    )


def _unmount_once(root_mount: RootMount, pid: int, started: int, log: Log) -> bool:
    """Unmount the recorded root; return False if it is no longer mounted."""
    shown = _mountinfo(str(pid))
    if not _is_there(root_mount, shown, joins=pid != os.getpid()):
        return False
    foreign = _foreign(root_mount, shown)
    if foreign and root_mount.may_mount:
        places = ", ".join(mount.target for mount in foreign)
        log.warning(
            f'unmount "{root_mount.rootfs}": mounts made in it later are unmounted too: {places}'
        )
        foreign = []
    _unmount(root_mount, pid, started, shown, foreign, log)
    return True


def _end_creator(root_mount: RootMount) -> None:
    """Kill the executor of a killed ``create``, which may be about to attach the mount.

    Raises HostError if the executor does not exit.
    """
    pidfd = open_process(root_mount.pid, root_mount.started)
    if pidfd < 0:
        return
    try:
        send_signal(pidfd, SIGKILL, root_mount.pid)
        if not await_end(pidfd, KILL_SECONDS):
            raise HostError(
                f"wait for process {root_mount.pid}", OSError(errno.ETIMEDOUT, "timed out")
            )
    finally:
        os.close(pidfd)


def _unmount(
    root_mount: RootMount,
    pid: int,
    started: int,
    shown: list[ShownMount],
    foreign: list[ShownMount],
    log: Log,
) -> None:
    root = next(mount for mount in shown if mount.id == root_mount.number)
    depth = sum(mount.target == root.target for mount in shown)
    prefix = len(root.target.rstrip("/"))
    places = [(mount.target, mount.target[prefix:] or "/") for mount in foreign]
    joins = pid != os.getpid()
    plan = compile_uncovering(
        root.target, depth, places, gather("", ()), _request(root_mount), joins
    )
    unmounted = False

    def recognise(operation: Operation, found: MountId, now: list[ShownMount]) -> bool:
        nonlocal unmounted
        if operation_name(operation) != "unmount" or unmounted:
            return False
        if found.is_same(root_mount.id):
            unmounted = True
            return True
        if any(mount.id == found.number for mount in _inside(root_mount.number, now)):
            return True
        raise StepError(
            f'unmount "{root.target}": another mount covers it',
            "unmount the covering mount, then delete the container again",
        )

    try:
        carry_out(plan, pid, started, recognise)
    except RuntimeFailure as error:
        if not unmounted:
            raise
        log.warning(f'keep the host\'s mounts in "{root_mount.rootfs}": {error}')
    if not unmounted:
        raise StepError(
            f'unmount "{root.target}": the mount was moved in the meantime',
            "delete the container again",
        )


def _request(root_mount: RootMount) -> Request:
    return Request(id="", bundle="/", rootfs=root_mount.rootfs)


def _is_there(root_mount: RootMount, shown: list[ShownMount], *, joins: bool) -> bool:
    """Return whether ``shown``, the mounts of a namespace, contains the recorded mount.

    Another mount that has got the same id does not count.  ``joins``: ``shown`` comes from a mount
    namespace other than ours.
    """
    root = next((mount for mount in shown if mount.id == root_mount.number), None)
    if root is None:
        return False
    if root_mount.unique and not joins:
        from ociruntime._system_calls import lib

        number = lib.oci_mount_number(root_mount.unique)
        if number >= 0 or number == -errno.ENOENT:
            return bool(number == root_mount.number)
    return (root.device, root.root) == (root_mount.device, root_mount.source)


def _inside(number: int, shown: list[ShownMount]) -> list[ShownMount]:
    """Return all mounts in ``shown`` that are below the mount with the id ``number``."""
    members = {number}
    below: list[ShownMount] = []
    remaining = [mount for mount in shown if mount.id != number]
    while True:
        more = [mount for mount in remaining if mount.parent in members]
        if not more:
            return below
        below += more
        members |= {mount.id for mount in more}
        remaining = [mount for mount in remaining if mount.id not in members]


def _foreign(root_mount: RootMount, shown: list[ShownMount]) -> list[ShownMount]:
    """Return the outermost of the mounts made inside the root after the container was complete."""
    if root_mount.inside is None:
        return []
    ours = {root_mount.number, *root_mount.inside}
    inside = _inside(root_mount.number, shown)
    return [mount for mount in inside if mount.id not in ours and mount.parent in ours]


def _process_in(namespace: int) -> tuple[int, int] | None:
    """Return (pid, start time) of a process in the mount namespace with the inode ``namespace``.

    Prefers the calling process.  Returns None if no process is in the namespace.
    """
    if _namespace("self") == namespace:
        return os.getpid(), start_time(os.getpid())
    for name in ["1", *filter(str.isdecimal, os.listdir("/proc"))]:
        try:
            if _namespace(name) == namespace:
                return int(name), start_time(int(name))
        except HostError:
            continue
    return None


def _namespace(process: str) -> int:
    path = f"/proc/{process}/ns/mnt"
    try:
        return os.stat(path).st_ino
    except OSError as error:
        raise HostError(f'open "{path}"', error) from None


def _mountinfo(process: str) -> list[ShownMount]:
    path = f"/proc/{process}/mountinfo"
    try:
        return parse_mountinfo(read_file(path).decode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None


def _boot() -> str:
    path = "/proc/sys/kernel/random/boot_id"
    try:
        return read_file(path).decode().strip()
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
