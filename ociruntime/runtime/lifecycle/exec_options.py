"""The options of `exec`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class ExecOptions:
    """``process_file``, ``console_socket``, ``pidfd_socket`` and ``pid_file`` are absolute paths,
    "" where none was given.  ``user`` is UID or UID:GID, and "" the container's, as are an empty
    ``cwd``, ``apparmor`` and ``process_label``.  ``streams`` are the descriptors that the process
    gets as 0, 1 and 2.
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
