"""`restore`: start a container from the files of a `checkpoint`.

A restore is a ``Creation`` with CRIU in place of the executor.  CRIU reports its stages, and waits
for an answer at each of them:

    setup-namespaces    the namespaces exist: run the prestart and createRuntime hooks
    orphan-pts-master   receive the master of the container's terminal
    pre-resume          all processes are still stopped: compare their mounts and privileges with
                        config.json

At the end, CRIU sends the pid of the init, which is then a child of this process.  CRIU runs in the
container's cgroup, so that all processes that it creates start there, whatever mode
``--manage-cgroups-mode`` selects.
"""

from __future__ import annotations

import os
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import Any

from ociruntime.base.errors import ConfigError, ContainerError, HostError
from ociruntime.base.files import read_file
from ociruntime.base.foreground import SignalQueue, open_relay, wait_foreground
from ociruntime.base.mountinfo import Mount, parse_mountinfo
from ociruntime.base.paths import clean, is_below
from ociruntime.base.process import (
    SIGKILL,
    become_subreaper,
    end_on_signals,
    no_longer_end_on_signals,
    send_signal,
    start_time,
)
from ociruntime.base.stream_socket import connect
from ociruntime.base.trusted_directories import check_directory
from ociruntime.runtime.host.criu import Session, find_criu
from ociruntime.runtime.host.criu_messages import RESTORE
from ociruntime.runtime.host.gather_facts import gather
from ociruntime.runtime.host.mount_namespaces import MountId, private_root
from ociruntime.runtime.lifecycle.checkpoint.checkpoint import (
    failure,
    joined_namespaces,
    make_directory,
    open_directory,
)
from ociruntime.runtime.lifecycle.checkpoint.criu_options import (
    BY_DESCRIPTOR,
    BY_NAME,
    RESTORE_LOG,
    CriuOptions,
    cgroup_roots,
    restore_options,
)
from ociruntime.runtime.lifecycle.checkpoint.external_mounts import (
    bind_sources,
    check_restricted,
    device_paths,
    find_source,
    identity,
    shown_at,
    unmet,
    wanted_flags,
)
from ociruntime.runtime.lifecycle.checkpoint.image_record import ImageRecord, read_record
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.container_processes import descendants, signal_listed
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create_steps import Creation
from ociruntime.runtime.lifecycle.mounts_add_remove import carry_out
from ociruntime.runtime.lifecycle.prepare_create import prepare
from ociruntime.runtime.lifecycle.run import delete_after_end
from ociruntime.runtime.lifecycle.terminal_options import check_terminal
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.identity import BITS
from ociruntime.runtime.plan.live_mounts import compile_restricting
from ociruntime.runtime.plan.mounts import bind_path, is_bind
from ociruntime.runtime.plan.plan import Operation, field
from ociruntime.runtime.spec.config_types import Config

# Do not block if the path leads to a FIFO or a terminal.
OPEN_NAMESPACE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
FIRST_FREE = 10  # our standard streams are duplicated to 10 and up: criu uses 0 to 2 itself


