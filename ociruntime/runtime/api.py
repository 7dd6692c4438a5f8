"""The Python library: the class ``Runtime``, whose methods run containers and raise exceptions.

``import ociruntime`` exports the public names of this file; docs/api.md explains them.  No method
changes the calling process: its working directory, signal handlers, umask, environment and children
stay as they are.  All methods may be called from several threads at once.

The runtime needs the bundle as its working directory: hooks run there, and relative paths start
there.  All threads of a process share one working directory, unless a thread unshares it
(CLONE_FS).  Therefore each method that needs the directory runs in a thread of its own
(``in_own_thread``).
"""

from __future__ import annotations

import _thread
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import strerror
from subprocess import DEVNULL
from types import TracebackType
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack

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
    reason,
)
from ociruntime.base.log import Log, plain
from ociruntime.base.process import await_end, end_status, open_child
from ociruntime.runtime.lifecycle.container import load
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context, CreateOptions, open_context
from ociruntime.runtime.lifecycle.create import begin
from ociruntime.runtime.lifecycle.delete import delete
from ociruntime.runtime.lifecycle.kill import kill
from ociruntime.runtime.lifecycle.list import list_containers
from ociruntime.runtime.lifecycle.start import start
from ociruntime.runtime.lifecycle.state import state
from ociruntime.runtime.lifecycle.state_root import make_root

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
    """The keyword arguments that ``Runtime.run`` passes on to ``Runtime.create``."""

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
    """The state of a container at one moment.

    ``status`` is ``created``, ``running``, ``paused`` or ``stopped``.  ``pid`` is the init's pid on
    the host, or 0 if the init has exited.  ``created`` is a time in UTC (RFC 3339).  ``owner`` is
    the name of the user who owns the state directory.
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
    """A child of this Python process: the init of a container, or a process of ``Runtime.exec``.

    ``pid`` is its pid on the host.  ``pidfd`` becomes readable when the process exits, for use with
    poll, selectors and asyncio.  A ``with`` block calls ``close`` at its end, but does not stop the
    process.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process exits; return its exit status, or 128+n if signal n killed it.

        Later calls return the same status.  Raises TimeoutError after ``timeout`` seconds, and
        ChildProcessError if other code in this program has reaped the process (by waiting for any
        child, or by ignoring SIGCHLD).
        """
        if self._status is None:
            status = status_of(self.pidfd, f"process {self.pid}", timeout)
            if status is not None:
                self._status = status
        if self._status is None:
            raise ChildProcessError(
                f"wait for process {self.pid}: other code in this program has reaped it"
            )
        return self._status

    def close(self) -> None:
        """Close ``pidfd``, and reap the process if it has exited.

        A running process keeps running.
        """
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
    """A manager of the containers in one state root; immutable.

    ``root``: the state root; "" selects the same default as the command ``ociruntime``.
    ``cgroup_manager``: ``cgroupfs``, ``systemd`` or ``disabled`` (no cgroups).  ``rootless``: do
    without the cgroups that this user may not create; None means True for unprivileged users.
    ``log``: receives warnings and, at level DEBUG, a line for each action.

    Methods raise subclasses of RuntimeFailure.  If ``create``, ``run`` or ``exec`` fails, nothing
    is left behind.
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
                f'cgroup_manager="{cgroup_manager}": unknown cgroup manager',
                "use cgroupfs, systemd or disabled",
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
        """The absolute path of the state root."""
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
        """Create a container from a bundle; return its init, which waits for ``start``.

        ``config``: a file to use instead of the bundle's ``config.json``.
        """
        settings: CreateSettings = {
            "config": config,
            "stdin": stdin,
            "stdout": stdout,
            "stderr": stderr,
            "console_socket": console_socket,
            "pid_file": pid_file,
            "no_pivot": no_pivot,
            "new_keyring": new_keyring,
        }
        return self._create([], id, bundle, settings)

    def _create(
        self, created: list[Process], id: str, bundle: Path, settings: CreateSettings
    ) -> Process:
        """Create a container; return its init, and also append the init to ``created``.

        A signal handler may raise an exception after the container has been created.  The caller
        then finds the init in ``created``.
        """

        def act(streams: tuple[int, int, int]) -> Process:
            options = CreateOptions(
                id,
                _absolute(bundle),
                _absolute(settings.get("config", "")),
                _absolute(settings.get("console_socket", "")),
                _absolute(settings.get("pid_file", "")),
                no_pivot=settings.get("no_pivot", False),
                no_new_keyring=not settings.get("new_keyring", True),
                streams=streams,
            )
            return self._carry_out(lambda: make(options))

        def make(options: CreateOptions) -> Process:
            make_root(self._context)
            creation = begin(self._context, options)
            creation.lock.release()
            created.append(Process(creation.executor.pid, creation.executor.pidfd))
            creation.held.release()  # last: a delayed signal handler may raise an exception here
            return created[0]

        streams = settings.get("stdin"), settings.get("stdout"), settings.get("stderr")
        return with_streams(streams, act)

    def start(self, id: str) -> None:
        """Start the program of container ``id``; return when the poststart hooks have run."""
        self._carry_out(lambda: start(self._context, id))

    def run(self, id: str, bundle: Path, **settings: Unpack[CreateSettings]) -> int:
        """Create and start a container, wait until it exits, and delete it; return its exit status.

        Accepts the arguments of ``create``.  The container is deleted even after an exception,
        including KeyboardInterrupt.
        """
        created: list[Process] = []
        try:
            process = self._create(created, id, bundle, settings)
            self.start(id)
            return process.wait()
        finally:
            if created:
                try:
                    self.delete(id, force=True)
                finally:
                    created[0].close()

    def state(self, id: str) -> State:
        """Return the current state of container ``id``."""
        return _state(state(self._context, id))

    def list(self) -> tuple[State, ...]:
        """Return the states of all containers in the state root, sorted by id."""
        if not os.path.exists(self.root):
            return ()  # the first `create` makes the state root
        return tuple(map(_state, list_containers(self._context)))

    def kill(self, id: str, signal: int = SIGTERM, *, all: bool = False) -> None:
        """Send a signal to the init of container ``id``; with ``all``, to all its processes."""
        kill(self._context, id, int(signal), all)

    def delete(self, id: str, *, force: bool = False) -> None:
        """Delete a container that has stopped or was never started; ``force`` kills it first."""
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

        ``env`` is added to the environment of the container's own process.  ``user`` is ``UID`` or
        ``UID:GID``.  ``user`` and ``cwd`` default to the values of the container's own process.
        """
        from ociruntime.runtime.lifecycle.context import ExecOptions
        from ociruntime.runtime.lifecycle.exec import begin

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
        """Wait until the init of container ``id`` exits; return its status, or 128+n for signal n.

        Only the process that has created the container gets the status, and only once; otherwise
        the result is None.  Raises TimeoutError after ``timeout`` seconds.
        """
        return wait(self._context, id, timeout)

    def _carry_out(self, work: Callable[[], Result]) -> Result:
        """Call ``work`` in a thread with its own working directory; return its result."""
        return in_own_thread(work)

    def __repr__(self) -> str:
        return f"Runtime({self.root!r})"


class _LoggerLog(Log):
    """A log whose warnings and debug lines go to a logger of the module ``logging``."""

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
    # Keep "..": after a symbolic link, only the kernel knows where it leads.
    return os.path.join(os.getcwd(), path) if os.fspath(path) else ""


def wait(context: Context, container_id: str, seconds: float | None = None) -> int | None:
    """Wait until a container's init exits; return its status, or 128+n if signal n killed it.

    Returns None if the init is not a child of this process, because only its parent gets the
    status. Raises UsageError for an invalid id, NoSuchContainer, HostError or ContainerError if the
    container's state cannot be read, and TimeoutError after ``seconds``.
    """
    check_id(container_id)
    container = load(context.root, container_id)
    pidfd = open_child(container.pid, container.started)
    if pidfd < 0:
        return None
    try:
        return status_of(pidfd, container_id, seconds)
    finally:
        os.close(pidfd)


def status_of(pidfd: int, name: str, seconds: float | None) -> int | None:
    """Wait until a child process exits; return its exit status, or 128+n if signal n killed it.

    ``pidfd`` refers to the child, and ``name`` describes it in the error message.  Returns None if
    other code has already reaped the child.  Raises TimeoutError after ``seconds``; None means no
    limit.
    """
    if not await_end(pidfd, seconds):
        raise TimeoutError(f"wait for {name}: timed out after {seconds} s")
    return end_status(pidfd)


class HasDescriptor(Protocol):
    """An object with a method ``fileno``, such as an open file or a socket."""

    def fileno(self) -> int: ...


# A descriptor, a file object or DEVNULL; None is the stream of this process (like subprocess.run).
Stream = int | HasDescriptor | None


def with_streams(
    streams: tuple[Stream, Stream, Stream], act: Callable[[tuple[int, int, int]], Result]
) -> Result:
    """Call ``act`` with the descriptors of stdin, stdout and stderr; return its result.

    ``streams``: for each of the three a descriptor, a file or DEVNULL, or None for this process's
    own stream.  Raises UsageError if a descriptor is not open.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) if DEVNULL in streams else -1
    try:
        stdin, stdout, stderr = (
            _descriptor(name, own, stream, null)
            for own, (name, stream) in enumerate(
                zip(("stdin", "stdout", "stderr"), streams, strict=True)
            )
        )
        return act((stdin, stdout, stderr))
    finally:
        if null >= 0:
            os.close(null)


