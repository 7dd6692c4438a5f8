from __future__ import annotations

import json
import os
import posix
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ociruntime.base.errors import ConfigError, HookError, HostError
from ociruntime.runtime.host import hooks
from ociruntime.runtime.host.hooks import run_host_hooks, run_poststop_hooks
from tests.support.descriptors import open_descriptors

if TYPE_CHECKING:
    from ociruntime.runtime.spec.config_types import Hook

STATE = json.dumps({"ociVersion": "1.3.0", "id": "c", "status": "creating", "pid": 7})


def shell(script: str, env: list[str] | None = None, timeout: int | None = None) -> Hook:
    hook: Hook = {"path": "/bin/sh", "args": ["sh", "-c", script]}
    if env is not None:
        hook["env"] = env
    if timeout is not None:
        hook["timeout"] = timeout
    return hook


def failure(*hooks: Hook, kind: str = "createRuntime") -> str:
    with pytest.raises(HookError) as caught:
        run_host_hooks(kind, list(hooks), STATE)
    return str(caught.value)


def test_state_arrives_on_stdin_and_ends(tmp_path: Path) -> None:
    out = tmp_path / "state"
    run_host_hooks("createRuntime", [shell(f"cat >{out}"), shell(f"cat >>{out}")], STATE)
    assert out.read_text() == STATE * 2


def test_a_large_state_that_nobody_reads() -> None:
    run_host_hooks("createRuntime", [shell("exit 0")], "x" * (4 << 20))


def test_order_and_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_host_hooks("prestart", [shell("echo 1 >>o"), shell("echo 2 >>o"), shell("pwd >>o")], STATE)
    assert (tmp_path / "o").read_text() == f"1\n2\n{tmp_path}\n"


def test_args_are_the_whole_argv(tmp_path: Path) -> None:
    script = tmp_path / "hook"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >{tmp_path}/argv\n')
    script.chmod(0o755)
    run_host_hooks("prestart", [{"path": str(script)}], STATE)
    assert (tmp_path / "argv").read_text() == f"{script} \n"
    hook: Hook = {"path": "/bin/sh", "args": ["other", "-c", f'echo "$0" >{tmp_path}/argv', "zero"]}
    run_host_hooks("prestart", [hook], STATE)
    assert (tmp_path / "argv").read_text() == "zero\n"


def test_environment(tmp_path: Path) -> None:
    def environment(env: list[str] | None) -> set[str]:
        hook: Hook = {"path": "/usr/bin/dd", "args": ["dd", "if=/proc/self/environ", f"of={out}"]}
        if env is not None:
            hook["env"] = env
        run_host_hooks("prestart", [hook], STATE)
        return set(out.read_text().split("\0")) - {""}

    out = tmp_path / "environ"
    assert environment(["A=1", "B=x=y", "C="]) == {"A=1", "B=x=y", "C="}
    assert environment([]) == set()
    assert environment(None) == {f"{name}={value}" for name, value in os.environ.items()}


def test_an_environment_entry_without_equals() -> None:
    with pytest.raises(ConfigError) as caught:
        run_host_hooks("prestart", [shell("true", ["A=1", "B"])], STATE)
    assert caught.value.where == "hooks.prestart[0].env[1]"


def test_exit_status_and_stderr() -> None:
    text = failure(shell("true"), shell("echo no; echo boom >&2; exit 3"))
    assert text.startswith('hooks.createRuntime[1]: "/bin/sh" ')
    assert text.endswith("status 3; stderr: boom")
    text = failure(shell("echo said; exit 1"), kind="poststart")
    assert text.startswith('hooks.poststart[0]: "/bin/sh" ')
    assert text.endswith("status 1; stdout: said")
    text = failure(shell("exit 1"))
    assert text.startswith('hooks.createRuntime[0]: "/bin/sh" ')
    assert text.endswith("status 1")


def test_output_is_cut_and_made_one_line() -> None:
    text = failure(shell(r"printf '\033[31mone\ntwo\n' >&2; exit 1"))
    assert text.endswith("; stderr: \x1b[31mone | two"), "the log escapes it"
    text = failure(shell("head -c 100000 /dev/zero | tr '\\0' a >&2; echo end >&2; exit 1"))
    assert text.endswith("aaa | end") is False
    assert text.endswith("aend")
    assert len(text) < 4200


