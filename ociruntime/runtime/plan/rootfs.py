"""Plan the root filesystem: prepare it for the mounts, and make it the process's root.

This file also plans the masked and read-only paths; ``csrc/executor/ops_mask_paths.c`` carries them
out.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import CLONE_NEWNS, MS_PRIVATE, MS_REC, MS_SHARED, MS_SLAVE
from ociruntime.base.paths import clean
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.mount_options import PROPAGATION
from ociruntime.runtime.plan.security_labels import add_keyring


def compile_root(job: Compilation) -> None:
    """Append operations for the session keyring, mount propagation and the root filesystem.

    Raises ConfigError if the root is ``/`` and the container has no mount namespace, or if the
    process has an SELinux label and SELinux is disabled.
    """
    if job.request.new_keyring:
        add_keyring(job, job.config.get("process"))
    if job.new & CLONE_NEWNS:
        # A joined mount namespace belongs to another container and is left unchanged.
        job.add(operations.propagation(flags=_propagation(job), where="linux.rootfsPropagation"))
    if job.mounts_on_host:
        if job.request.rootfs == "/":
            raise ConfigError(
                "root.path",
                '"/" cannot be the root filesystem without a mount namespace',
                'add {"type": "mount"} to linux.namespaces',
            )
        job.add(operations.recorded_root(source=job.request.rootfs, where="root.path"))
    elif job.shares_mounts:
        job.add(operations.shared_root(source=job.request.rootfs, where="root.path"))
    else:
        job.add(operations.root(source=job.request.rootfs, where="root.path"))
    if job.new & CLONE_NEWNS and not job.linux.get("rootfsPropagation"):
        _make_root_private(job)


def _make_root_private(job: Compilation) -> None:
    """Append the operation that makes the root private, to keep out later mounts of the host."""
    job.add(
        operations.set_attributes(
            target="/",
            set_attributes=0,
            clear_attributes=0,
            recursive=0,
            propagation=MS_PRIVATE,
            where="root.path",
        )
    )


def _propagation(job: Compilation) -> int:
    """Return the MS_* propagation for the host's mounts in the container's mount namespace.

    The default is slave rather than private, so that a mount which the host unmounts does not stay
    busy in the container.  It is shared only if config.json says so, for bind mounts that propagate
    the container's mounts to the host (Bidirectional in Kubernetes).  It is never shared without
    pivot_root(2): the root is then moved onto ``/``, and the move would propagate to the host.
    """
    flags = PROPAGATION.get(job.linux.get("rootfsPropagation") or "", 0)
    return flags if flags & MS_SHARED and not job.request.no_pivot else MS_SLAVE | MS_REC


def compile_working_directory(job: Compilation) -> None:
    """Append the operation that creates ``process.cwd``, while the root is writable."""
    process = job.config.get("process")
    if process:
        cwd = clean(process["cwd"])
        if cwd != "/":
            job.add(operations.mkdir(target=cwd, mode=0o755, where="process.cwd"))


def compile_path_restrictions(job: Compilation) -> None:
    """Append operations for read-only and masked paths.

    They follow the hooks, which may add mounts.  Raises ConfigError if a path is ``/``.
    """
    for index, path in enumerate(job.linux.get("readonlyPaths") or ()):
        where = f"linux.readonlyPaths[{index}]"
        target = _below_root(path, where, "set root.readonly for a read-only root filesystem")
        job.add(operations.readonly(target=target, where=where))
    context = job.linux.get("mountLabel") or ""
    masked = set()
    for index, path in enumerate(job.linux.get("maskedPaths") or ()):
        where = f"linux.maskedPaths[{index}]"
        target = _below_root(path, where, "")
        if target not in masked:
            masked.add(target)
            job.add(operations.mask(target=target, context=context, where=where))


def _below_root(path: str, where: str, hint: str) -> str:
    """Return the normalized ``path``; raise ConfigError if it is ``/``.

    A mount on the root itself has no effect: the process keeps the root that the mount covers.
    """
    target = clean(path)
    if target == "/":
        raise ConfigError(where, "must not be the container's root directory", hint)
    return target


def compile_entry(job: Compilation) -> None:
    """Append operations that enter the root filesystem: pivot_root(2), MS_MOVE or chroot(2).

    They also make it read-only and set its propagation, if config.json says so.
    """
    if not job.request.console:
        job.add(operations.null_streams(root_of=0))
    if job.config["root"].get("readonly"):
        job.make_read_only("/", "root.readonly")
    if job.shares_mounts:
        job.add(operations.chroot(where="root.path"))
    elif job.request.no_pivot:
        uncovered = list(job.request.kernel_mounts)
        job.add(operations.move_root(uncovered=uncovered, where="root.path"))
    else:
        job.add(operations.pivot_root(where="root.path"))
    propagation = job.linux.get("rootfsPropagation")
    if propagation:
        # Set the propagation only now: earlier, it would change that of the host's mounts.
        job.add(
            operations.propagation(
                flags=PROPAGATION[propagation],
                where="linux.rootfsPropagation",
            ),
        )
