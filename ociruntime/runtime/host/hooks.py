"""Run the hooks that run in the runtime's namespaces (config.md#posix-platform-hooks).

These are prestart, createRuntime, poststart and poststop; createContainer and startContainer are
operations of the plan.  A hook reads the container's state on its standard input, from a sealed
memfd: a hook that never reads it cannot block the runtime.  A hook's output is written to memfds as
well, and an error message quotes the end of the output.  The runtime uses memfds instead of pipes,
because processes that the hook leaves running may continue to print; large files are truncated.
"""

from __future__ import annotations

import posix
import select
import time
from errno import EINVAL, ENOENT

from ociruntime.base.errors import ConfigError, HookError, HostError, RuntimeFailure, reason
from ociruntime.base.files import read_file, write_all
from ociruntime.base.process import inheritable_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Mapping

    from ociruntime.runtime.spec.config_types import Hook
else:
    import _signal

NO_FILES = ("", "")
S_IFMT = 0o170000
S_IFREG = 0o100000
SEEK_SET = 0
CHECK_MILLISECONDS = 10  # interval between checks of the size of a hook's output
OUTPUT_MOST = 1 << 20  # bytes of output above which the file is truncated
OUTPUT_KEPT = 1 << 16  # bytes at the end of a truncated file that are kept
OUTPUT_LIMIT = 4096  # bytes at the end of a hook's output that an error shows

F_DUPFD_CLOEXEC = 1030
F_ADD_SEALS = 1033
SEAL_ALL = 0x1 | 0x2 | 0x4 | 0x8  # F_SEAL_SEAL, _SHRINK, _GROW, _WRITE


def run_host_hooks(
    kind: str,
    hooks: list[Hook],
    state_json: str,
    debug: Callable[[str], None] | None = None,
    outputs: tuple[str, str] = NO_FILES,
    alone: bool = True,
) -> None:
    """Run the hooks of one kind, in order, until one fails.

    The working directory must be the bundle.  ``debug`` is called with a line for each hook: argv,
    outcome and duration.  ``outputs`` are paths of files for the hooks' standard output and
    standard error; "" stands for a memfd.

    ``alone``: nothing else in this process starts children, so all processes that a killed hook
    leaves behind are killed.  Without ``alone``, only the hook's process group is killed: the other
    children may belong to the program that contains the runtime.

    Raises HookError for the first hook that fails, ConfigError if a hook's environment is invalid,
    HostError if an output file cannot be opened.
    """
    for i, hook in enumerate(hooks):
        _run(f"hooks.{kind}[{i}]", hook, state_json, debug, outputs, alone)


def run_poststop_hooks(
    hooks: list[Hook],
    state_json: str,
    debug: Callable[[str], None] | None = None,
    outputs: tuple[str, str] = NO_FILES,
    alone: bool = True,
) -> list[str]:
    """Run all poststop hooks, even if one fails (runtime.md#lifecycle, step 13).

    Returns a warning for each hook that failed.
    """
    warnings = []
    for i, hook in enumerate(hooks):
        try:
            _run(f"hooks.poststop[{i}]", hook, state_json, debug, outputs, alone)
        except RuntimeFailure as failure:
            warnings.append(str(failure))
    return warnings


def _run(
    where: str,
    hook: Hook,
    state_json: str,
    debug: Callable[[str], None] | None,
    outputs: tuple[str, str],
    alone: bool,
) -> None:
    started = time.monotonic()
    stdout, stderr = map(_output_file, outputs)
    stdin = _memory_file("hook-stdin", state_json.encode())
    before = posix.fstat(stdout).st_size, posix.fstat(stderr).st_size
    try:
        outcome = _spawn_and_wait(where, hook, (stdin, stdout, stderr), alone)
        if debug is not None:
            milliseconds = (time.monotonic() - started) * 1000
            argv = hook.get("args") or [hook["path"]]
            debug(f"{where}: {argv} {outcome or 'succeeded'} after {milliseconds:.1f} ms")
        if outcome:
            raise HookError(
                f'{where}: "{hook["path"]}" {outcome}{_printed(stdout, stderr, before)}'
            )
    finally:
        for fd in (stdin, stdout, stderr):
            posix.close(fd)