class Restoration(Creation):
    """The restoration of one container by CRIU: call ``describe``, then ``run``.

    ``run`` sets the attributes of ``Creation``, except ``executor``.  It also sets ``pidfd``, a
    pidfd of the restored init.  For a container in the foreground it sets ``signals``: the caught
    signals, for the caller to forward.
    """

    __slots__ = (
        "_criu",
        "_first",
        "_foreground",
        "_images",
        "_inherited",
        "_program",
        "_record",
        "_session",
        "_work",
        "pidfd",
        "signals",
    )

    _criu: CriuOptions
    _program: str
    _record: ImageRecord

    def describe(
        self, program: str, criu: CriuOptions, record: ImageRecord, *, foreground: bool
    ) -> None:
        """Set the path of CRIU, its options, and the record of the checkpoint to restore.

        ``foreground``: catch signals, for the caller to forward to the container.
        """
        self._foreground = foreground
        self.signals: SignalQueue | None = None
        self._program = program
        self._criu = criu
        self._record = record
        self._first = 0
        self._inherited: list[dict[str, Any]] = []  # inherit_fd
        self.pidfd = -1
        self._session: Session
        self._images = self._work = -1

    @property
    def pid(self) -> int:
        """The pid of the container's init or, before the init exists, of CRIU."""
        return self._first or self._session.pid

    def _start(self) -> None:
        """Start CRIU in the container's cgroup."""
        prepared = self._prepared
        self._make_mount_points()
        try:
            self._open_inherited()
            # criu mounts in these directories, so they must be opened in its mount namespace.
            with private_root(prepared.bundle.rootfs):
                self._images = open_directory(self._criu.image_path)
                self._work = open_directory(self._criu.work_path)
                self._session = Session(
                    self._program,
                    [each["fd"] for each in self._inherited],
                    detached=not self._criu.switches.get("shell_job"),
                )
        finally:
            for each in self._inherited:
                os.close(each["fd"])
        self._rollback.push(self._session.close)
        cgroup = prepared.cgroup
        cgroup.first_pid = self._session.pid
        self._make_cgroup()
        cgroup.attach(self._session.pid)
        cgroup.apply(prepared.resources)

    def _make_mount_points(self) -> None:
        """Create the mount points that the root filesystem lacks.

        Skips mount points inside other mounts, which exist already.
        """
        mounts = self._prepared.config.get("mounts") or []
        targets = [clean(mount["destination"]) for mount in mounts]
        bundle = self._prepared.bundle
        for target, mount in zip(targets, mounts, strict=True):
            if target == "/" or any(is_below(target, other) for other in targets):
                continue
            source = bind_path(bundle.path, mount.get("source") or "")
            is_file = is_bind(mount) is not None and not os.path.isdir(source)
            make_mount_point(bundle.rootfs, target, is_file=is_file)

    def _open_inherited(self) -> None:
        """Open descriptors for CRIU: standard streams for the init, and namespaces to join.

        Raises HostError, and ContainerError if config.json joins other types of namespaces than the
        checkpointed container did.
        """
        for fd, key in enumerate(self._record.streams[:3]):
            if key and key not in [each["key"] for each in self._inherited]:
                self._inherit(key, fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE))
        joined = joined_namespaces(self._prepared.config)
        if sorted(joined) != self._record.namespaces:
            had = ", ".join(self._record.namespaces) or "none"
            raise ContainerError(
                f"restore: linux.namespaces: types joined by path: {', '.join(joined) or 'none'},"
                f" but in the checkpoint: {had}",
                "set path for the same types of namespaces as in the checkpointed container",
            )
        for kind, (_, label) in BY_DESCRIPTOR.items():
            if kind in joined:
                try:
                    self._inherit(label, os.open(joined[kind], OPEN_NAMESPACE))
                except OSError as error:
                    raise HostError(f'open the namespace "{joined[kind]}"', error) from None

    def _inherit(self, key: str, fd: int) -> None:
        self._inherited.append({"key": key, "fd": fd})

    def _converse(self) -> None:
        """Send the RESTORE request to CRIU, handle its stages, and publish the container."""
        options = {
            "images_dir_fd": self._images,
            "work_dir_fd": self._work,
            **self._options_of_criu(),
        }
        answer = self._session.request({"type": RESTORE, "opts": options}, self._stage)
        if not answer.get("success"):
            action = f'restore container "{self.id}"'
            raise failure(action, answer, f"{self._criu.work_path}/{RESTORE_LOG}")
        self._first = (answer.get("restore") or {}).get("pid", 0)
        self._session.close()
        os.close(self._images)
        os.close(self._work)
        try:
            self.pidfd = os.pidfd_open(self._first)
        except OSError as error:
            raise HostError(f"open process {self._first}, the restored init", error) from None
        self._rollback.push(lambda: send_signal(self.pidfd, SIGKILL, self._first))
        self._prepared.cgroup.disable_oom_killer(self._prepared.resources)
        self._publish(self.pidfd)

    def _explain(self, interruption: KeyboardInterrupt) -> None:
        """Do nothing: there is no executor, and CRIU does not report its current action."""
        del interruption

    def _options_of_criu(self) -> dict[str, Any]:
        """Return the criu_opts for the RESTORE request, except the descriptors of directories."""
        prepared, record = self._prepared, self._record
        cgroups = prepared.cgroup.visible()
        external = [
            f"mnt[{key}]:" + find_source(mount[0], prepared.bundle.path, prepared.config, cgroups)
            for key, mount in record.mounts.items()
        ]
        joined = joined_namespaces(prepared.config)
        member = read_file(f"/proc/{self._session.pid}/cgroup")
        return restore_options(
            self._criu,
            prepared.annotations,
            root=prepared.bundle.rootfs,
            external=external,
            cgroups=cgroup_roots(member.decode("utf-8", "surrogateescape")),
            inherited=self._inherited,
            joined=[
                {"ns": BY_NAME[kind], "ns_file": path}
                for kind, path in joined.items()
                if kind in BY_NAME
            ],
        )

    def _stage(self, stage: str, pid: int, fd: int) -> None:
        """Handle a stage that CRIU reports (see the module's docstring), while CRIU waits.

        ``pid`` is the container's init, ``fd`` a descriptor that CRIU has sent, or -1.
        """
        if stage == "orphan-pts-master":
            self._take_console(fd)
            return
        if fd >= 0:
            os.close(fd)
        if stage == "setup-namespaces":
            self._first = pid
            self._run_hooks()
        elif stage == "pre-resume":
            # Check before the processes run.  criu ignores our answer at this stage: if the check
            # fails, we kill the processes ourselves.
            try:
                self._restrict_mounts()
                self._check_privileges()
                self._catch_signals()
            except BaseException:
                try:
                    signal_listed(self._restored, SIGKILL)
                finally:
                    self._prepared.cgroup.kill()
                raise

    def _catch_signals(self) -> None:
        """Start to catch signals if the container runs in the foreground."""
        if self._foreground:
            self.signals = SignalQueue()

    def _restrict_mounts(self) -> None:
        """Set the mount flags that CRIU has not restored.

        If several mounts have the same source, CRIU restores the flags of the first mount only.
        """
        config, bundle = self._prepared.config, self._prepared.bundle.path
        text = read_file(f"/proc/{self._first}/mountinfo").decode("utf-8", "surrogateescape")
        mounts = parse_mountinfo(text)
        shown = shown_at(self._first, mounts)
        sources = {where: identity(source) for where, source in bind_sources(bundle, config)}
        nodes = {node for node in map(identity, device_paths(config)) if node is not None}
        wanted = wanted_flags(self._record.mounts.values(), config, shown, sources, nodes)
        lacking = unmet(mounts, wanted)
        if not lacking:
            return

        def is_restored(operation: Operation, found: MountId, now: list[Mount]) -> bool:
            check_restricted(str(field(operation, "target")), found.number, now)
            return True

        # The container's processes are stopped, but another one may share a directory with it.
        request = Request(id=self.id, bundle=bundle, rootfs="")
        plan = compile_restricting(lacking, gather("", ()), request)
        carry_out(plan, self._first, start_time(self._first), is_restored)

    def _check_privileges(self) -> None:
        """Raise ContainerError if a restored process has privileges that config.json denies."""
        for pid in self._restored():
            try:
                if not self._is_of_this_user_namespace(pid):
                    continue  # the container's user namespace limits its privileges
                statuses = thread_statuses(pid)
            except OSError:
                continue  # a helper process of criu that has exited
            for status in statuses:
                extra = excess(status, self._prepared.config)
                if extra:
                    raise ContainerError(
                        f'restore container "{self.id}": the checkpointed processes have more'
                        f" privileges than config.json allows: {extra}"
                    )

    def _restored(self) -> set[int]:
        """Return the pids of all restored processes.

        The images may put processes into any cgroup.  Therefore the result contains the descendants
        of the init as well as the members of the container's cgroup.
        """
        pids = descendants(self._first, with_namespace=False) if self._first else []
        return {*pids, *self._prepared.cgroup.processes()} - {self._session.pid}

    def _is_of_this_user_namespace(self, pid: int) -> bool:
        return pid == self._first or os.path.samefile(
            f"/proc/{pid}/ns/user", f"/proc/{self._first}/ns/user"
        )


