"""Containers for Python programs: the commands as methods, errors as exceptions.

``import ociruntime`` is enough; its names come from here.  docs/api.md explains them.  Nothing
of the calling process changes: not its working directory, signal handlers, umask, environment
or children.  All methods may be called from several threads at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from ociruntime.base.errors import (
    ConfigError,
    ContainerError,
    ContainerExists,
    HookError,
    HostError,
    InternalError,
    NoSuchContainer,
    NotRunning,
    RuntimeFailure,
    StepError,
    UsageError,
)
from ociruntime.base.log import Log, plain
from ociruntime.base.process import end_status
from ociruntime.runtime.host.own_thread import in_own_thread
from ociruntime.runtime.lifecycle.context import CreateOptions, make_root, open_context
from ociruntime.runtime.lifecycle.create import begin
from ociruntime.runtime.lifecycle.delete import delete
from ociruntime.runtime.lifecycle.kill import kill
from ociruntime.runtime.lifecycle.list import list_containers
from ociruntime.runtime.lifecycle.start import start
from ociruntime.runtime.lifecycle.state import state
from ociruntime.runtime.lifecycle.streams import Stream, with_streams
from ociruntime.runtime.lifecycle.wait import status_of, wait

__all__ = [
    "ConfigError",
    "ContainerError",
    "ContainerExists",
    "HookError",
    "HostError",
    "InternalError",
    "NoSuchContainer",
    "NotRunning",
    "Process",
    "Runtime",
    "RuntimeFailure",
    "State",
    "StepError",
    "UsageError",
]

SIGTERM = 15

Result = TypeVar("Result")
Path = str | os.PathLike[str]


class CreateSettings(TypedDict, total=False):
    """Settings of ``run`` that it passes to ``create``."""

    config: Path
    stdin: Stream
    stdout: Stream
    stderr: Stream
    console_socket: Path
    pid_file: Path
    no_pivot: bool
    new_keyring: bool


@dataclass(frozen=True, slots=True)
class State:
    """A snapshot of a container's state.

    ``status`` is ``created``, ``running``, ``paused`` or ``stopped``; ``pid`` is the
    init's pid on the host, 0 if it has exited; ``created`` is a time in UTC (RFC 3339).
    """

    id: str
    status: str
    pid: int
    bundle: str
    rootfs: str
    created: str
    owner: str
    annotations: Mapping[str, str]


class Process:
    """A child of this process: a container's init, or a process of ``exec``.

    ``pid`` is its pid on the host; ``pidfd`` becomes readable when it exits (for poll, selectors,
    asyncio).  ``close``, or the end of a ``with``, closes the descriptor and leaves the process
    running; a process that has exited is reaped.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, 128+n if signal n ended it; later calls return the same.

        Raises TimeoutError after ``timeout`` seconds, and ChildProcessError if something else
        in this program has taken the status (a ``wait`` for any child, an ignored SIGCHLD).
        """
        if self._status is None:
            found = status_of(self.pidfd, f"process {self.pid}", timeout)
            if found is not None:
                self._status = found
        if self._status is None:
            raise ChildProcessError(
                f"the status of process {self.pid} was collected by another wait in this program"
            )
        return self._status

    def close(self) -> None:
        if self.pidfd < 0:
            return

        end_status(self.pidfd)
        os.close(self.pidfd)
        self.pidfd = -1

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Runtime:
    """The settings of a runtime: where containers are stored and how they are created; immutable.

    ``root``: the state directory; the default is that of the command.  ``cgroup_manager``: what
    creates cgroups.  ``rootless``: continue without cgroups that this user may not create; None
    decides by the user.  ``log`` gets warnings and, at level DEBUG, each action.

    Methods raise subclasses of RuntimeFailure, and then leave nothing changed.
    """

    __slots__ = ("_context",)

    def __init__(
        self,
        root: Path = "",
        *,
        cgroup_manager: Literal["cgroupfs", "systemd", "disabled"] = "cgroupfs",
        rootless: bool | None = None,
        log: logging.Logger | None = None,
    ) -> None:

        if cgroup_manager not in ("cgroupfs", "systemd", "disabled"):
            raise UsageError(
                f'cgroup_manager="{cgroup_manager}"', "one of cgroupfs, systemd, disabled"
            )
        self._context = open_context(
            _LoggerLog(log or logging.getLogger("ociruntime")),
            os.fspath(root),
            cgroup_manager,
            "auto" if rootless is None else str(rootless).lower(),
            alone=False,
        )

    @property
    def root(self) -> str:
        """The absolute path of the state directory."""
        return self._context.root

    def create(
        self,
        id: str,
        bundle: Path,
        *,
        config: Path = "",
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        console_socket: Path = "",
        pid_file: Path = "",
        no_pivot: bool = False,
        new_keyring: bool = True,
    ) -> Process:
        """Create a container, whose init then waits for ``start``.

        ``config`` is used instead of the bundle's ``config.json``.
        """

        def act(streams: tuple[int, int, int]) -> Process:
            options = CreateOptions(
                id,
                _absolute(bundle),
                _absolute(config),
                _absolute(console_socket),
                _absolute(pid_file),
                no_pivot=no_pivot,
                no_new_keyring=not new_keyring,
                streams=streams,
            )
            return self._carry_out(lambda: make(options))

        def make(options: CreateOptions) -> Process:
            make_root(self._context)
            creation = begin(self._context, options)
            creation.lock.release()
            return Process(creation.executor.pid, creation.executor.pidfd)

        return with_streams((stdin, stdout, stderr), act)

    def start(self, id: str) -> None:
        """Start the program; return when it runs and the poststart hooks have finished."""
        self._carry_out(lambda: start(self._context, id))

    def run(self, id: str, bundle: Path, **settings: Unpack[CreateSettings]) -> int:
        """Create, start, wait and delete; return the exit status.

        Accepts the arguments of ``create``.  After an exception (including KeyboardInterrupt), the
        container is deleted, too.
        """
        with self.create(id, bundle, **settings) as process:
            try:
                self.start(id)
                return process.wait()
            finally:
                self.delete(id, force=True)

    def state(self, id: str) -> State:
        """Return the container's state."""
        return _state(state(self._context, id))

    def list(self) -> tuple[State, ...]:
        """Return all containers of this root, sorted by id."""
        if not os.path.exists(self.root):
            return ()  # the first `create` makes it
        return tuple(map(_state, list_containers(self._context)))

    def kill(self, id: str, signal: int = SIGTERM, *, all: bool = False) -> None:
        """Send a signal to the init or, with ``all``, to every process."""
        kill(self._context, id, int(signal), all)

    def delete(self, id: str, *, force: bool = False) -> None:
        """Delete a container that has stopped or was never started; with ``force`` any."""
        self._carry_out(lambda: delete(self._context, id, force))

    def exec(
        self,
        id: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        capabilities: Sequence[str] = (),
        no_new_privileges: bool = False,
        terminal: bool = False,
        console_socket: Path = "",
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> Process:
        """Run a program in a created or running container; return its process.

        ``env`` is added to that of the container's process; ``user`` is ``UID`` or
        ``UID:GID``, by default the container's; so is ``cwd``.
        """
        from ociruntime.runtime.lifecycle.exec import ExecOptions, begin

        def act(streams: tuple[int, int, int]) -> Process:
            options = ExecOptions(
                id,
                args,
                detach=True,
                tty=terminal,
                console_socket=_absolute(console_socket),
                cwd=cwd,
                env=[f"{name}={value}" for name, value in (env or {}).items()],
                user=user,
                capabilities=capabilities,
                no_new_privs=no_new_privileges,
                streams=streams,
            )
            return self._carry_out(lambda: make(options))

        def make(options: ExecOptions) -> Process:
            executor = begin(self._context, options).executor
            return Process(executor.pid, executor.pidfd)

        return with_streams((stdin, stdout, stderr), act)

    def wait(self, id: str, timeout: float | None = None) -> int | None:
        """Wait for the init's exit; return its exit status, 128+n if signal n ended it.

        Only the process that created the container gets the status, and only once; others get None.
        Raises TimeoutError after ``timeout`` seconds.
        """
        return wait(self._context, id, timeout)

    def _carry_out(self, work: Callable[[], Result]) -> Result:

        return in_own_thread(work)

    def __repr__(self) -> str:
        return f"Runtime({self.root!r})"


class _LoggerLog(Log):
    """A log that writes to a logger; the error of a call is raised, not logged."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(debug=logger.isEnabledFor(logging.DEBUG))
        self._logger = logger

    def warning(self, message: str) -> None:
        self._logger.warning("%s", plain(message))

    def debug(self, message: str) -> None:
        self._logger.debug("%s", plain(message))


def _state(document: dict[str, Any]) -> State:
    return State(
        document["id"],
        document["status"],
        document["pid"],
        document["bundle"],
        document["rootfs"],
        document["created"],
        document["owner"],
        document.get("annotations") or {},
    )


def _absolute(path: Path) -> str:
    # Without touching "..": behind a symbolic link only the kernel knows where it leads.
    return os.path.join(os.getcwd(), path) if os.fspath(path) else ""
