"""From argv to an exit status and at most one line of error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ociruntime.base.errors import NoSuchContainer, NotRunning
from ociruntime.runtime.cli import main as main_module
from ociruntime.runtime.cli.main import main
from tests.support import project

if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.runtime.lifecycle.context import Context


def refuse(error: BaseException) -> Callable[..., None]:
    def function(*arguments: object) -> None:
        raise error

    return function


def test_help_and_version_go_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    for argv in ([], ["--help"], ["-h"], ["help"], ["state", "--help"], ["help", "kill"]):
        assert main(argv) == 0
        out, err = capfd.readouterr()
        assert out.startswith("usage: ociruntime")
        assert err == ""


def test_help_wins_over_missing_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["kill", "-h"]) == 0
    assert "SIGNAL is" in capfd.readouterr().out


def test_version_has_the_lines_that_engines_look_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "-v"]) == 0
    later = capfd.readouterr().out
    assert main(["--version"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("ociruntime version ")
    assert lines[1].startswith("commit: ")
    assert lines[2].startswith("spec: 1.")
    assert later.splitlines() == lines


@pytest.mark.parametrize("name", ["bogus", "__init__"])
def test_unknown_command(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    # podman and cri-o take a `checkpoint --help` that succeeds for a promise.
    assert main([name, "--help"]) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert f'unknown command \\"{name}\\"' in err


def test_near_miss_of_a_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["craete", "x"]) == 3
    assert "did you mean create?" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["state"], '\\"state\\" requires exactly 1 argument(s), 0 given'),
        (["state", "a", "b"], '\\"state\\" requires exactly 1 argument(s), 2 given'),
        (["kill"], '\\"kill\\" requires a minimum of 1 argument(s), 0 given'),
        (["kill", "a", "b", "c"], '\\"kill\\" requires a maximum of 2 argument(s), 3 given'),
        (["list", "x"], '\\"list\\" requires exactly 0 argument(s), 1 given'),
        (["--root", "/", "state", "x"], "--root /: "),
        (["--root", "/a/..", "state", "x"], "--root /: "),
        (["--root=", "state", "x"], '--root \\"\\": '),
        (["--log-format", "xml", "state", "x"], 'invalid log-format: \\"xml\\"'),
        (["--log", "journald:x", "state", "x"], "journald is not supported"),
        (["--root"], "argument: -root"),
    ],
)
def test_usage_errors(argv: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_failure_goes_to_log_and_standard_error(
    fake: Callable[..., None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake("state", state=refuse(NoSuchContainer("x")))
    log = tmp_path / "log.json"
    assert main(["--log", str(log), "--log-format=json", "state", "x"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err == 'container "x" does not exist\n'
    assert json.loads(log.read_text())["msg"] == 'container "x" does not exist'


def test_usage_error_reaches_the_log_that_was_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.json"
    globals_ = ["--log", str(log), "--log-format", "json"]
    assert main([*globals_, "state", "--bogus", "x"]) == 1
    assert main([*globals_, "bogus"]) == 3
    messages = [json.loads(line)["msg"] for line in log.read_text().splitlines()]
    assert messages[0].endswith(": -bogus")
    assert messages[1].startswith('unknown command "bogus"')
    assert capfd.readouterr().out == ""


def test_bug_is_one_line_that_says_where(
    fake: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    fake("start", start=refuse(KeyError("two\nlines")))
    assert main(["start", "x"]) == 1
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert "internal error at " in err
    assert "KeyError" in err
    assert "Traceback" not in err


def test_what_the_kernel_refuses_is_no_bug(
    fake: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    fake("start", start=refuse(OSError(12, "Cannot allocate memory", "/a")))
    assert main(["start", "x"]) == 1
    assert '"/a": cannot allocate memory' in capfd.readouterr().err.replace("\\", "")


def test_debug_shows_the_traceback_outside_the_log(
    fake: Callable[..., None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake("start", start=refuse(KeyError("x")))
    log = tmp_path / "log"
    assert main(["--debug", "--log", str(log), "start", "x"]) == 1
    assert "Traceback" in capfd.readouterr().err
    assert "Traceback" not in log.read_text()


def test_no_memory(fake: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    fake("start", start=refuse(MemoryError()))
    assert main(["start", "x"]) == 1
    err = capfd.readouterr().err
    assert "out of memory" in err
    assert "internal" not in err


def test_interruption(fake: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    fake("start", start=refuse(KeyboardInterrupt()))
    assert main(["start", "x"]) == 130
    assert "interrupted" in capfd.readouterr().err


def test_warnings_are_written_after_success_only(
    fake: Callable[..., None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def start(context: Context, container_id: str, _: int) -> None:
        context.log.warning("odd")
        if container_id == "dead":
            raise NotRunning(container_id)

    fake("start", start=start)
    log = tmp_path / "log"
    assert main(["--log", str(log), "--log-format", "json", "start", "dead"]) == 1
    assert [json.loads(line)["level"] for line in log.read_text().splitlines()] == ["error"]
    assert main(["--log", str(log), "--log-format", "json", "start", "x"]) == 0
    assert json.loads(log.read_text().splitlines()[-1])["level"] == "warning"
    assert capfd.readouterr().err == 'container not running: "dead"\n'


def test_context_is_what_was_asked_for(fake: Callable[..., None], tmp_path: Path) -> None:
    seen: list[Context] = []
    fake("start", start=lambda context, *_: seen.append(context))
    argv = ["--root", f"{tmp_path}/r/../s", "--systemd-cgroup", "--rootless=true", "--criu", "c"]
    assert main([*argv, "start", "x", "--debug"]) == 0
    context = seen[0]
    assert context.root == f"{tmp_path}/s"
    assert context.cgroup_manager == "systemd"
    assert context.rootless is True
    assert context.root_given
    assert not Path(context.root).exists()


def test_broken_installation(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that cannot be loaded is no bug: one line names it."""
    monkeypatch.setattr(main_module, "_run", refuse(ImportError("No module named x")))
    assert main(["state", "c1"]) == 1
    err = capfd.readouterr().err
    assert "No module named x" in err
    assert "internal error" not in err
    assert err.count("\n") == 1


