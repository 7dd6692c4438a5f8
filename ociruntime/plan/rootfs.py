"""The container's root: before the mounts go in, and when it becomes the process's root."""

from __future__ import annotations

from ociruntime.linux import (
    CLONE_NEWNS,
    MS_REC,
    MS_SLAVE,
)
from ociruntime.plan import operations
from ociruntime.plan.mount_options import PROPAGATION
from ociruntime.plan.paths import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.plan.compilation import Compilation


def compile_root(job: Compilation) -> None:
    """The keyring, which belongs to no namespace, and the root that targets are found in."""
    if job.request.new_keyring:
        job.add(operations.keyring(name=f"_ses.{job.request.id}"))
    if job.new & CLONE_NEWNS:
        # Slave and not private: what the host unmounts must not stay busy in here.  A joined
        # mount namespace is somebody else's and keeps what it has.
        job.add(
            operations.propagation(flags=MS_SLAVE | MS_REC, where="linux.rootfsPropagation"),
        )
    job.add(operations.root(source=job.request.rootfs, where="root.path"))


def compile_working_directory(job: Compilation) -> None:
    """Make the working directory while the root can still be written to."""
    process = job.config.get("process")
    if process:
        cwd = clean(process["cwd"])
        if cwd != "/":
            job.add(operations.mkdir(target=cwd, mode=0o755, where="process.cwd"))


def compile_path_restrictions(job: Compilation) -> None:
    """Read-only and masked paths; last of the mounts, as hooks may have added some."""
    for index, path in enumerate(job.linux.get("readonlyPaths") or ()):
        job.add(
            operations.readonly(target=clean(path), where=f"linux.readonlyPaths[{index}]"),
        )
    for index, path in enumerate(job.linux.get("maskedPaths") or ()):
        job.add(operations.mask(target=clean(path), where=f"linux.maskedPaths[{index}]"))


def compile_entry(job: Compilation) -> None:
    """Make the root the process's root."""
    if job.config["root"].get("readonly"):
        job.make_read_only("/", "root.readonly")
    if job.request.no_pivot:
        job.add(operations.move_root(where="root.path"))
    else:
        job.add(operations.pivot_root(where="root.path"))
    wanted = job.linux.get("rootfsPropagation")
    if wanted:
        # Only now: before, it would be the host's tree.
        job.add(
            operations.propagation(
                flags=PROPAGATION[wanted],
                where="linux.rootfsPropagation",
            ),
        )