def _spawn_and_wait(where: str, hook: Hook, streams: tuple[int, int, int], alone: bool) -> str:
    """Run the hook and wait for it; return the reason why it failed, "" for success.

    Blocks signals until the hook's pid is known.  If a signal handler raises an exception after
    that, kills the hook.
    """
    timeout = hook.get("timeout")
    if timeout is not None and alone:
        from ociruntime.base.process import become_subreaper

        become_subreaper()  # to find processes that left the hook's session, see _kill
    others = _children() if alone else None
    _keep_children_waitable(where, alone)
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        pid = _spawn(where, hook, streams)
    except BaseException:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        raise
    try:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        return _outcome(pid, timeout, streams[1:], others)
    except BaseException:
        _kill(pid, others)
        raise


def _keep_children_waitable(where: str, alone: bool) -> None:
    """Stop ignoring SIGCHLD: otherwise the kernel would reap the hook before we can.

    If the runtime is part of another program (not ``alone``) that ignores SIGCHLD, raises HookError
    instead.
    """
    if _signal.getsignal(_signal.SIGCHLD) != _signal.SIG_IGN:
        return
    if not alone:
        raise HookError(
            f"run {where}: the hook's exit status would be lost: this process ignores SIGCHLD",
            "call signal.signal(signal.SIGCHLD, signal.SIG_DFL)",
        )
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)


