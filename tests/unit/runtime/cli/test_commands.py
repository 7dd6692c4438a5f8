"""Each command passes on its options, and prints the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ociruntime.base.linux import CLONE_NEWNS
from ociruntime.runtime.cli.main import main
from ociruntime.runtime.lifecycle.plan import plan_text, plan_values
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.runtime.lifecycle.context import Context, CreateOptions

STATE: dict[str, object] = {
    "ociVersion": "1.3.0",
    "id": "c1",
    "pid": 4711,
    "status": "running",
    "bundle": "/b",
    "rootfs": "/b/rootfs",
    "created": "2026-01-02T03:04:05.678901234Z",
    "owner": "root",
}


@pytest.fixture
def seen(fake: Callable[..., None]) -> list[CreateOptions]:
    options: list[CreateOptions] = []
    fake("create", create=lambda _, given: options.append(given))
    return options


def test_create_defaults(
    seen: list[CreateOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--root", f"{tmp_path}/root", "create", "c1"]) == 0
    options = seen[0]
    assert options.id == "c1"
    assert options.bundle == str(tmp_path)
    assert options.config == ""
    assert options.console_socket == ""
    assert options.pid_file == ""
    assert options.preserve_fds == 0
    assert options.detach
    assert capfd.readouterr() == ("", "")
    assert (tmp_path / "root").stat().st_mode & 0o7777 == 0o700


def test_create_takes_paths_from_the_working_directory(
    seen: list[CreateOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["create", "--bundle", "b", "--pid-file", "p", "--console-socket", "../s", "c1"]
    flags = ["--no-pivot", "--no-new-keyring", "--no-subreaper", "-f", "other.json"]
    assert main(["--root", "root", *argv, *flags]) == 0
    options = seen[0]
    assert options.bundle == f"{tmp_path}/b"
    assert options.pid_file == f"{tmp_path}/p"
    assert options.console_socket == f"{tmp_path}/../s"
    assert options.config == f"{tmp_path}/b/other.json"
    assert options.no_pivot
    assert options.no_new_keyring


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["create", "c1", "--preserve-fds", "-1"], "--preserve-fds -1: "),
    ],
)
def test_refused_before_anything_is_done(
    seen: list[CreateOptions],
    tmp_path: Path,
    argv: list[str],
    message: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["--root", f"{tmp_path}/root", *argv]) == 1
    assert message in capfd.readouterr().err
    assert seen == []
    assert not (tmp_path / "root").exists()


def test_plan_prints_what_the_runtime_has_compiled(
    fake: Callable[..., None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[CreateOptions] = []

    def plan(_: Context, options: CreateOptions) -> tuple[list[tuple[str, str]], Plan]:
        seen.append(options)
        compiled = Plan(CLONE_NEWNS)
        compiled.add(operations.umask(mask=0o22, where="process.user.umask"))
        return [("", "make a directory"), ("linux.cgroupsPath", "make a cgroup")], compiled

    fake("plan", plan=plan, plan_text=plan_text, plan_values=plan_values)
    argv = ["--root", f"{tmp_path}/none", "plan"]
    assert main([*argv, "/b", "--id", "c1"]) == 0
    out = capfd.readouterr().out
    assert "     make a directory\n" in out
    assert "# linux.cgroupsPath\n" in out
    assert "# process.user.umask\n" in out
    assert (seen[0].bundle, seen[0].id, seen[0].preserve_fds) == ("/b", "c1", 0)
    assert main([*argv, "-b", "/b", "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["host"] == [
        {"step": "make a directory"},
        {"step": "make a cgroup", "where": "linux.cgroupsPath"},
    ]
    assert document["operations"] == [
        {"operation": "umask", "mask": 0o22, "where": "process.user.umask"}
    ]
    assert main([*argv, "-b", "/b", "/c"]) == 1
    assert "conflicts with --bundle" in capfd.readouterr().err
    assert main([*argv, "--id", "a/b"]) == 1
    assert "invalid container ID" in capfd.readouterr().err
    assert not (tmp_path / "none").exists()


def test_run_returns_the_status_of_the_program(fake: Callable[..., None], tmp_path: Path) -> None:
    seen: list[CreateOptions] = []

    def run(_: Context, options: CreateOptions) -> int:
        seen.append(options)
        return 42

    fake("run", run=run)
    assert main(["--root", str(tmp_path), "run", "c1"]) == 42
    assert not seen[0].detach
    assert main(["--root", str(tmp_path), "run", "-d", "--keep", "--no-subreaper", "c1"]) == 42
    assert seen[1].detach
    assert seen[1].keep
    assert seen[1].no_subreaper


def test_state_is_json_alone(fake: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    fake("state", state=lambda _, given: {**STATE, "id": given})
    assert main(["state", "c2"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out == json.dumps({**STATE, "id": "c2"}, indent=2) + "\n"


@pytest.mark.parametrize(
    ("argv", "signal", "everything"),
    [
        (["c1"], 15, False),
        (["c1", "KILL"], 9, False),
        (["--all", "c1", "9"], 9, True),
        (["-a", "c1", "9"], 9, True),
        (["c1", "SIGUSR1", "--all=false"], 10, False),
    ],
)
def test_kill(fake: Callable[..., None], argv: list[str], signal: int, everything: bool) -> None:
    seen: list[tuple[object, ...]] = []
    fake("kill", kill=lambda _, *given: seen.append(given), stop_signal=lambda *_: "TERM")
    assert main(["kill", *argv]) == 0
    assert seen == [("c1", signal, everything)]


@pytest.mark.parametrize(("argv", "force"), [(["c1"], False), (["c1", "-f"], True)])
def test_delete(fake: Callable[..., None], argv: list[str], force: bool) -> None:
    seen: list[tuple[object, ...]] = []
    fake("delete", delete=lambda _, *given: seen.append(given))
    assert main(["delete", *argv]) == 0
    assert seen == [("c1", force)]


def test_list(fake: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    second = {**STATE, "id": "a-rather-long-name", "pid": 0, "status": "stopped"}
    fake("list", list_containers=lambda _: [STATE, second])
    assert main(["list"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        (
            "ID                   PID         STATUS      BUNDLE      "
            "CREATED                          OWNER"
        ),
        (
            "c1                   4711        running     /b          "
            "2026-01-02T03:04:05.678901234Z   root"
        ),
        (
            "a-rather-long-name   0           stopped     /b          "
            "2026-01-02T03:04:05.678901234Z   root"
        ),
    ]
    assert main(["list", "--format=json"]) == 0
    out = capfd.readouterr().out
    assert json.loads(out) == [STATE, second]
    assert out.count("\n") == 1
    assert main(["list", "-q", "-f", "json"]) == 0
    assert capfd.readouterr().out == "c1\na-rather-long-name\n"


def test_list_of_nothing(fake: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    fake("list", list_containers=lambda _: [])
    assert main(["list"]) == 0
    assert capfd.readouterr().out == (
        "ID          PID         STATUS      BUNDLE      CREATED     OWNER\n"
    )
    assert main(["list", "--format", "json"]) == 0
    assert capfd.readouterr().out == "[]\n"
    assert main(["list", "-q"]) == 0
    assert capfd.readouterr().out == ""


def test_spec_writes_a_file_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "--bundle", str(tmp_path)]) == 0
    assert capfd.readouterr() == ("", "")
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    assert config["process"]["args"]
    path.write_text("mine")
    assert main(["spec", "--bundle", str(tmp_path)]) == 1
    assert f'create \\"{path}\\": file already exists' in capfd.readouterr().err
    assert path.read_text() == "mine"


def test_spec_for_rootless(tmp_path: Path) -> None:
    assert main(["spec", "--bundle", str(tmp_path), "--rootless"]) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert "user" in [namespace["type"] for namespace in config["linux"]["namespaces"]]


def test_spec_into_a_missing_directory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "-b", f"{tmp_path}/none"]) == 1
    assert "no such file or directory" in capfd.readouterr().err


def test_features_is_json_alone(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["features"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    document = json.loads(out)
    assert document["ociVersionMin"] == "1.0.0"
    assert "rro" in document["mountOptions"]
