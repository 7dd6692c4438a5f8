"""The root of a container that shares the host's mount namespace: recorded, and unmounted again.

Everything that such a container mounts is inside one mount of its root filesystem on itself. That
mount is private, so nothing in it propagates, and one lazy unmount removes it all, however the
container has renamed its directories, what it has mounted over them, and what is in use.

``root-mount.json`` in the state directory identifies the mount. It is written before the mount is
attached; once the container is complete, it also has the ids of all mounts inside.

A mount that the host has made inside later is the host's: it is copied before the root is unmounted
and attached to the same directory afterwards. Only a container that was allowed to mount may have
made it itself; then it goes with the root, because whoever removes the root filesystem next would
descend into whatever is bound there.
"""

from __future__ import annotations

import errno
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import HostError, RuntimeFailure, StepError
from ociruntime.base.files import read_file, replace_file
from ociruntime.base.json_text import dump, parse
from ociruntime.base.mountinfo import Mount as ShownMount
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.base.paths import is_below
from ociruntime.base.process import SIGKILL, await_end, open_process, send_signal, start_time
from ociruntime.runtime.host.facts import gather
from ociruntime.runtime.host.mount_namespaces import MountId, mount_id
from ociruntime.runtime.host.state_directory import CREATING, DELETING, ROOT_MOUNT
from ociruntime.runtime.lifecycle.mounts_add_remove import carry_out
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.live_mounts import compile_uncovering
from ociruntime.runtime.plan.plan import operation_name

if TYPE_CHECKING:
    from ociruntime.base.log import Log
    from ociruntime.runtime.plan.plan import Operation
    from ociruntime.runtime.spec.config_types import Config

KILL_SECONDS = 10.0
ATTEMPTS = 20


@dataclass
class RootMount:
    """The record.

    ``number`` and ``unique`` are the mount's id, ``boot`` and ``namespace`` where it is valid;
    ``device`` and ``source`` what is mounted, as in mountinfo; ``pid`` and ``started`` the process
    that attaches it. ``inside`` are the ids of the mounts in it, None until it is complete;
    ``may_mount`` is False if no process of the container can have made others.
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
        """Return the id of the mount."""
        return MountId(self.number, self.unique)


def record(directory: str, fd: int, rootfs: str, pid: int) -> None:
    """Write the record of the detached mount ``fd``, which the process ``pid`` will attach.

    Raises StepError if it is not the root filesystem, HostError.
    """
    found = mount_id(fd)
    shown = {mount.id: mount for mount in _mountinfo("self")}
    try:
        place = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"open {rootfs}", error) from None
    try:
        below = shown.get(mount_id(place).number)
        same = os.path.sameopenfile(fd, place)
    finally:
        os.close(place)
    if found.number in shown or not same:
        raise StepError(f"mount {rootfs}: the executor has presented another mount")
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
    """Raise StepError if another container's root is mounted there, above or below.

    Unmounting the one would tear the other apart. Of two that are created at the same time, each
    finds the other's record.
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
                f"mount {rootfs}: the root of container {name.removeprefix(CREATING)} is mounted at"
                f" {other.rootfs}",
                'give the containers a mount namespace: add {"type": "mount"} to linux.namespaces',
            )


def _is_mounted(kept: RootMount) -> bool:
    joins = _namespace("self") != kept.namespace
    return not joins and _is_there(kept, _mountinfo("self"), joins=False)


def _source(below: ShownMount, rootfs: str) -> str:
    """Return the directory within the file system, as mountinfo will show it."""
    inside = os.path.relpath(rootfs, below.target)
    return below.root if inside == "." else f"{below.root.rstrip('/')}/{inside}"


def record_contents(directory: str, config: Config) -> None:
    """Add the mounts inside, now that the container is complete.  Raises HostError."""
    kept = read(directory)
    process = config.get("process")
    bounding = ((process and process.get("capabilities")) or {}).get("bounding") or []
    namespaces = (config.get("linux") or {}).get("namespaces") or []
    in_user_namespace = any(each["type"] == "user" for each in namespaces)
    kept.inside = [mount.id for mount in _inside(kept.number, _mountinfo("self"))]
    kept.may_mount = "CAP_SYS_ADMIN" in bounding and not in_user_namespace
    write(directory, kept)


def write(directory: str, kept: RootMount) -> None:
    """Replace the record.  Raises HostError."""
    path = f"{directory}/{ROOT_MOUNT}"
    try:
        replace_file(path, dump(asdict(kept)).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f"write {path}", error) from None


def read(directory: str) -> RootMount:
    """Return the record.  Raises HostError."""
    path = f"{directory}/{ROOT_MOUNT}"
    try:
        document: Any = parse(read_file(path), path)
    except OSError as error:
        raise HostError(f"read {path}", error) from None
    return RootMount(**document)