def test_help_option_before_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help", "state"]) == 0
    assert capfd.readouterr().out.startswith("usage: ociruntime [")


def test_error_with_unusable_log_options(capfd: pytest.CaptureFixture[str]) -> None:
    """It is reported to standard error all the same."""
    assert main(["--log-format", "xml", "state", "c1"]) != 0
    assert "xml" in capfd.readouterr().err


def test_traceback_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ociruntime.commandline.output.show_traceback", refuse(OSError(9, "Bad file descriptor"))
    )
    arguments: Any = SimpleNamespace(flag=lambda name: name == "debug")
    main_module._show_traceback(RuntimeError(), arguments)


CLOSED = """
import os
from ociruntime.runtime.cli.main import _open_standard_descriptors

kept = os.dup2(2, 9)
for fd in {closed}:
    os.close(fd)
_open_standard_descriptors()
names = [os.readlink(f"/proc/self/fd/{{fd}}") == "/dev/null" for fd in range(3)]
inheritable = [os.get_inheritable(fd) for fd in {closed}]
extra = sorted(set(map(int, os.listdir("/proc/self/fd"))) - {{0, 1, 2, 9}})
os.write(9, repr((names, inheritable, len(extra))).encode())
"""


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 2), (0, 1, 2)])
def test_closed_descriptors(closed: tuple[int, ...]) -> None:
    """Each gets its own number, whichever of them are closed."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSED.format(closed=closed)],
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        cwd=project.ROOT,
        check=True,
    )
    expected = [fd in closed for fd in range(3)], [True] * len(closed), 1
    assert done.stderr == repr(expected)