# Create mount points in a root filesystem without following symbolic links.  A target whose path
# contains a symbolic link must already exist.

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_mount_point(root: str, target: str, *, is_file: bool) -> None:
    """Create the mount point ``target``, an absolute path in ``root``, if it is missing.

    ``target`` must be normalized.  ``is_file``: create an empty file instead of a directory.  Does
    nothing if the path contains a symbolic link.  Raises HostError.
    """
    *parents, name = target.strip("/").split("/")
    try:
        directory = os.open(root, DIRECTORY & ~os.O_NOFOLLOW)
        try:
            for parent in parents:
                _make_directory(directory, parent)
                inner = os.open(parent, DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = inner
            if is_file:
                _make_file(directory, name)
            else:
                _make_directory(directory, name)
        finally:
            os.close(directory)
    except NotADirectoryError:
        return  # a component of the path is a symbolic link
    except OSError as error:
        raise HostError(f'create the mount point "{root}{target}"', error) from None


def _make_directory(directory: int, name: str) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        pass


def _make_file(directory: int, name: str) -> None:
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(name, flags, 0o644, dir_fd=directory))
    except FileExistsError:
        pass


# Check that a restored process has no more privileges than its new configuration allows.
#
# CRIU restores the privileges of the checkpointed process, but the images may be old, or from
# another user.  config.json decides, as in `create`.

