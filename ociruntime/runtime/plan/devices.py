"""Plan device nodes, the symbolic links in /dev, and the console.

The executor makes the nodes and links in ``csrc/executor/ops_files.c``, and the console in
``ops_console.c``.
"""

from __future__ import annotations

from ociruntime.base.linux import DEFAULT_DEVICES, S_IFBLK, S_IFCHR, S_IFIFO
from ociruntime.base.paths import clean
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.mounts import is_bind
from ociruntime.runtime.plan.operation_table import CONSOLE_BIND, CONSOLE_CONTROL
from ociruntime.runtime.plan.plan import Operation
from ociruntime.runtime.plan.process import add_console

# runtime-linux.md#dev-symbolic-links, and the core file that engines expect:
# (link, its target, path that must exist for the link to be made).  The numbers below /proc/self/fd
# are magic links, which the executor never follows: it checks the directory instead.
LINKS: tuple[tuple[str, str, str], ...] = (
    ("/dev/fd", "/proc/self/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0", "/proc/self/fd"),
    ("/dev/stdout", "/proc/self/fd/1", "/proc/self/fd"),
    ("/dev/stderr", "/proc/self/fd/2", "/proc/self/fd"),
    ("/dev/core", "/proc/kcore", "/proc/kcore"),
)

TYPES: dict[str, int] = {"b": S_IFBLK, "c": S_IFCHR, "p": S_IFIFO, "u": S_IFCHR}


def compile_devices(job: Compilation) -> None:
    """Append operations for the device nodes, the symbolic links in /dev and the console."""
    listed = [
        (clean(device["path"]), device, f"linux.devices[{index}]")
        for index, device in enumerate(job.linux.get("devices") or ())
    ]
    paths = {path for path, _, _ in listed}
    for path, (major, minor) in DEFAULT_DEVICES.items():
        if path not in paths:
            job.add(_node(job, path, S_IFCHR | 0o666, major, minor, 0, 0, ""))
    first: dict[str, tuple[str, int, int]] = {}
    for path, device, where in listed:
        kind = (device["type"], device.get("major") or 0, device.get("minor") or 0)
        if first.setdefault(path, kind) != kind:
            job.warn(f'{where}.path: "{path}" is listed twice; the first device is used')
            continue
        mode = device.get("fileMode")
        job.add(
            _node(
                job,
                path,
                # Mask with the permission bits: engines send the whole st_mode.
                TYPES[device["type"]] | (0o666 if mode is None else mode & 0o7777),
                device.get("major") or 0,
                device.get("minor") or 0,
                device.get("uid") or 0,
                device.get("gid") or 0,
                where,
            ),
        )
    _add_links(job)
    if job.request.console:
        control = 0 if job.forks_last else CONSOLE_CONTROL
        add_console(job, job.config["process"], CONSOLE_BIND | control)


def _node(
    job: Compilation, path: str, mode: int, major: int, minor: int, uid: int, gid: int, where: str
) -> Operation:
    return operations.device(
        target=path,
        mode=mode,
        major=major,
        minor=minor,
        uid=uid,
        gid=gid,
        # The executor bind-mounts this node of the host if mknod(2) is not permitted, except in a
        # shared mount namespace.
        source=path if mode & S_IFCHR and not job.shares_mounts else "",
        where=where,
    )


def _add_links(job: Compilation) -> None:
    # In the host's own /dev, missing links are added but nothing is replaced.
    replace = 0 if job.shares_mounts else 1
    for mount in job.config.get("mounts") or ():
        if clean(mount["destination"]) == "/dev":
            replace = 1 if is_bind(mount) is None else 0
    job.add(
        operations.symlink(target="/dev/ptmx", text="pts/ptmx", requires="", replace=replace),
    )
    # /proc/self is missing for a process outside the pid namespace of the procfs.
    process = "/1/" if job.forks_last else "/self/"
    for link, text, required in LINKS:
        requires = required.replace("/self/", process)
        job.add(operations.symlink(target=link, text=text, requires=requires, replace=0))
