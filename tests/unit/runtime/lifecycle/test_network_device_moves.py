"""Moves of network devices that fail, and the record of them."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle import network_device_moves as module
from ociruntime.runtime.lifecycle.rollback import Rollback

GONE = 1 << 22  # no process has this pid
DEVICE = {
    "name": "eth1", "wanted": "eth0", "temporary": "oci1", "identity": 42, "index": 7,
    "hardware": "02", "alternative_names": [], "up": True, "addresses": [], "routes": [],
    "there": 3,
}  # fmt: skip


def config(path: str = "", *, network: bool = True) -> Any:  # noqa: ANN401
    namespace = {"type": "network", **({"path": path} if path else {})}
    namespaces = [{"type": "mount"}, *([namespace] if network else [])]
    return {"linux": {"namespaces": namespaces, "netDevices": {"eth1": {}}}}


def failing(number: int) -> Any:  # noqa: ANN401
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_joined_namespace() -> None:
    assert module._joined(config("/n")) == "/n"
    assert module._joined(config()) == ""
    assert module._joined(config(network=False)) == ""


def test_namespace_that_does_not_exist(tmp_path: Path) -> None:
    """The executor's setns(2) reports it, with the path in config.json."""
    module.check(config(f"{tmp_path}/gone"))
    assert module._identity(f"{tmp_path}/gone") == []


@pytest.mark.parametrize(("number", "hint"), [(errno.EPERM, "CAP_SYS_ADMIN"), (errno.EINVAL, "")])
def test_namespace_that_cannot_be_entered(
    monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(module, "inside", failing(number))
    with pytest.raises(HostError) as caught:
        module.check(config("/dev/null"))
    assert caught.value.errno == number
    assert hint in caught.value.hint
    assert bool(caught.value.hint) is bool(hint)
    assert os.listdir("/proc/self/fd") == before


def test_init_that_has_exited() -> None:
    with pytest.raises(HostError, match=r"linux\.netDevices: .*no such file"):
        module.move_into(config(), GONE, "/gone", Rollback(Log()), Log())


def test_devices_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NetworkNamespace", failing(errno.EMFILE))
    with pytest.raises(HostError, match=r"linux\.netDevices: .*too many open files"):
        module.check(config())


def test_record_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r'write ".*/gone/network\.json": no such file'):
        module._write(f"{tmp_path}/gone", {})


def recorded(tmp_path: Path, path: str, identity: list[int]) -> str:
    document = {"path": path, "identity": identity, "devices": [DEVICE]}
    (tmp_path / "network.json").write_text(json.dumps(document))
    return str(tmp_path)


class Moves:
    """Stands for the moves back: records from where, and answers with ``lost``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lost: str) -> None:
        self.lost = list(lost)
        self.sources: list[str] = []
        self.own = SimpleNamespace(name="own")
        monkeypatch.setattr(module, "NetworkNamespace", lambda: self.own)
        monkeypatch.setattr(module, "_enter", lambda fd: SimpleNamespace(name="joined"))
        monkeypatch.setattr(module, "bring_back", self.bring_back)

    def bring_back(self, devices: list[Any], own: Any, source: Any) -> list[str]:  # noqa: ANN401
        assert [each.record() for each in devices] == [DEVICE]
        assert own is self.own
        self.sources.append(source.name)
        return self.lost


def test_killed_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace whose path now leads to another one is never entered."""
    moves = Moves(monkeypatch, "eth1 is lost")
    file = str(tmp_path / "netns")
    Path(file).touch()
    warnings: list[str] = []
    log: Any = SimpleNamespace(warning=warnings.append)
    for path, identity in (
        (file, module._identity(file)),
        (file, [1, 2]),
        (f"{tmp_path}/gone", [1, 2]),
        ("", []),
    ):
        module.clear(recorded(tmp_path, path, identity), log)
    assert moves.sources == ["joined", "own", "own", "own"]
    assert len(warnings) == 4
    assert "eth1 is lost" in warnings[0]


def test_record_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r'read ".*/network\.json": no such file'):
        module.clear(str(tmp_path), Log())


def test_namespace_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Moves(monkeypatch)
    directory = recorded(tmp_path, "/dev/null", module._identity("/dev/null"))
    monkeypatch.setattr("posix.open", lambda path, *_: failing(errno.EACCES)())
    monkeypatch.setattr(module, "read_file", lambda path: Path(path).read_bytes())
    with pytest.raises(HostError, match='"/dev/null": permission denied'):
        module.clear(directory, Log())


def test_failed_create(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is not found is an error of the rollback, which logs it."""
    moves: Any = Moves(monkeypatch, "eth1 is lost", "eth2 is lost")
    device: Any = SimpleNamespace(record=lambda: DEVICE)
    with pytest.raises(RuntimeFailure, match=r"^eth1 is lost; eth2 is lost$"):
        module._bring_all_back([device], moves.own, moves.own)
    moves.lost.clear()
    module._bring_all_back([device], moves.own, moves.own)
