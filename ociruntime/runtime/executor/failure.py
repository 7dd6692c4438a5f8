"""Format the executor's failures as messages.

A failure is (operation, system call, errno, argument, the kernel's text); the message names the
setting in config.json first, then the attempted action, the kernel's error, and a remedy.
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

# (operation or system call, errno) -> what to do.
HINTS: dict[tuple[str, int], str] = {
    ("fsopen", ENODEV): "the kernel does not know this filesystem type",
    ("open_tree", ENOSYS): "the kernel is older than 5.12, or a seccomp filter forbids its mount"
    " API, without which nothing can be mounted in a shared mount namespace",
    ("mount_setattr", ENOSYS): "the kernel is older than 5.12, or a seccomp filter forbids"
    " mount_setattr, without which the mounts below cannot be changed",
    ("mount_setattr", EPERM): "a user namespace cannot clear these flags of a host mount: ro,"
    " nosuid, nodev, noexec",
    ("fsconfig", ENAMETOOLONG): "in a shared mount namespace an option has at most 255 bytes",
    ("mount", ENAMETOOLONG): "the kernel takes at most 4095 bytes of options in all",
    ("mount", EBUSY): "the filesystem is mounted already in a way that cannot be shared",
    ("mount", ENOTDIR): "a part of the destination is not a directory",
    ("mount", ELOOP): "the destination is or contains a symbolic link, which is not followed",
    ("mount_setattr id map", EINVAL): "the filesystem, or one below it with ridmap, does not take"
    " id maps on this kernel, or has one already",
    ("mount_setattr id map", EPERM): "mapping ids needs CAP_SYS_ADMIN in the user namespace that"
    " the filesystem was mounted in, and no id map on it already",
    ("mount_setattr id map", ENOSYS): "the kernel is older than 5.12, or a seccomp filter forbids"
    " mount_setattr",
    ("id_map", ENOSPC): "a limit is reached: /proc/sys/user/max_user_namespaces",
    ("id_map", EPERM): "mapping ids needs CAP_SETUID and CAP_SETGID on the host",
    ("unmount", EINVAL): "nothing is mounted there, or the kernel keeps it in place because it came"
    " from another user namespace",
    ("unmount", ELOOP): "symbolic links are followed only to what `mounts add` has mounted",
    ("restrict", ELOOP): "a symbolic link is where the mount point was",
    ("bind", EISDIR): "source and destination must both be directories or both be files",
    ("bind", ENOTDIR): "source and destination must both be directories or both be files",
    ("bind", ELOOP): "the destination contains a symbolic link, which is not followed",
    ("recorded_root", EPERM): "without a mount namespace of the container's own, only root of the"
    ' host can mount: add {"type": "mount"} to linux.namespaces',
    ("root", EINVAL): "the root filesystem holds mounts that a user namespace may not copy",
    ("verify", ESTALE): "the mount found is not the one that was created: another"
    " process is replacing a part of the path",
    ("pivot_root", EINVAL): "a root in an initramfs needs --no-pivot",
    ("device", EEXIST): "the root filesystem holds another file there",
    ("device", EPERM): "making device nodes needs CAP_MKNOD; a user namespace cannot",
    ("rlimit", EPERM): "raising a hard limit needs CAP_SYS_RESOURCE on the host",
    ("rlimit", EINVAL): "the soft limit must not be above the hard one",
    ("setgroups", EPERM): "process.user.additionalGids cannot be set where setgroups(2) is denied"
    " (/proc/PID/setgroups): in a user namespace that maps nothing but an ordinary user's group",
    ("user", EINVAL): "the user namespace does not map this uid or gid",
    (
        "keyring",
        EDQUOT,
    ): "the quota in /proc/sys/kernel/keys is used up; or pass --no-new-keyring",
    ("join_namespace", EINVAL): "the file is a namespace of another type",
    ("join_namespace", EPERM): "joining needs CAP_SYS_ADMIN in the namespace's user namespace",
    ("join_process", EPERM): "joining a container needs the privileges of the user who created it",
    ("affinity", EINVAL): "none of these CPUs exists and is in the container's cpuset",
    ("clone_process", EAGAIN): "a limit is reached: linux.resources.pids or a process limit",
    ("unshare", ENOSPC): "a limit is reached: /proc/sys/user/max_*_namespaces",
    ("unshare", EPERM): "the host does not allow it: /proc/sys/user, or a security module",
    ("seccomp", EINVAL): "the kernel refuses the filter or one of linux.seccomp.flags",
    ("seccomp", EBUSY): "a filter around us has an agent already, and there can be only one",
    ("scheduler", EPERM): "this policy needs CAP_SYS_NICE, and a real-time one run time in its"
    " cgroup on v1 (linux.resources.cpu.realtimeRuntime)",
    ("scheduler", EINVAL): "the kernel rejects this combination of policy and values",
    (
        "memory_policy",
        EINVAL,
    ): "none of the nodes exists and is allowed, or the kernel does not know the mode",
    ("hostname", EINVAL): "a host name has at most 64 bytes",
    ("domainname", EINVAL): "a domain name has at most 64 bytes",
    ("write_proc", ENOENT): "the kernel has no such file",
    ("chdir", EACCES): "the user may not enter it",
    ("home", ENOMEM): "linux.resources.memory.limit may be too low",
}

MOUNT_PERMISSIONS = {
    "proc": "a user namespace may mount proc only with a pid namespace of its own, and only"
    " where nothing is mounted over parts of the outer /proc: inside a container its engine must"
    " leave that free (podman: --security-opt unmask=ALL, docker: systempaths=unconfined)",
    "sysfs": "a user namespace may mount sysfs only with a network namespace of its own",
    "mqueue": "a user namespace may mount mqueue only with an ipc namespace of its own",
    "cgroup": "a user namespace may mount cgroups only with a cgroup namespace of its own",
    "cgroup2": "a user namespace may mount cgroups only with a cgroup namespace of its own",
}


def failure(operation: Operation | None, message: Message) -> RuntimeFailure:
    """Return the error for a FAILURE message; ``operation`` is the one that failed.

    An operation of `start` no longer has its values: only its code and its JSON path were recorded,
    and the message contains the rest.
    """
    reason = _strerror(message.error)
    if (message.call, message.argument) == ("read", "plan"):
        text = f"the executor could not read its plan: {reason}"
        return StepError(text, errno=message.error)
    if operation is None:
        on = f" {message.argument}" if message.argument else ""
        text = f"the executor could not begin: {message.call}{on}: {reason}"
        return StepError(text, errno=message.error)
    name = operation_name(operation)
    speak = SPEAKERS.get(name)
    return (speak(operation, message) if speak else None) or _step(operation, name, message)


def _step(operation: Operation, name: str, message: Message) -> StepError:
    text = f"{describe(operation)}: {_kernel(message)}"
    if operation.where:
        text = f"{operation.where}: {text}"
    hint = HINTS.get((message.call, message.error)) or HINTS.get((name, message.error), "")
    return StepError(text, hint, message.error)


def _kernel(message: Message) -> str:
    said = _strerror(message.error)
    # "e tmpfs: Unknown parameter 'roo'": the first letter is the severity.
    words = [line[2:].strip() for line in message.detail.splitlines() if line[1:2] == " "]
    return f"{said} ({'; '.join(words)})" if words else said


def _strerror(errno: int) -> str:
    text = os.strerror(errno)
    return text[:1].lower() + text[1:]


def _mount(operation: Operation, message: Message) -> StepError | None:
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
    hint = "to lower it below the caller's takes CAP_SYS_RESOURCE on the host; to raise it, nothing"
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
        EACCES: "process.args[0] must be a file that the user may execute: mode x, no noexec mount",
        EISDIR: "process.args[0] must be a program",
        ENOTDIR: "a component of process.args[0] is not a directory",
    }
    hint = hints.get(message.error, "process.args[0]")
    return StepError(f'exec: "{file}": {_strerror(message.error)}', hint, message.error)


def _exec(_: Operation, message: Message) -> StepError:
    hints = {
        ENOENT: "the interpreter in the first line of the script, or the program's dynamic"
        " loader, is not in the container",
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
    said = message.detail.strip()
    return HookError(f"{text}; its output: {said}" if said else text)


def _seccomp(operation: Operation, message: Message) -> StepError:
    text = f"{operation.where}: load the filter: {_strerror(message.error)}"
    hint = HINTS.get(("seccomp", message.error), "")
    return StepError(text, hint, message.error)


def ending(status: int) -> str:
    """Describe a wait status."""
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"exited with status {os.WEXITSTATUS(status)}"


SPEAKERS: dict[str, Callable[[Operation, Message], RuntimeFailure | None]] = {
    "mount": _mount,
    "bind": _bind,
    "find_executable": _find,
    "exec": _exec,
    "hook": _hook,
    "seccomp": _seccomp,
    "write_proc": _write_proc,
}