def _spawn(where: str, hook: Hook, streams: tuple[int, int, int]) -> int:
    """Start the hook in its own process group, with default signal handling; return its pid."""
    path = hook["path"]
    actions: list[tuple[int, ...]] = [
        (posix.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(streams)
    ]
    # The engine's pipes are open here without CLOEXEC.  A process that the hook leaves behind
    # would keep them open, and the engine would wait for end of file.
    actions.extend((posix.POSIX_SPAWN_CLOSE, fd) for fd in inheritable_descriptors())
    try:
        return posix.posix_spawn(
            path,
            hook.get("args") or [path],
            _environment(where, hook.get("env")),
            file_actions=actions,
            setpgroup=0,
            setsigmask=(),
            setsigdef=_signal.valid_signals(),
        )
    except ValueError as error:
        raise ConfigError(where, str(error)) from None
    except OSError as error:
        hint = ""
        if error.errno == ENOENT and _exists(path):
            hint = "the file exists, but the interpreter in its #! line does not"
        raise HookError(f'{where}.path: "{path}": {reason(error)}', hint) from None


def _exists(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def _environment(where: str, env: list[str] | None) -> Mapping[bytes, bytes]:
    """Return the environment for a hook.  Raises ConfigError for an invalid entry of ``env``.

    Without ``env``, a hook gets the runtime's environment: hooks written for other runtimes rely on
    PATH.  An empty list means no variables.
    """
    if env is None:
        return _own_environment()
    environment = {}
    for i, entry in enumerate(env):
        name, equals, value = entry.encode(errors="surrogateescape").partition(b"=")
        if not name or not equals:
            raise ConfigError(f"{where}.env[{i}]", f'"{entry}" is not of the form NAME=value')
        environment[name] = value
    return environment


def _own_environment() -> Mapping[bytes, bytes]:
    """Return this process's environment, without the LC_CTYPE that Python adds (PEP 538)."""
    environment = posix.environ
    if b"LC_CTYPE" in environment:
        initial = b"\0" + read_file("/proc/self/environ")
        if b"\0LC_CTYPE=" not in initial:
            environment = {key: environment[key] for key in environment if key != b"LC_CTYPE"}
    return environment


def _outcome(
    pid: int, timeout: int | None, outputs: tuple[int, ...], others: set[int] | None
) -> str:
    """Wait for the hook to exit; return the reason why it failed, "" for success.

    If the hook takes more than ``timeout`` seconds, kills it, and our children except ``others``.
    ``outputs`` are the descriptors of its output files; memfds that grow too large are truncated.
    """
    if not _exits_within(pid, timeout, outputs):
        _kill(pid, others)
        return f"did not end within its timeout of {timeout} s and was killed"
    _, status = posix.waitpid(pid, 0)
    if posix.WIFSIGNALED(status):
        return f"was killed by {_signal_name(posix.WTERMSIG(status))}"
    code = posix.WEXITSTATUS(status)
    return f"exited with status {code}" if code else ""


def _exits_within(pid: int, seconds: int | None, outputs: tuple[int, ...]) -> bool:
    deadline = None if seconds is None else time.monotonic() + seconds
    pidfd = posix.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        while not poll.poll(CHECK_MILLISECONDS):
            for fd in outputs:
                _truncate(fd)
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True
    finally:
        posix.close(pidfd)


def _output_file(path: str) -> int:
    """Open the file ``path`` for a hook's output; for "", create a memfd.

    Raises HostError if the file cannot be opened, or is not a regular file.
    """
    if not path:
        fd = _memory_file("hook-output")
        _append_always(fd)
        return fd
    # O_NONBLOCK: opening a FIFO must not wait for a reader.
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_APPEND | posix.O_NONBLOCK | posix.O_CLOEXEC
    try:
        fd = posix.open(path, flags | posix.O_NOCTTY, 0o600)
        if posix.fstat(fd).st_mode & S_IFMT != S_IFREG:
            posix.close(fd)
            raise OSError(EINVAL, "not a regular file")
    except OSError as error:
        raise HostError(f'open the hook output file "{path}"', error) from None
    return fd


def _append_always(fd: int) -> None:
    """Set O_APPEND on an output file: after a truncation, the hook's next write leaves no hole."""
    import fcntl

    fcntl.fcntl(fd, fcntl.F_SETFL, posix.O_APPEND)


def _truncate(fd: int) -> None:
    """Keep only the last ``OUTPUT_KEPT`` bytes of a memfd that is larger than ``OUTPUT_MOST``.

    Output that the hook writes during the truncation is lost.  A user's file is never truncated.
    """
    node = posix.fstat(fd)
    size = node.st_size
    if size > OUTPUT_MOST and node.st_nlink == 0:  # only memory files: never truncate a user's file
        end = posix.pread(fd, OUTPUT_KEPT, size - OUTPUT_KEPT)
        posix.ftruncate(fd, 0)
        posix.write(fd, end)


def _kill(pid: int, others: set[int] | None) -> None:
    """Kill the hook and all processes that it has started.

    Kills the hook's process group first: the hook is not reaped yet, so its pid cannot be reused.
    Processes that have left the group become our children when their parents exit.  Therefore kills
    all our children except ``others``, the children from before the hook, until no more appear.  If
    ``others`` is None, kills only the process group.
    """
    try:
        posix.killpg(pid, _signal.SIGKILL)
    except OSError:
        pass
    _reap(pid)
    while others is not None and (orphans := _children() - others - {pid}):
        for orphan in orphans:
            try:
                posix.kill(orphan, _signal.SIGKILL)
            except OSError:
                pass
            _reap(orphan)


def _reap(pid: int) -> None:
    try:
        posix.waitpid(pid, 0)
    except ChildProcessError:
        pass  # reaped already


def _children() -> set[int]:
    """Return the pids of our children; empty on a kernel without CONFIG_PROC_CHILDREN."""
    try:
        return set(map(int, read_file(f"/proc/self/task/{posix.getpid()}/children").split()))
    except OSError:
        return set()


def _signal_name(number: int) -> str:
    for name, value in vars(_signal).items():
        if value == number and name.startswith("SIG") and not name.startswith("SIG_"):
            return f"signal {number} ({name})"
    return f"signal {number}"


def _memory_file(name: str, content: bytes | None = None) -> int:
    """Return a descriptor of a new memfd; with ``content``, the file is sealed.

    The descriptor is above 2, even if 0, 1 or 2 are closed: otherwise a dup2(2) call before exec
    could replace it.
    """
    fd = posix.memfd_create(name, posix.MFD_CLOEXEC | posix.MFD_ALLOW_SEALING)
    if fd <= 2 or content is not None:
        import fcntl

        if fd <= 2:
            high = fcntl.fcntl(fd, F_DUPFD_CLOEXEC, 3)
            posix.close(fd)
            fd = high
        if content is not None:
            write_all(fd, content)
            posix.lseek(fd, 0, SEEK_SET)
            fcntl.fcntl(fd, F_ADD_SEALS, SEAL_ALL)
    return fd


def _printed(stdout: int, stderr: int, before: tuple[int, int]) -> str:
    """Return the end of the hook's output as one line: of stderr, or if that is empty, of stdout.

    ``before`` are the sizes of stdout and stderr before the hook ran.
    """
    for name, fd, begin in (("stderr", stderr, before[1]), ("stdout", stdout, before[0])):
        size = posix.fstat(fd).st_size
        raw = posix.pread(fd, OUTPUT_LIMIT, max(size - OUTPUT_LIMIT, begin))
        lines = raw.decode(errors="replace").strip().splitlines()
        text = " | ".join(lines)
        if text:
            return f"; {name}: {text}"
    return ""
