"""`checkpoint`: save the processes of a container to image files with CRIU."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from ociruntime.base.errors import ContainerError, CriuError, HostError, UsageError
from ociruntime.base.files import read_file
from ociruntime.base.linux import NAMESPACE_FILES
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.runtime.host.criu import Session, find_criu, summary
from ociruntime.runtime.host.criu_messages import DUMP, FEATURE_CHECK, PRE_DUMP
from ociruntime.runtime.lifecycle.checkpoint.criu_options import (
    BY_DESCRIPTOR,
    DUMP_LOG,
    CriuOptions,
    dump_options,
)
from ociruntime.runtime.lifecycle.checkpoint.external_mounts import (
    from_host,
    name_mounts,
)
from ociruntime.runtime.lifecycle.checkpoint.image_record import ImageRecord, stream_keys
from ociruntime.runtime.lifecycle.container import PAUSED, RUNNING, Container, lock
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.delete import destroy
from ociruntime.runtime.spec.config_types import Config
from ociruntime.runtime.spec.validate import needing_mounts

# Features that a kernel may lack, and the options that require them.
FEATURES = {
    "mem_track": ("--pre-dump", "this kernel cannot tell which pages have changed"),
    "lazy_pages": ("--lazy-pages", "this kernel cannot fetch pages later (userfaultfd)"),
}


def checkpoint(context: Context, container_id: str, options: CriuOptions) -> None:
    """Save a container's processes to image files with CRIU, then delete the container.

    With ``leave_running`` or ``pre_dump``, and after an error, the container keeps running.  Raises
    UsageError for an invalid id or ``parent_path``, NoSuchContainer, ContainerError, CriuError and
    HostError.
    """
    check_id(container_id)
    container, held = lock(context.root, container_id)
    try:
        _check(container)
        program = find_criu(options.program)
        context.log.debug(f"criu: {program}")
        make_directory(options.image_path)
        make_directory(options.work_path)
        _check_parent(options)
        _check_features(program, options)
        _dump(program, container, options)
        if not (options.leave_running or options.pre_dump):
            destroy(context, container)
    finally:
        held.release()


def _check(container: Container) -> None:
    """Raise ContainerError if CRIU cannot save the container in its current state."""
    status = container.status()
    if status not in (RUNNING, PAUSED):
        raise ContainerError(
            f'container "{container.id}" cannot be checkpointed in {status} state',
            "only a running or paused container can be checkpointed",
        )
    if container.facts["seccompAgent"]:
        raise ContainerError(
            f'container "{container.id}" cannot be checkpointed: its seccomp filter uses an agent',
            "the connection to a seccomp agent cannot be restored",
        )


def make_directory(path: str) -> None:
    """Create a directory with mode 0700, and its parents, unless it exists.  Raises HostError."""
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except OSError as error:
        raise HostError(f'create directory "{path}"', error) from None


def _check_parent(options: CriuOptions) -> None:
    parent = options.parent_path
    if not parent:
        return
    if parent.startswith("/"):
        raise UsageError(
            f'--parent-path "{parent}": must be relative to --image-path',
            "use a path such as ../parent: the images can then be moved together",
        )
    if not os.path.isdir(f"{options.image_path}/{parent}"):
        raise UsageError(f'--parent-path "{parent}": directory not found in "{options.image_path}"')


def _check_features(program: str, options: CriuOptions) -> None:
    """Raise CriuError if the kernel lacks a feature that one of the options requires."""
    required = {"mem_track": options.pre_dump, "lazy_pages": options.lazy_pages}
    for feature, is_required in required.items():
        if not is_required:
            continue
        session = Session(program)
        try:
            answer = session.request(
                {"type": FEATURE_CHECK, "features": {feature: True}}, lambda *_: None
            )
        finally:
            session.close()
        if not (answer.get("features") or {}).get(feature):
            option, why = FEATURES[feature]
            raise CriuError(f"{option}: not supported on this host: criu: {why}")


def _dump(program: str, container: Container, options: CriuOptions) -> None:
    """Have CRIU write the images, then write ociruntime.json.

    Raises CriuError if CRIU fails, and HostError.
    """
    config = container.config()
    record, external = _record(container, config)
    fields = dump_options(
        options,
        container.annotations,
        pid=container.pid,
        root=container.facts["rootfs"],
        freezer=container.facts["freezer"].rpartition("/")[0],
        external=external,
    )
    kind = PRE_DUMP if options.pre_dump else DUMP
    keep = [options.status_fd] if options.status_fd >= 0 else []
    with contextlib.ExitStack() as stack:
        images = open_directory(options.image_path)
        stack.callback(os.close, images)
        work = open_directory(options.work_path)
        stack.callback(os.close, work)
        session = Session(program, keep)
        stack.callback(session.close)
        request = {"type": kind, "opts": {"images_dir_fd": images, "work_dir_fd": work, **fields}}
        answer = session.request(request, _ignore)
    if not answer.get("success"):
        action = f'checkpoint container "{container.id}"'
        raise failure(action, answer, f"{options.work_path}/{DUMP_LOG}")
    if not options.pre_dump:
        record.write(options.image_path)


def _ignore(stage: str, pid: int, fd: int) -> None:  # noqa: ARG001 - every stage of a dump
    if fd >= 0:
        os.close(fd)


def open_directory(directory: str) -> int:
    """Open a directory and return its descriptor.  Raises HostError."""
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f'open "{directory}"', error) from None


def _record(container: Container, config: Config) -> tuple[ImageRecord, list[str]]:
    """Return the content of ociruntime.json, and CRIU's keys for objects of the host.

    The keys go into the field ``external`` of criu_opts.  Raises HostError, and ContainerError if
    the container has a mount or a namespace that cannot be restored.
    """
    pid = container.pid
    try:
        container_mounts = parse_mountinfo(_text(f"/proc/{pid}/mountinfo"))
        devices = {mount.device for mount in parse_mountinfo(_text("/proc/self/mountinfo"))}
        own_cgroups = os.readlink(f"/proc/{pid}/ns/cgroup") != os.readlink("/proc/self/ns/cgroup")
    except OSError as error:
        raise HostError(f"read the mounts of process {pid}", error) from None
    targets = from_host(container_mounts, devices, own_cgroups)
    names = name_mounts(targets, pid, container.facts["bundle"], config)
    keys = {f"m{index}": target for index, target in enumerate(targets)}
    streams = stream_keys(pid)
    external = [f"mnt[{target}]:{key}" for key, target in keys.items()]
    external += sorted({key for key in streams if key.startswith("file[")})
    joined = joined_namespaces(config)
    for kind, (name, label) in BY_DESCRIPTOR.items():
        if kind in joined:
            path = f"/proc/{pid}/ns/{NAMESPACE_FILES[kind]}"
            try:
                external.append(f"{name}[{os.stat(path).st_ino}]:{label}")
            except OSError as error:
                raise HostError(f'stat "{path}"', error) from None
    options = {mount.target: mount.options for mount in container_mounts}
    mounts = {key: [names[target], target, options[target]] for key, target in keys.items()}
    return ImageRecord(mounts, streams, sorted(joined)), external


def joined_namespaces(config: Config) -> dict[str, str]:
    """Return {type: path} of the namespaces that a container joins, except cgroup namespaces.

    Raises ContainerError if the container joins a mount namespace, or makes mounts without a mount
    namespace of its own.
    """
    joined = {}
    namespaces = (config.get("linux") or {}).get("namespaces") or []
    mounted = needing_mounts(config)
    if mounted and not any(each["type"] == "mount" for each in namespaces):
        raise ContainerError(
            f"checkpoint the container: {mounted[0]}: the container has no mount namespace",
            'add {"type": "mount"} to linux.namespaces and create the container again',
        )
    for namespace in namespaces:
        kind, path = namespace["type"], namespace.get("path") or ""
        if not path or kind == "cgroup":  # CRIU derives cgroup namespaces from the cgroups
            continue
        if kind == "mount":
            raise ContainerError(
                f'checkpoint the container: it joins the mount namespace "{path}"',
                "CRIU needs a container with its own mount namespace: remove the path in"
                " linux.namespaces and create the container again",
            )
        joined[kind] = path
    return joined


def _text(path: str) -> str:
    return read_file(path).decode("utf-8", "surrogateescape")


def failure(action: str, answer: dict[str, Any], log: str) -> CriuError:
    """Return the CriuError for a request that failed, with the reason from CRIU's log.

    ``action`` is the beginning of the message, ``answer`` CRIU's response, and ``log`` the path of
    the log.
    """
    try:
        cause = summary(_text(log))
    except OSError:
        cause = ""
    cause = cause or answer.get("cr_errmsg") or ""
    if not cause:
        cause = os.strerror(answer["cr_errno"]) if answer.get("cr_errno") else "unknown error"
    return CriuError(f"{action}: criu: {cause}", f'see the log "{log}"')
