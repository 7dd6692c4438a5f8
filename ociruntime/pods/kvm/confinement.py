"""Confine a pod's qemu process: its own root directory, few capabilities, private namespaces.

The guest may be hostile, and qemu is its attack surface.  A guest that takes over qemu finds a
read-only root with the system's libraries and the directories that the pod shares anyway.  It
cannot reach the host's network, mounts or sysctls.  It has only the capabilities that qemu needs to
access the shared directories as root (9p with security_model=passthrough).
"""

from __future__ import annotations

import os
from errno import EINVAL

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import HostError
from ociruntime.base.linux import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    MS_PRIVATE,
    MS_REC,
)
from ociruntime.pods.bundle.private_mount_namespace import NODEV, NOEXEC, NOSUID, check_call, mount
from ociruntime.pods.garbage.clean_up import mountinfo, mounts_below
from ociruntime.pods.kvm.qemu import CONSOLE, Hardware

ROOT = "machine-root"  # in the pod's directory: where the new root is assembled
RDONLY, REMOUNT, BIND, MOVE = 1, 32, 4096, 8192

# The distribution's programs and libraries. Symbolic links, such as /lib, are copied as links.
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/kvm")

# CAP_DAC_READ_SEARCH is left out: it opens any file of a filesystem by its handle (Shocker).
KEPT_CAPABILITIES = frozenset(
    "CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_MKNOD CAP_SETFCAP".split()
)
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38


def confine(machine: Hardware) -> None:
    """Confine this process before it executes qemu.

    The process gets a new root directory with the files that qemu needs for ``machine``.  The
    working directory must be the pod's directory.  Raises HostError if a namespace or mount cannot
    be created.
    """
    from ociruntime._system_calls import lib

    check_call(
        lib.oci_unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS),
        "create the namespaces of qemu",
    )
    mount("", "/", "", MS_REC | MS_PRIVATE)
    os.makedirs(ROOT, 0o700, exist_ok=True)
    root = os.path.abspath(ROOT)
    mount("machine", root, "tmpfs", NOSUID | NODEV, "mode=755,size=1m")
    for path in SYSTEM:
        _add_system_path(root, path)
    for path in DEVICES:
        if os.path.exists(path):
            _bind_mount(root, path, RDONLY | NOSUID | NOEXEC)
    _bind_mount(root, os.path.dirname(os.path.realpath(machine.program)), RDONLY | NOSUID | NODEV)
    _bind_mount(root, machine.kernel, RDONLY | NOSUID | NODEV | NOEXEC)
    for share in machine.shares:
        _bind_mount(root, share.path, NOSUID | NODEV | (RDONLY if share.read_only else 0))
    _bind_mount(root, os.path.abspath(CONSOLE), NOSUID | NODEV | NOEXEC, f"/{CONSOLE}")
    _mount_proc(f"{root}/proc")
    mount("", root, "", REMOUNT | BIND | RDONLY | NOSUID | NODEV)
    _enter(root)
    for number, name in enumerate(CAPABILITIES):
        if (
            name not in KEPT_CAPABILITIES
            and (result := lib.oci_prctl(PR_CAPBSET_DROP, number)) != -EINVAL
        ):
            check_call(result, f"drop {name}")  # an older kernel lacks the newest capabilities
    check_call(lib.oci_prctl(PR_SET_NO_NEW_PRIVS, 1), "set no_new_privs")


def _add_system_path(root: str, path: str) -> None:
    """Bind-mount the host's file or directory ``path`` read-only below ``root``.

    If ``path`` is a symbolic link, copy the link instead; if it is missing, do nothing.
    """
    if os.path.islink(path):
        os.symlink(os.readlink(path), root + path)
    elif os.path.exists(path):
        _bind_mount(root, path, RDONLY | NOSUID | NODEV)


def _bind_mount(root: str, path: str, flags: int, name: str = "") -> None:
    """Bind-mount the host's ``path`` below ``root``, at the same path or at ``name`` if given.

    ``name`` begins with a slash.  ``flags`` are MS_* flags of the mount.  Does nothing if ``path``
    is already visible there.  Raises HostError if another file is there, or if the mount fails.
    """
    target = root + (name or path)
    if os.path.exists(target):
        if not os.path.samefile(target, path):
            raise HostError(
                f'bind mount "{path}" for qemu',
                FileExistsError(17, f'"{target}" exists and is another file'),
            )
        return
    if os.path.isdir(path):
        os.makedirs(target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    mount(path, target, "", BIND | MS_REC)
    # MS_REMOUNT changes a single mount, so the submounts are remounted one by one.
    for mount_point in mounts_below(target, mountinfo()):
        mount("", mount_point, "", REMOUNT | BIND | flags)


def _mount_proc(target: str) -> None:
    """Mount procfs read-only at ``target``, because qemu opens its initramfs as /proc/self/fd/N.

    The option subset=pid (Linux 5.8) hides /proc/sys.  Otherwise uid 0 could write to files there
    without any capability.
    """
    os.mkdir(target)
    flags = RDONLY | NOSUID | NODEV | NOEXEC
    try:
        mount("proc", target, "proc", flags, "subset=pid,hidepid=invisible")
    except HostError:  # before Linux 5.8, procfs does not know subset=pid
        mount("proc", target, "proc", flags, "hidepid=2")


def _enter(root: str) -> None:
    """Make ``root``, a mount point, the root directory of this process.

    Raises HostError if this fails.
    """
    try:
        os.chdir(root)
        mount(".", "/", "", MOVE)
        os.chroot(".")
        os.chdir("/")
    except OSError as error:
        raise HostError(f'chroot to "{root}"', error) from None
