"""Convert the executor's FAILURE messages to error messages for the user.

A FAILURE message contains an operation, a system call, an errno, an argument and the kernel's text.
The error message begins with the setting in config.json.  Then it says what was attempted, what the
kernel's error was, and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import (
    EACCES,
    EAGAIN,
    EBUSY,
    EDQUOT,
    EEXIST,
    EINVAL,
    EISDIR,
    ELOOP,
    ENAMETOOLONG,
    ENODEV,
    ENOENT,
    ENOEXEC,
    ENOMEM,
    ENOSPC,
    ENOSYS,
    ENOTDIR,
    EPERM,
    ESTALE,
)

from ociruntime.base.errors import HookError, RuntimeFailure, StepError
from ociruntime.runtime.executor.protocol import Message
from ociruntime.runtime.plan.explain import describe
from ociruntime.runtime.plan.plan import Operation, field, operation_name

E2BIG = 7

_NO_MOUNT_API = (
    "the kernel is older than 5.12, or a seccomp filter forbids its mount API, without which"
    " nothing can be mounted in a shared mount namespace"
)
# (operation or system call, errno) -> the probable cause and the remedy.
HINTS: dict[tuple[str, int], str] = {
    ("fsopen", ENODEV): "the kernel does not know this filesystem type",
    ("open_tree", ENOSYS): _NO_MOUNT_API,
    ("mount", ENOSYS): _NO_MOUNT_API,
    ("fsopen", ENOSYS): "a seccomp filter forbids the mount API, without which the procfs of a"
    " joined pid namespace cannot be mounted",
    ("mount_setattr", ENOSYS): "the kernel is older than 5.12, or a seccomp filter forbids"
    " mount_setattr, without which the mounts below cannot be changed",
    ("mount_setattr", EPERM): "a user namespace cannot clear these flags of a host mount: ro,"
    " nosuid, nodev, noexec",
    ("fsconfig", ENAMETOOLONG): "in a shared mount namespace an option has at most 255 bytes",
    ("mount", ENAMETOOLONG): "the kernel accepts at most 4095 bytes of mount options",
    ("mount", EBUSY): "the filesystem is already mounted with incompatible options",
    ("mount", ENOTDIR): "a component of the destination path is not a directory",
    ("mount", ELOOP): "the destination is or contains a symbolic link, which is not followed",
    (
        "mount_setattr id map",
        EINVAL,
    ): "the filesystem, or one below it with ridmap, does not support"
    " id-mapped mounts on this kernel, or is id-mapped already",
    ("mount_setattr id map", EPERM): "an id-mapped mount needs CAP_SYS_ADMIN in the user namespace"
    " of the filesystem, and the mount must not be id-mapped already",
    ("mount_setattr id map", ENOSYS): "the kernel is older than 5.12, or a seccomp filter forbids"
    " mount_setattr",
    ("id_map", ENOSPC): "a limit is reached: /proc/sys/user/max_user_namespaces",
    ("id_map", EPERM): "mapping these ids needs CAP_SETUID and CAP_SETGID on the host",
    (
        "unmount",
        EINVAL,
    ): "nothing is mounted at this path, or the mount is locked because it came from"
    " another user namespace",
    ("unmount", ELOOP): "symbolic links are followed only to mounts that `mounts add` has made",
    ("restrict", ELOOP): "the mount point has been replaced by a symbolic link",
    ("bind", EISDIR): "source and destination must both be directories or both be files",
    ("bind", ENOTDIR): "source and destination must both be directories or both be files",
    ("bind", ELOOP): "the destination contains a symbolic link, which is not followed",
    ("recorded_root", EPERM): "without a mount namespace of the container's own, only root of the"
    ' host can mount: add {"type": "mount"} to linux.namespaces',
    ("root", EINVAL): "the root filesystem contains mounts that a user namespace may not copy",
    ("verify", ESTALE): "the path no longer leads to the mount just created:"
    " another process is replacing a component of the path",
    ("pivot_root", EINVAL): "if the root filesystem is in an initramfs, pass --no-pivot",
    ("device", EEXIST): "the root filesystem contains another file at this path",
    (
        "device",
        EPERM,
    ): "mknod(2) needs CAP_MKNOD, which has no effect in a user namespace",
    ("rlimit", EPERM): "raising a hard limit needs CAP_SYS_RESOURCE on the host",
    ("rlimit", EINVAL): "the soft limit must not be above the hard one",
    ("setgroups", EPERM): "process.user.additionalGids cannot be set where setgroups(2) is denied"
    " (/proc/PID/setgroups), as in a user namespace that maps only an unprivileged user's group",
    ("user", EINVAL): "the user namespace does not map this uid or gid",
    (
        "keyring",
        EDQUOT,
    ): "the key quota is used up: raise it in /proc/sys/kernel/keys, or pass --no-new-keyring",
    ("join_namespace", EINVAL): "the file is a namespace of another type",
    (
        "join_namespace",
        EPERM,
    ): "joining needs CAP_SYS_ADMIN in the user namespace that owns the namespace",
    ("join_process", EPERM): "joining a container needs the privileges of the user who created it",
    ("affinity", EINVAL): "none of these CPUs is online and in the container's cpuset",
    ("clone_process", EAGAIN): "a limit is reached: linux.resources.pids or a process limit",
    ("unshare", ENOSPC): "a limit is reached: /proc/sys/user/max_*_namespaces",
    (
        "unshare",
        EPERM,
    ): "the host denies new namespaces: see /proc/sys/user, and AppArmor or SELinux",
    ("seccomp", EINVAL): "the kernel rejects the filter or one of linux.seccomp.flags",
    (
        "seccomp",
        EBUSY,
    ): "a seccomp filter of the caller already has a listener; the kernel allows only one",
    ("scheduler", EPERM): "this policy needs CAP_SYS_NICE; on cgroup v1, a real-time policy also"
    " needs linux.resources.cpu.realtimeRuntime",
    ("scheduler", EINVAL): "the kernel rejects this combination of policy and values",
    (
        "memory_policy",
        EINVAL,
    ): "none of the nodes is online and allowed, or the kernel does not know the mode",
    ("hostname", EINVAL): "a host name has at most 64 bytes",
    ("domainname", EINVAL): "a domain name has at most 64 bytes",
    ("write_proc", ENOENT): "this kernel does not have this file in /proc",
    ("chdir", EACCES): "the user in process.user may not enter this directory",
    ("home", ENOMEM): "linux.resources.memory.limit may be too low",
}

MOUNT_PERMISSIONS = {
    "proc": "a user namespace may mount proc only with a pid namespace of its own, and only"
    " if no path in the outer /proc is masked: start the outer container without masked paths"
    " (podman: --security-opt unmask=ALL, docker: --security-opt systempaths=unconfined)",
    "sysfs": "a user namespace may mount sysfs only with a network namespace of its own",
    "mqueue": "a user namespace may mount mqueue only with an ipc namespace of its own",
    "cgroup": "a user namespace may mount cgroups only with a cgroup namespace of its own",
    "cgroup2": "a user namespace may mount cgroups only with a cgroup namespace of its own",
}


def failure(operation: Operation | None, message: Message) -> RuntimeFailure:
    """Return the error for a FAILURE message of the executor.

    ``operation`` is the operation that failed, or None if it is unknown.  An operation that failed
    at `start` has empty fields, because state.json records only the code and JSON path; the message
    contains everything else.
    """
    reason = _strerror(message.error)
    if (message.call, message.argument) == ("read", "plan"):
        text = f"read the plan in the executor: {reason}"
        return StepError(text, errno=message.error)
    if operation is None:
        on = f' "{message.argument}"' if message.argument else ""
        text = f"start the executor: {message.call}{on}: {reason}"
        return StepError(text, errno=message.error)
    name = operation_name(operation)
    formatter = FORMATTERS.get(name)
    return (formatter(operation, message) if formatter else None) or _step(operation, name, message)


def _step(operation: Operation, name: str, message: Message) -> StepError:
    """Return the error for a failed operation in its general form.

    Used for operations without an entry in ``FORMATTERS``, and if the formatter returns None.
    """
    text = f"{describe(operation)}: {_kernel(message)}"
    if operation.where:
        text = f"{operation.where}: {text}"
    hint = HINTS.get((message.call, message.error)) or HINTS.get((name, message.error), "")
    return StepError(text, hint, message.error)


def _kernel(message: Message) -> str:
    """Return the text of the errno and, in parentheses, what the kernel said about a mount."""
    error = _strerror(message.error)
    # "e tmpfs: Unknown parameter 'roo'": the first letter is the severity.
    details = [line[2:].strip() for line in message.detail.splitlines() if line[1:2] == " "]
    return f"{error} ({'; '.join(details)})" if details else error


def _strerror(errno: int) -> str:
    text = os.strerror(errno)
    return text[:1].lower() + text[1:]


def _mount(operation: Operation, message: Message) -> StepError | None:
    """Return the error for a failed ``mount``, with its probable cause.

    Returns None if no cause is known.
    """
    fstype = str(field(operation, "fstype"))
    hint = ""
    if message.error == EPERM:
        hint = MOUNT_PERMISSIONS.get(fstype, "")
    elif message.error == EINVAL and message.argument.startswith(("uid=", "gid=")):
        hint = f"{message.argument} is not mapped in the container's user namespace"
    if not hint:
        return None
    text = f"{operation.where}: {describe(operation)}: {_kernel(message)}"
    return StepError(text, hint, message.error)


def _bind(operation: Operation, message: Message) -> StepError | None:
    if message.call == "open_tree" and message.error == ENOENT:
        return StepError(
            f'{operation.where}.source: "{message.argument}" does not exist: {_strerror(ENOENT)}',
            errno=ENOENT,
        )
    return None


def _write_proc(operation: Operation, message: Message) -> StepError | None:
    if message.error != EACCES or field(operation, "path") != "self/oom_score_adj":
        return None
    text = f"{operation.where}: {describe(operation)}: {_kernel(message)}"
    hint = "lowering the score below the caller's needs CAP_SYS_RESOURCE on the host"
    return StepError(text, hint, EACCES)


def _find(operation: Operation, message: Message) -> StepError:
    file = str(field(operation, "file"))
    if message.call == "search" and message.error == ENOENT:
        searched = str(field(operation, "path"))
        return StepError(
            f'exec: "{file}": executable file not found in $PATH',
            f"process.args[0]; PATH in the container is {searched}",
            ENOENT,
        )
    hints = {
        ENOENT: "process.args[0] does not exist in the container",
        EACCES: "process.args[0] must be a file that the user may execute, not on a noexec mount",
        EISDIR: "process.args[0] must be a program",
        ENOTDIR: "a component of process.args[0] is not a directory",
    }
    hint = hints.get(message.error, "process.args[0]")
    return StepError(f'exec: "{file}": {_strerror(message.error)}', hint, message.error)


def _exec(_: Operation, message: Message) -> StepError:
    hints = {
        ENOENT: "the interpreter in the script's first line, or the program's dynamic loader, does"
        " not exist in the container",
        ENOEXEC: "neither a program for this machine's architecture nor a script that begins"
        ' with "#!"',
        E2BIG: "process.args and process.env together are too long",
        EACCES: "not executable for the user, or on a noexec mount",
        EPERM: "a seccomp filter or a security module forbids it",
        ENOMEM: "linux.resources.memory.limit may be too low",
    }
    text = f'exec: "{message.argument}": {_strerror(message.error)}'
    return StepError(text, hints.get(message.error, ""), message.error)


def _hook(operation: Operation, message: Message) -> RuntimeFailure:
    path = message.argument
    if message.call == "execve":
        return HookError(f'{operation.where}.path: "{path}": {_strerror(message.error)}')
    if message.call == "hook timeout":
        limit = f"its timeout of {message.error} s"
        text = f'{operation.where}: "{path}" did not end within {limit} and was killed'
    elif message.call == "hook":
        text = f'{operation.where}: "{path}" {ending(message.error)}'
    else:
        return StepError(f"{operation.where}: {message.call}: {_strerror(message.error)}")
    output = message.detail.strip()
    return HookError(f"{text}; its output: {output}" if output else text)


def _seccomp(operation: Operation, message: Message) -> StepError:
    text = f"{operation.where}: load the seccomp filter: {_strerror(message.error)}"
    hint = HINTS.get(("seccomp", message.error), "")
    return StepError(text, hint, message.error)


def ending(status: int) -> str:
    """Describe a wait status: ``exited with status N`` or ``was killed by signal N``."""
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"exited with status {os.WEXITSTATUS(status)}"


FORMATTERS: dict[str, Callable[[Operation, Message], RuntimeFailure | None]] = {
    "mount": _mount,
    "bind": _bind,
    "find_executable": _find,
    "exec": _exec,
    "hook": _hook,
    "seccomp": _seccomp,
    "write_proc": _write_proc,
}