# Field of /proc/PID/status -> the capability sets of config.json that may grant its bits.  Unless
# no_new_privs is set, execve(2) may grant everything in the bounding set.
SETS: dict[str, tuple[str, ...]] = {
    "CapBnd": ("bounding",),
    "CapPrm": ("bounding", "permitted"),
    "CapInh": ("bounding", "inheritable"),
}
SETS_OF_NO_NEW_PRIVILEGES = {**SETS, "CapPrm": ("permitted",)}
FILTERED = "2"  # SECCOMP_MODE_FILTER


def excess(status: str, config: Config) -> str:
    """Describe the privileges that a process has but config.json does not grant, or return "".

    ``status`` is the text of the process's /proc/PID/status.
    """
    facts = dict(line.split(":\t", 1) for line in status.split("\n") if ":\t" in line)
    process = config.get("process")
    if process is None or facts.get("State", "").startswith(("Z", "X")):
        return ""
    capabilities: Any = process.get("capabilities") or {}
    fixed = process.get("noNewPrivileges")
    for row, kinds in (SETS_OF_NO_NEW_PRIVILEGES if fixed else SETS).items():
        allowed = 0
        for kind in kinds:
            for name in capabilities.get(kind) or []:
                allowed |= BITS.get(name, 0)
        extra = int(facts.get(row, "0"), 16) & ~allowed
        if extra:
            names = [name for name, bit in BITS.items() if bit & extra]
            return f"process.capabilities.{kinds[-1]} has no {', '.join(names)}"
    if fixed and facts.get("NoNewPrivs") == "0":
        return "process.noNewPrivileges is true, but no_new_privs is not set"
    if (config.get("linux") or {}).get("seccomp") and facts.get("Seccomp") != FILTERED:
        return "linux.seccomp is set, but the process has no filter"
    return ""


def thread_statuses(pid: int) -> list[str]:
    """Return the text of /proc/PID/task/TID/status for each thread of process ``pid``.

    Raises OSError.
    """
    statuses = []
    for name in os.listdir(f"/proc/{pid}/task"):
        try:
            text = read_file(f"/proc/{pid}/task/{name}/status")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has exited
        statuses.append(text.decode("utf-8", "surrogateescape"))
    return statuses


def restore(context: Context, options: CreateOptions, criu: CriuOptions) -> int:
    """Restore a container from CRIU's images; return its init's exit status, or 0 with ``detach``.

    The images define the processes; config.json defines everything else.  After an error, nothing
    is left behind.  Raises UsageError for an invalid id or option, ConfigError, ContainerExists,
    ContainerError, CriuError, HookError and HostError.
    """
    check_id(options.id)
    program = find_criu(criu.program)
    context.log.debug(f"criu: {program}")
    end_on_signals()
    if not os.path.isdir(criu.image_path):
        raise ContainerError(f'--image-path "{criu.image_path}": directory not found')
    check_directory(criu.image_path, "checkpoint")  # the images in it become privileged processes
    make_directory(criu.work_path)
    record = read_record(criu.image_path)
    prepared = prepare(context, options)
    if prepared.rdt or prepared.network_devices:
        # Both settings act on the init before it runs, but here CRIU creates the init.
        where = "linux.intelRdt" if prepared.rdt else "linux.netDevices"
        raise ConfigError(where, "not supported with `restore`", "remove it from config.json")
    check_terminal(prepared.config.get("process"), options.console_socket, options.detach)
    console = None
    if options.console_socket:
        console = connect(options.console_socket, "console socket")
    os.chdir(prepared.bundle.path)
    if not options.detach and not options.no_subreaper:
        become_subreaper()
    restoration = Restoration(context, options, prepared, console)
    restoration.describe(program, criu, record, foreground=not options.detach)
    restoration.run()
    if options.detach:
        no_longer_end_on_signals()
    restoration.held.release()
    restoration.lock.release()
    return 0 if options.detach else _wait(context, restoration, options)


def _wait(context: Context, restoration: Restoration, options: CreateOptions) -> int:
    """Wait until the init exits, delete the container, and return the init's exit status."""
    pidfd = restoration.pidfd
    try:
        relay = open_relay(restoration.master)
        return wait_foreground(pidfd, restoration.pid, relay, restoration.signals)
    finally:
        os.close(pidfd)
        if not options.keep:
            delete_after_end(context, options.id)