def test_the_first_failure_ends_it(tmp_path: Path) -> None:
    failure(shell("exit 1"), shell(f"touch {tmp_path}/second"))
    assert not (tmp_path / "second").exists()


def test_killed_by_a_signal() -> None:
    text = failure(shell("kill -SEGV $$"))
    assert text.startswith('hooks.createRuntime[0]: "/bin/sh" ')
    assert "SIGSEGV" in text


def test_missing_path_and_missing_interpreter(tmp_path: Path) -> None:
    assert failure({"path": "/bin/nonesuch"}) == (
        'hooks.createRuntime[0].path: "/bin/nonesuch": no such file or directory'
    )
    script = tmp_path / "hook"
    script.write_text("#!/bin/nonesuch\n")
    assert "permission denied" in failure({"path": str(script)})
    script.chmod(0o755)
    assert "interpreter" in failure({"path": str(script)})


def test_an_embedded_nul_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        run_host_hooks("prestart", [{"path": "/bin/sh", "args": ["a\0b"]}], STATE)


def test_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $$ $! >{pids}; wait"
    text = failure(shell(script, timeout=1))
    assert text.startswith('hooks.createRuntime[0]: "/bin/sh" ')
    assert "timeout of 1 s" in text
    for pid in map(int, pids.read_text().split()):
        assert gone(pid)


@pytest.mark.parametrize("timeout", [None, 100])
def test_a_runtime_that_is_interrupted_takes_its_hook_along(
    tmp_path: Path, timeout: int | None
) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $$ $! >{pids}; kill -INT $PPID; wait"
    with pytest.raises(KeyboardInterrupt):
        run_host_hooks("prestart", [shell(script, timeout=timeout)], STATE)
    for pid in map(int, pids.read_text().split()):
        assert gone(pid)


def gone(pid: int) -> bool:
    """Wait until the process is gone, or a zombie that its new parent has not reaped."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)  # a failing test leaves nothing behind either
    return False


def test_within_its_timeout() -> None:
    run_host_hooks("createRuntime", [shell("exit 0", timeout=100)], STATE)


def test_clean_signals_own_group_no_descriptors(tmp_path: Path) -> None:
    out = tmp_path / "out"
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    old = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        script = f"exec >{out}; grep Sig /proc/self/status; ls /proc/self/fd; ps -o pgid= -p $$"
        run_host_hooks("prestart", [shell(f"{script}; echo $$")], STATE)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGUSR1, old)
        os.close(inherited)
    lines = out.read_text().split("\n")
    status = dict(line.split(":\t") for line in lines if line.startswith("Sig"))
    assert int(status["SigBlk"], 16) == 0
    # glibc makes every program that it spawns ignore its own two, 32 and 33.
    assert int(status["SigIgn"], 16) & ~(3 << 31) == 0
    rest = [line.strip() for line in lines if not line.startswith("Sig") and line]
    assert rest[:4] == ["0", "1", "2", "3"]  # 3 is the listing itself
    assert len(rest) == 6
    assert rest[4] == rest[5]


def test_standard_streams_of_the_runtime_closed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for fd in (0, 1, 2):
                os.close(fd)
            run_host_hooks("prestart", [shell(f"cat >{out}")], STATE)
            text = failure(shell("echo boom >&2; exit 9"))
            status = 0 if text.endswith("status 9; stderr: boom") else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert out.read_text() == STATE


def test_an_ignored_sigchld_does_not_lose_the_outcome() -> None:
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert "status 3" in failure(shell("exit 3"))
    finally:
        signal.signal(signal.SIGCHLD, old)


def test_poststop_runs_all_and_warns(tmp_path: Path) -> None:
    hooks = [
        shell("exit 1"),
        shell("true", ["BAD"]),
        {"path": "/bin/nonesuch"},
        shell(f"touch {tmp_path}/last"),
    ]
    warnings = run_poststop_hooks(hooks, STATE)  # type: ignore[arg-type]
    assert [w.split()[0].rstrip(":") for w in warnings] == [
        "hooks.poststop[0]",
        "hooks.poststop[1].env[0]",
        "hooks.poststop[2].path",
    ]
    assert (tmp_path / "last").exists()


def test_debug_is_told() -> None:
    told: list[str] = []
    run_host_hooks("prestart", [shell("true")], STATE, told.append)
    assert told[0].startswith("hooks.prestart[0]: ['sh', '-c', 'true'] succeeded after ")


def test_nothing_stays_open() -> None:
    before = open_descriptors()
    run_host_hooks("prestart", [shell("true")], STATE)
    failure(shell("exit 1"))
    failure({"path": "/bin/nonesuch"})
    assert open_descriptors() == before


def test_output_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its end is kept, also when the hook prints for long."""
    sizes = []
    cut = hooks._truncate

    def watched(fd: int) -> None:
        cut(fd)
        sizes.append(os.fstat(fd).st_size)

    monkeypatch.setattr(hooks, "_truncate", watched)
    script = "head -c 300000000 /dev/zero | tr '\\0' x; sleep 0.1; echo the end; exit 3"
    assert failure(shell(script)).endswith("xthe end")
    assert sizes[-1] <= hooks.OUTPUT_MOST