def clear(directory: str, log: Log) -> None:
    """Unmount the root with all that is in it; can be repeated.

    Raises HostError; StepError if something covers it that is neither the container's nor inside.
    """
    kept = read(directory)
    if kept.boot != _boot():
        return
    if kept.inside is None:
        _end_creator(kept)
    process = _process_in(kept.namespace)
    if process is None:
        return  # no process is left in that mount namespace, and with it no mount
    for _ in range(ATTEMPTS):
        # Again, because something may have been mounted over it in the last moment.
        if not _unmount_once(kept, *process, log):
            return
    raise StepError(f"unmount {kept.rootfs}: other mounts keep covering it", "delete it again")


def _unmount_once(kept: RootMount, pid: int, started: int, log: Log) -> bool:
    """Unmount the root if it is there; return whether it was."""
    shown = _mountinfo(str(pid))
    if not _is_there(kept, shown, joins=pid != os.getpid()):
        return False
    foreign = _foreign(kept, shown)
    if foreign and kept.may_mount:
        places = ", ".join(mount.target for mount in foreign)
        log.warning(f"unmount {kept.rootfs}: mounts made in it later go with it: {places}")
        foreign = []
    _unmount(kept, pid, started, shown, foreign, log)
    return True


def _end_creator(kept: RootMount) -> None:
    """Kill the executor of a killed ``create``: it may be about to attach the mount."""
    pidfd = open_process(kept.pid, kept.started)
    if pidfd < 0:
        return
    try:
        send_signal(pidfd, SIGKILL, kept.pid)
        if not await_end(pidfd, KILL_SECONDS):
            raise HostError(f"wait for process {kept.pid}", OSError(errno.ETIMEDOUT, "timed out"))
    finally:
        os.close(pidfd)


def _unmount(
    kept: RootMount,
    pid: int,
    started: int,
    shown: list[ShownMount],
    foreign: list[ShownMount],
    log: Log,
) -> None:
    root = next(mount for mount in shown if mount.id == kept.number)
    depth = sum(mount.target == root.target for mount in shown)
    prefix = len(root.target.rstrip("/"))
    places = [(mount.target, mount.target[prefix:] or "/") for mount in foreign]
    joins = pid != os.getpid()
    plan = compile_uncovering(root.target, depth, places, gather("", ()), _request(kept), joins)
    unmounted = False

    def recognise(operation: Operation, found: MountId, now: list[ShownMount]) -> bool:
        nonlocal unmounted
        if operation_name(operation) != "unmount" or unmounted:
            return False
        if found.is_same(kept.id):
            unmounted = True
            return True
        if any(mount.id == found.number for mount in _inside(kept.number, now)):
            return True
        raise StepError(
            f"unmount {root.target}: another mount covers it", "unmount that and delete it again"
        )

    try:
        carry_out(plan, pid, started, recognise)
    except RuntimeFailure as error:
        if not unmounted:
            raise
        log.warning(f"keep the host's mounts in {kept.rootfs}: {error}")
    if not unmounted:
        raise StepError(f"unmount {root.target}: the mount was moved meanwhile", "delete it again")


def _request(kept: RootMount) -> Request:
    return Request(id="", bundle="/", rootfs=kept.rootfs)


def _is_there(kept: RootMount, shown: list[ShownMount], *, joins: bool) -> bool:
    """Return whether the recorded mount exists, not another one that got its number."""
    root = next((mount for mount in shown if mount.id == kept.number), None)
    if root is None:
        return False
    if kept.unique and not joins:
        from ociruntime._shim import lib

        number = lib.oci_mount_number(kept.unique)
        if number >= 0 or number == -errno.ENOENT:
            return bool(number == kept.number)
    return (root.device, root.root) == (kept.device, kept.source)


def _inside(number: int, shown: list[ShownMount]) -> list[ShownMount]:
    """Return the mounts below the one with that number."""
    members = {number}
    found: list[ShownMount] = []
    rest = [mount for mount in shown if mount.id != number]
    while True:
        more = [mount for mount in rest if mount.parent in members]
        if not more:
            return found
        found += more
        members |= {mount.id for mount in more}
        rest = [mount for mount in rest if mount.id not in members]


def _foreign(kept: RootMount, shown: list[ShownMount]) -> list[ShownMount]:
    """Return the outermost mounts that were made inside since the container is complete."""
    if kept.inside is None:
        return []
    ours = {kept.number, *kept.inside}
    inside = _inside(kept.number, shown)
    return [mount for mount in inside if mount.id not in ours and mount.parent in ours]


def _process_in(namespace: int) -> tuple[int, int] | None:
    """Return a process in that mount namespace and its start time, ourselves if possible."""
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
        raise HostError(f"open {path}", error) from None


def _mountinfo(process: str) -> list[ShownMount]:
    path = f"/proc/{process}/mountinfo"
    try:
        return parse_mountinfo(read_file(path).decode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f"read {path}", error) from None


def _boot() -> str:
    path = "/proc/sys/kernel/random/boot_id"
    try:
        return read_file(path).decode().strip()
    except OSError as error:
        raise HostError(f"read {path}", error) from None
