"""`setup` and `snapshot`: what they print, and their exit status."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.runtime.cli import setup, snapshot, spec
from ociruntime.startup.snapshot import Unusable
from ociruntime.startup.snapshot_modules import PROGRAMS

CONTEXT: Any = None


def arguments(*positional: str, **flags: bool) -> Any:  # noqa: ANN401
    return SimpleNamespace(positional=list(positional), flag=lambda name: flags.get(name, False))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the configuration of an engine results in; ``requests`` are the calls."""
    outcome = SimpleNamespace(lines=["done"], missing="", failure="", file="/f", requests=[])

    def set_up(request: object) -> SimpleNamespace:
        outcome.requests.append(request)
        return outcome

    def undo(name: str) -> SimpleNamespace:
        outcome.requests.append(name)
        return outcome

    monkeypatch.setattr(setup, "set_up", set_up)
    monkeypatch.setattr(setup, "undo", undo)
    monkeypatch.setattr(setup, "own_launcher", lambda name: f"/bin/{name}")
    monkeypatch.setattr(setup, "end_on_signals", lambda: None)
    monkeypatch.setattr(os, "umask", outcome.requests.append)
    return outcome


def test_set_up(engine: SimpleNamespace, capfd: pytest.CaptureFixture[str]) -> None:
    assert setup.run(CONTEXT, arguments("docker", reload=True)) == 0
    assert capfd.readouterr().out == "done\n"
    mode, request = engine.requests
    assert mode == 0o022, "the engines of other users read the file"
    assert (request.engine, request.program) == ("docker", "/bin/ociruntime")
    assert (request.default, request.reload) == (False, True)


def test_undo(engine: SimpleNamespace, capfd: pytest.CaptureFixture[str]) -> None:
    assert setup.run(CONTEXT, arguments("podman", undo=True)) == 0
    assert engine.requests[1:] == ["podman"]
    assert capfd.readouterr().out == "done\n"
    for flag in ("default", "reload"):
        with pytest.raises(UsageError, match="setup --undo"):
            setup.run(CONTEXT, arguments("podman", undo=True, **{flag: True}))
    assert engine.requests[1:] == ["podman", 0o022, 0o022]


def test_file_of_the_user(engine: SimpleNamespace, capfd: pytest.CaptureFixture[str]) -> None:
    """The lines that the user must add are printed, and the command fails."""
    engine.missing = "[engine]"
    with pytest.raises(RuntimeFailure, match='podman: write "/f"'):
        setup.run(CONTEXT, arguments("podman"))
    out = capfd.readouterr().out
    assert out.startswith("done\n")
    assert out.endswith("/f:\n\n[engine]\n")


def test_failed_test_container(engine: SimpleNamespace) -> None:
    engine.failure = "no such image"
    with pytest.raises(RuntimeFailure, match="crio: no such image"):
        setup.run(CONTEXT, arguments("crio"))


class Snapshots:
    """The snapshots of the programs: made, refreshed, inspected and removed."""

    Unusable = Unusable

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.broken: set[str] = set()
        self.directory = "/run"

    def location(self, environ: object, euid: int, program: str = "ociruntime") -> str:
        return f"{self.directory}/{program}" if self.directory else ""

    def make(self, path: str) -> int:
        if path in self.broken:
            raise HostError(f'make "{path}"', OSError(28, "No space left on device"))
        self.sizes[path] = 7
        return 7

    def refresh(self, path: str) -> bool:
        if path in self.sizes:
            return False
        return bool(self.make(path))

    def remove(self, path: str) -> bool:
        return self.sizes.pop(path, 0) > 0

    def inspect(self, path: str) -> int:
        if path not in self.sizes:
            raise self.Unusable("outdated")
        return self.sizes[path]


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> Snapshots:
    made = Snapshots()
    monkeypatch.setattr(snapshot, "snapshot", made)
    monkeypatch.setattr(snapshot, "_can_start", lambda program: program != "ocid")
    monkeypatch.setattr(os, "chdir", lambda path: None)
    return made


def test_one_snapshot(snapshots: Snapshots, capfd: pytest.CaptureFixture[str]) -> None:
    """`status` has another exit status if the snapshot is not used."""
    results = []
    for verb in ("status", "refresh", "refresh", "status", "make", "remove", "remove"):
        status = snapshot.run(CONTEXT, arguments(verb, "ociruntime"))
        results.append((status, capfd.readouterr().out.removeprefix("/run/ociruntime: ")))
    assert results == [
        (1, "not used: outdated\n"),
        (0, "made\n"),
        (0, "unchanged\n"),
        (0, "used, 7 bytes\n"),
        (0, "7 bytes\n"),
        (0, "removed\n"),
        (0, "not found\n"),
    ]


def test_all_snapshots(snapshots: Snapshots) -> None:
    """One failure does not keep the others from being made."""
    snapshots.broken.add("/run/ociruntime")
    with pytest.raises(HostError, match="/run/ociruntime"):
        snapshot.run(CONTEXT, arguments("make"))
    expected = {f"/run/{name}" for name in PROGRAMS} - {"/run/ociruntime", "/run/ocid"}
    assert set(snapshots.sizes) == expected


@pytest.mark.parametrize(
    ("words", "match"),
    [(("mend",), 'action "mend"'), (("status", "runc"), 'program "runc"')],
)
def test_unknown_word(snapshots: Snapshots, words: tuple[str, ...], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        snapshot.run(CONTEXT, arguments(*words))


def test_program_without_its_packages(snapshots: Snapshots) -> None:
    """It can be inspected, but not started."""
    assert snapshot.run(CONTEXT, arguments("status", "ocid")) == 1
    for verb in ("make", "refresh"):
        with pytest.raises(RuntimeFailure, match="snapshot of ocid"):
            snapshot.run(CONTEXT, arguments(verb, "ocid"))
    assert snapshots.sizes == {}


def test_no_runtime_directory(snapshots: Snapshots) -> None:
    snapshots.directory = ""
    with pytest.raises(UsageError, match="XDG_RUNTIME_DIR"):
        snapshot.run(CONTEXT, arguments("status"))


@pytest.mark.parametrize(("how", "kept"), [(os.O_EXCL, False), (os.O_TRUNC, True)])
def test_failed_write_of_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: int, kept: bool
) -> None:
    """A new file is removed again; one that was there stays."""

    def fail(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "config.json"
    if kept:
        path.touch()
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(spec, "write_all", fail)
    with pytest.raises(HostError, match=f'write "{path}": no space left'):
        spec.write_file(str(path), "{}", how)
    assert path.exists() is kept
    assert os.listdir("/proc/self/fd") == before