def _descriptor(name: str, own: int, stream: Stream, null: int) -> int:
    """Return the descriptor for the container's stream ``name``.

    If ``stream`` is None, returns ``own``, the descriptor of the same stream of this process.  If
    ``stream`` is DEVNULL, returns ``null``.  Raises UsageError if ``own`` or the returned
    descriptor is not open.
    """
    if stream is None:
        fd = own
    elif isinstance(stream, int):
        fd = null if stream == DEVNULL else stream
    else:
        fd = stream.fileno()
    for needed in (own, fd):
        try:
            os.fstat(needed)
        except OSError as error:
            raise UsageError(
                f"{name}: descriptor {needed} is not open ({reason(error)})",
                "open at least /dev/null as descriptors 0, 1 and 2, and pass only open descriptors",
            ) from None
    return fd


def in_own_thread(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a separate thread; return its result, or raise its exception.

    An exception from a signal handler is delayed until the work is finished.  Raises HostError if
    the thread cannot unshare its working directory.
    """
    results: list[Result] = []
    failures: list[BaseException] = []
    done = _thread.allocate_lock()  # unlike Thread.join, correct if interrupted
    done.acquire()

    def carry_out() -> None:
        try:
            _leave_shared_directory()
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            failures.append(error)
        finally:
            done.release()

    _thread.start_new_thread(carry_out, ())
    interrupted: BaseException | None = None
    while not (results or failures):
        try:
            done.acquire()
        except BaseException as error:  # noqa: BLE001 - whatever a signal handler raises
            interrupted = error
    if failures:
        raise failures.pop()
    if interrupted is not None:
        raise interrupted
    return results[0]


def _leave_shared_directory() -> None:
    from ociruntime._system_calls import lib

    result = lib.oci_unshare_fs()
    if result < 0:
        raise HostError("unshare a thread's working directory", OSError(-result, strerror(-result)))
