"""The parsed options of a command: ``CreateOptions``, ``ExecOptions`` and ``Context``."""

from __future__ import annotations

import posix
from time import monotonic

from ociruntime.runtime.lifecycle.state_root import is_rootless, state_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.base.log import Log
    from ociruntime.runtime.lifecycle.timeline import Timeline
    from ociruntime.runtime.plan.plan import Plan


class CreateOptions:
    """The options of ``create``, ``run`` and ``plan`` for one container.

    ``bundle``, ``console_socket`` and ``pid_file`` are absolute paths, or "" if not given.
    ``config`` is the absolute path of a file to use instead of the bundle's config.json, or "".
    ``preserve_fds`` is the number of descriptors, starting with 3, to pass to the container.
    ``detach`` is always true for ``create``.  ``streams`` are the descriptors that become the
    container's standard input, output and error.
    """

    __slots__ = (
        "bundle",
        "config",
        "console_socket",
        "detach",
        "id",
        "keep",
        "no_new_keyring",
        "no_pivot",
        "no_subreaper",
        "pid_file",
        "pidfd_socket",
        "preserve_fds",
        "streams",
    )

    def __init__(
        self,
        id: str,
        bundle: str,
        config: str = "",
        console_socket: str = "",
        pid_file: str = "",
        no_pivot: bool = False,
        no_new_keyring: bool = False,
        preserve_fds: int = 0,
        detach: bool = True,
        keep: bool = False,
        no_subreaper: bool = False,
        pidfd_socket: str = "",
        streams: tuple[int, int, int] = (0, 1, 2),
    ) -> None:
        self.id = id
        self.bundle = bundle
        self.config = config
        self.console_socket = console_socket
        self.pid_file = pid_file
        self.no_pivot = no_pivot
        self.no_new_keyring = no_new_keyring
        self.preserve_fds = preserve_fds
        self.detach = detach
        self.keep = keep
        self.no_subreaper = no_subreaper
        self.pidfd_socket = pidfd_socket
        self.streams = streams


class ExecOptions:
    """The options of `exec`.

    ``process_file``, ``console_socket``, ``pidfd_socket`` and ``pid_file`` are absolute paths, or
    "".  ``user`` is UID or UID:GID.  If ``user``, ``cwd``, ``apparmor`` or ``process_label`` is "",
    the process gets the value of the container's own process.  ``streams`` become its descriptors
    0, 1 and 2.
    """

    __slots__ = (
        "additional_gids",
        "apparmor",
        "args",
        "capabilities",
        "cgroups",
        "console_socket",
        "cwd",
        "detach",
        "env",
        "id",
        "ignore_paused",
        "no_new_privs",
        "pid_file",
        "pidfd_socket",
        "preserve_fds",
        "process_file",
        "process_label",
        "streams",
        "tty",
        "user",
    )

    def __init__(
        self,
        id: str,
        args: Sequence[str] = (),
        *,
        process_file: str = "",
        detach: bool = False,
        pid_file: str = "",
        tty: bool = False,
        console_socket: str = "",
        pidfd_socket: str = "",
        cwd: str = "",
        env: Sequence[str] = (),
        user: str = "",
        additional_gids: Sequence[str] = (),
        capabilities: Sequence[str] = (),
        no_new_privs: bool = False,
        apparmor: str = "",
        process_label: str = "",
        preserve_fds: int = 0,
        cgroups: Sequence[str] = (),
        ignore_paused: bool = False,
        streams: tuple[int, int, int] = (0, 1, 2),
    ) -> None:
        self.id = id
        self.args = list(args)
        self.process_file = process_file
        self.detach = detach
        self.pid_file = pid_file
        self.tty = tty
        self.console_socket = console_socket
        self.pidfd_socket = pidfd_socket
        self.cwd = cwd
        self.env = list(env)
        self.user = user
        self.additional_gids = list(additional_gids)
        self.capabilities = list(capabilities)
        self.no_new_privs = no_new_privs
        self.apparmor = apparmor
        self.process_label = process_label
        self.preserve_fds = preserve_fds
        self.cgroups = list(cgroups)
        self.ignore_paused = ignore_paused
        self.streams = streams


class Context:
    """The settings that all commands share.

    ``root``: absolute path of the state root.  ``root_given``: True if the user has chosen it.
    ``cgroup_manager``: ``cgroupfs``, ``systemd`` or ``disabled``.  ``rootless``: do without the
    cgroups that this user may not create.  ``user_manager``: create units in the user's systemd
    instance.

    ``alone``: True if this process runs one command and nothing else.  If False, this process is
    another program that uses ``api.py``; commands must not change its signal handlers, children and
    service manager settings.
    """

    __slots__ = (
        "_begun",
        "alone",
        "cgroup_manager",
        "log",
        "root",
        "root_given",
        "rootless",
        "timeline",
        "user_manager",
    )

    def __init__(
        self,
        root: str,
        log: Log,
        cgroup_manager: str = "cgroupfs",
        rootless: bool = False,
        root_given: bool = True,
        user_manager: bool = False,
        alone: bool = True,
    ) -> None:
        self.alone = alone
        self.root = root
        self.log = log
        self.cgroup_manager = cgroup_manager
        self.rootless = rootless
        self.root_given = root_given
        self.user_manager = user_manager
        self.timeline: Timeline | None = None  # with --timeline, or --debug
        self._begun = monotonic()

    def mark(self, phase: str) -> None:
        """Record in the timeline and in the debug log that a phase of the command begins now."""
        if self.log.debugging:
            self.log.debug(f"phase: {phase} (after {(monotonic() - self._begun) * 1000:.1f} ms)")
        if self.timeline is not None:
            self.timeline.mark(phase)

    def times_of(self, plan: Plan) -> int:
        """Return a memfd for the executor to record when each operation of ``plan`` starts.

        Returns -1 unless ``--timeline`` or ``--debug`` is given.
        """
        if self.timeline is None and self.log.debugging:
            from ociruntime.runtime.lifecycle.timeline import Timeline

            self.timeline = Timeline("", "", [])
        return -1 if self.timeline is None else self.timeline.follow(plan)

    def save_times(self) -> None:
        """Write the timeline file; with ``--debug``, log the operations since the previous call."""
        if self.timeline is None:
            return
        if self.log.debugging:
            for line in self.timeline.carried_out():
                self.log.debug(line)
        self.timeline.save()


def open_context(
    log: Log,
    root: str = "",
    cgroup_manager: str = "cgroupfs",
    rootless: str = "auto",
    alone: bool = True,
) -> Context:
    """Return the context of a command, from its options and the environment.

    Creates no files.  If ``root`` is "", uses the default state root.  ``rootless`` is ``true``,
    ``false`` or ``auto``.  Raises UsageError if ``root`` is "/", and HostError if the working
    directory was deleted.
    """
    environ, euid = posix.environ, posix.geteuid()
    user = is_rootless(environ, euid)
    return Context(
        state_root(root, environ, euid),
        log,
        cgroup_manager,
        user if rootless == "auto" else rootless == "true",
        root != "",
        user,
        alone,
    )