def test_timeout_kills_what_left_the_session(tmp_path: Path) -> None:
    script = (
        f"setsid sh -c 'setsid sleep 100 & echo $! >{tmp_path}/inner; sleep 100' &"
        f" echo $! >{tmp_path}/outer; sleep 100"
    )
    failure(shell(script, timeout=1))
    for name in ("inner", "outer"):
        pid = int((tmp_path / name).read_text())
        assert not Path(f"/proc/{pid}").exists()


def test_children_of_before_are_spared() -> None:
    """The container's init is one."""
    child = os.posix_spawn("/bin/sleep", ["sleep", "100"], {})
    try:
        failure(shell("sleep 100", timeout=1))
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_what_a_hook_leaves_running_may_print(tmp_path: Path) -> None:
    run_host_hooks(
        "prestart",
        [shell(f"(sleep 0.2; echo late; echo $? >{tmp_path}/status) & exit 0", timeout=50)],
        STATE,
    )
    end = time.monotonic() + 20
    while not (tmp_path / "status").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert (tmp_path / "status").read_text() == "0\n"


def test_ignored_children_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that uses the library keeps its handlers: the error says what it must change."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(HookError, match="SIGCHLD"):
            run_host_hooks("createRuntime", [shell("exit 0")], STATE, alone=False)
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        run_host_hooks("createRuntime", [shell("exit 0")], STATE)
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_output_to_a_device() -> None:
    before = open_descriptors()
    with pytest.raises(HostError, match='"/dev/null": not a regular'):
        hooks._output_file("/dev/null")
    assert open_descriptors() == before


@pytest.mark.parametrize("initial", [b"LC_CTYPE=C.UTF-8\0A=1\0", b"A=1\0XLC_CTYPE=1\0"])
def test_variable_that_python_adds(monkeypatch: pytest.MonkeyPatch, initial: bytes) -> None:
    """Only an LC_CTYPE that Python has added is left out."""
    environment = {b"LC_CTYPE": b"C.UTF-8", b"A": b"1"}
    monkeypatch.setattr(posix, "environ", environment)
    monkeypatch.setattr(hooks, "read_file", lambda path: initial)
    given = initial.startswith(b"LC_CTYPE")
    assert hooks._own_environment() == (environment if given else {b"A": b"1"})


def test_hook_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It and its orphans may have exited and been reaped by the time they are killed."""
    orphans = [{1 << 22}, set[int]()]
    monkeypatch.setattr(hooks, "_children", lambda: orphans.pop(0))
    hooks._kill(1 << 22, {1})
    assert orphans == [set()], "the hook itself is no orphan"


def test_kernel_without_a_list_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(hooks, "read_file", fail)
    assert hooks._children() == set()


def test_signal_names() -> None:
    assert hooks._signal_name(9) == "signal 9 (SIGKILL)"
    assert hooks._signal_name(signal.SIGRTMIN + 1) == f"signal {signal.SIGRTMIN + 1}"
