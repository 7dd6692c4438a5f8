"""Hooks that run in the runtime's namespaces (config.md#posix-platform-hooks).

These are prestart, createRuntime, poststart and poststop; createContainer and startContainer
are operations of the plan.  A hook gets the container's state on its standard input, from a
sealed file in memory: one that never reads it cannot block anything.  What it prints goes to
files in memory as well, and the end of it into the error.
"""

from __future__ import annotations

import posix
import select
import time

from ociruntime.errors import ConfigError, HookError, RuntimeFailure, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Mapping

    from ociruntime.spec.document import Hook
else:
    import _signal

ENOENT = 2
SEEK_SET = 0
OUTPUT_LIMIT = 4096  # bytes at the end of a hook's output that an error shows

F_DUPFD_CLOEXEC = 1030
F_ADD_SEALS = 1033
SEAL_ALL = 0x1 | 0x2 | 0x4 | 0x8  # F_SEAL_SEAL, _SHRINK, _GROW, _WRITE


def run_host_hooks(
    kind: str, hooks: list[Hook], state_json: str, debug: Callable[[str], None] | None = None
) -> None:
    """Run the hooks of one kind in order; the first failure raises HookError and ends it.

    The working directory is the caller's, who has gone to the bundle.  ``debug`` is told
    of each hook's argv, outcome and duration.
    """
    for i, hook in enumerate(hooks):
        _run(f"hooks.{kind}[{i}]", hook, state_json, debug)


def run_poststop_hooks(
    hooks: list[Hook], state_json: str, debug: Callable[[str], None] | None = None
) -> list[str]:
    """Run all poststop hooks, whatever becomes of each (runtime.md#lifecycle, step 13).

    Returns a warning for each one that failed.
    """
    warnings = []
    for i, hook in enumerate(hooks):
        try:
            _run(f"hooks.poststop[{i}]", hook, state_json, debug)
        except RuntimeFailure as failure:
            warnings.append(str(failure))
    return warnings


def _run(where: str, hook: Hook, state_json: str, debug: Callable[[str], None] | None) -> None:
    started = time.monotonic()
    stdin = _memory_file("hook-stdin", state_json.encode())
    stdout = _memory_file("hook-stdout")
    stderr = _memory_file("hook-stderr")
    try:
        outcome = _spawn_and_wait(where, hook, (stdin, stdout, stderr))
        if debug is not None:
            milliseconds = (time.monotonic() - started) * 1000
            argv = hook.get("args") or [hook["path"]]
            debug(f"{where}: {argv} {outcome or 'succeeded'} after {milliseconds:.1f} ms")
        if outcome:
            raise HookError(f'{where}: "{hook["path"]}" {outcome}{_printed(stdout, stderr)}')
    finally:
        for fd in (stdin, stdout, stderr):
            posix.close(fd)


def _spawn_and_wait(where: str, hook: Hook, streams: tuple[int, int, int]) -> str:
    """Run the hook to its end; what went wrong, or nothing.

    A signal that ends this process by an exception waits until there is a pid to kill: a hook
    does not outlive the runtime that was interrupted.
    """
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        pid = _spawn(where, hook, streams)
    except BaseException:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        raise
    try:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        return _outcome(pid, hook.get("timeout"))
    except BaseException:
        _kill_group(pid)
        try:
            posix.waitpid(pid, 0)
        except ChildProcessError:
            pass  # it came right behind the end of the hook
        raise


def _spawn(where: str, hook: Hook, streams: tuple[int, int, int]) -> int:
    """Start the hook in a process group of its own, with a clean signal state; its pid."""
    path = hook["path"]
    # An engine that ignores SIGCHLD hands that on, and the kernel would reap the hook.
    if _signal.getsignal(_signal.SIGCHLD) == _signal.SIG_IGN:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    actions: list[tuple[int, ...]] = [
        (posix.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(streams)
    ]
    # Pipes of the engine are open here without CLOEXEC; a hook that leaves a process behind
    # would keep the engine waiting for their end.
    actions.extend((posix.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable())
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
            hint = "the file is there; the interpreter that it names is not"
        raise HookError(f'{where}.path: "{path}": {reason(error)}', hint) from None


def _inheritable() -> list[int]:
    """Descriptors above 2 that a program started now would get."""
    found = []
    for name in posix.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and posix.get_inheritable(fd):
                found.append(fd)
        except OSError:
            pass  # that of the listing itself
    return found


def _exists(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def _environment(where: str, env: list[str] | None) -> Mapping[bytes, bytes]:
    """The hook's environment.

    Absent means the runtime's own: hooks written for other runtimes count on PATH.  An empty
    list means none.
    """
    if env is None:
        return posix.environ
    environment = {}
    for i, entry in enumerate(env):
        name, equals, value = entry.encode(errors="surrogateescape").partition(b"=")
        if not name or not equals:
            raise ConfigError(f"{where}.env[{i}]", f'"{entry}" is not of the form NAME=value')
        environment[name] = value
    return environment


def _outcome(pid: int, timeout: int | None) -> str:
    """Wait for the hook; what went wrong, or nothing."""
    expired = timeout is not None and not _ends_within(pid, timeout)
    if expired:
        _kill_group(pid)
    _, status = posix.waitpid(pid, 0)
    if expired:
        return f"did not end within its timeout of {timeout} s and was killed"
    if posix.WIFSIGNALED(status):
        return f"was killed by {_signal_name(posix.WTERMSIG(status))}"
    code = posix.WEXITSTATUS(status)
    return f"exited with status {code}" if code else ""


def _ends_within(pid: int, seconds: int) -> bool:
    pidfd = posix.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(min(seconds * 1000, 0x7FFFFFFF)))
    finally:
        posix.close(pidfd)


def _kill_group(pid: int) -> None:
    """Kill the hook and what it has started; not waited for yet, the pid is still its own."""
    try:
        posix.killpg(pid, _signal.SIGKILL)
    except OSError:
        pass


def _signal_name(number: int) -> str:
    for name, value in vars(_signal).items():
        if value == number and name.startswith("SIG") and not name.startswith("SIG_"):
            return f"signal {number} ({name})"
    return f"signal {number}"


def _memory_file(name: str, content: bytes | None = None) -> int:
    """A file in memory; with ``content`` it is sealed and read from its start.

    The descriptor is never one of the standard three, also if those are closed: the
    duplications before exec would overwrite one another.
    """
    fd = posix.memfd_create(name, posix.MFD_CLOEXEC | posix.MFD_ALLOW_SEALING)
    if fd <= 2 or content is not None:
        import fcntl

        if fd <= 2:
            high = fcntl.fcntl(fd, F_DUPFD_CLOEXEC, 3)
            posix.close(fd)
            fd = high
        if content is not None:
            view = memoryview(content)
            while view:
                view = view[posix.write(fd, view) :]
            posix.lseek(fd, 0, SEEK_SET)
            fcntl.fcntl(fd, F_ADD_SEALS, SEAL_ALL)
    return fd


def _printed(stdout: int, stderr: int) -> str:
    """The end of what the hook printed, on one line: of stderr, of stdout if that is empty."""
    for name, fd in (("stderr", stderr), ("stdout", stdout)):
        size = posix.fstat(fd).st_size
        raw = posix.pread(fd, OUTPUT_LIMIT, max(size - OUTPUT_LIMIT, 0))
        lines = raw.decode(errors="replace").strip().splitlines()
        # Whatever steers a terminal stays out of the log.
        text = " | ".join(lines)
        text = "".join([c if c.isprintable() else " " for c in text])
        if text:
            return f"; {name}: {text}"
    return ""
