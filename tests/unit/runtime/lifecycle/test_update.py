"""`update` changes all limits or none, and records what it has changed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import HostError, NotRunning, RuntimeFailure
from ociruntime.runtime.lifecycle import intel_rdt_groups
from ociruntime.runtime.lifecycle import update as module


class FakeLimits:
    """Limits of a cgroup that can be written; ``stuck`` cannot be restored."""

    def __init__(self, *stuck: str) -> None:
        self.stuck = list(stuck)
        self.calls: list[str] = []

    def write(self) -> None:
        self.calls.append("write")

    def undo(self) -> list[str]:
        self.calls.append("undo")
        return self.stuck


class Update:
    """A running container, its limits, and what `update` logs."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.limits = FakeLimits()
        self.warnings: list[str] = []
        self.calls: list[str] = self.limits.calls
        self.alive = True
        self.config: dict[str, Any] = {"linux": {"resources": {"pids": {"limit": 5}}}}
        container = SimpleNamespace(
            id="web",
            directory=str(directory),
            alive=lambda: self.alive,
            config=lambda: self.config,
            cgroup=lambda: None,
        )
        held = SimpleNamespace(release=lambda: self.calls.append("release"))
        monkeypatch.setattr(module, "lock", lambda *_: (container, held))
        monkeypatch.setattr(module, "Update", lambda *_: self.limits)
        monkeypatch.setattr(intel_rdt_groups, "change", self.change)

    def change(self, config: object, container_id: str, *schemata: str) -> Any:  # noqa: ANN401
        self.calls.append(" ".join(schemata))

        def restore() -> list[str]:
            self.calls.append("restore schemata")
            return ["MB:0=100 refused"]

        return restore

    def __call__(self, document: object, *schemata: str) -> None:
        log = SimpleNamespace(warning=self.warnings.append)
        context: Any = SimpleNamespace(root="/run", log=log)
        module.update(context, "web", document, *schemata)

    @property
    def recorded(self) -> object:
        return json.loads((self.directory / "resources.json").read_text())


@pytest.fixture
def update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Update:
    return Update(tmp_path, monkeypatch)


def test_record(update: Update) -> None:
    """The second update adds to the first, which has replaced the config's limits."""
    update({"cpu": {"shares": 7}})
    update({"pids": {"limit": 6}})
    assert update.recorded == {"pids": {"limit": 6}, "cpu": {"shares": 7}}
    assert update.calls == ["write", "release"] * 2


def test_schemata(update: Update) -> None:
    update({}, "L3:0=3", "")
    assert update.calls == ["write", "L3:0=3 ", "release"]


def test_stopped_container(update: Update) -> None:
    update.alive = False
    with pytest.raises(NotRunning):
        update({"pids": {"limit": 6}})
    assert update.calls == ["release"]


def test_refused_schemata(update: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeFailure("MB:0=7 refused")

    monkeypatch.setattr(intel_rdt_groups, "change", refuse)
    with pytest.raises(RuntimeFailure, match="MB:0=7"):
        update({"pids": {"limit": 6}}, "", "MB:0=7")
    assert update.calls == ["write", "undo", "release"]
    assert not (update.directory / "resources.json").exists()
    assert update.warnings == []


def test_unreadable_record(update: Update) -> None:
    """Limits are changed only if the present ones are known."""
    (update.directory / "resources.json").mkdir()
    with pytest.raises(HostError, match=r'read ".*/resources\.json"'):
        update({"pids": {"limit": 6}})
    assert update.calls == ["release"]


def test_failed_write_of_the_record(update: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits and schemata get their previous values; a value that stays changed is logged."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "replace_file", refuse)
    update.limits.stuck += ["pids.max refused"]
    with pytest.raises(HostError, match=r'write ".*/resources\.json": no space left'):
        update({"pids": {"limit": 6}}, "", "MB:0=7")
    assert update.calls == ["write", " MB:0=7", "undo", "restore schemata", "release"]
    assert [each.rpartition(": ")[2] for each in update.warnings] == [
        "pids.max refused",
        "MB:0=100 refused",
    ]
    assert all('"web"' in each for each in update.warnings)
