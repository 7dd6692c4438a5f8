"""Releases of containerd that are not on this machine, played by a function."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.runtime.engines import setup
from ociruntime.runtime.engines.engine_commands import Answer
from ociruntime.runtime.engines.engine_configs import CRI_PLUGINS, find_use

PROGRAM = "/usr/bin/ociruntime"
DEFAULTS = {CRI_PLUGINS[0]: {"containerd": {"runtimes": {"runc": {"options": {"Root": ""}}}}}}


def toml(value: object, path: str = "") -> str:
    """Return a document as TOML."""
    assert isinstance(value, dict)
    lines = [f"[{path}]"] if path else []
    lines += [f"{k} = {json.dumps(v)}" for k, v in value.items() if not isinstance(v, dict)]
    parts = [
        toml(v, f"{path}.{json.dumps(k)}" if path else json.dumps(k))
        for k, v in value.items()
        if isinstance(v, dict)
    ]
    return "\n".join([*lines, *parts])


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = {**below}
    for key, value in above.items():
        old = below.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = merged(old or {}, value) if both else value
    return result


@pytest.fixture
def containerd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """A containerd 2.x: it reads config.toml, and the drop-in if that (or it) imports it."""
    directory = tmp_path / "containerd"
    directory.mkdir()
    monkeypatch.setattr(setup, "CONTAINERD_FILE", str(directory / "config.toml"))
    drop_in = directory / "conf.d/50-ociruntime.toml"
    monkeypatch.setattr(setup, "CONTAINERD_DROP_IN", str(drop_in))
    monkeypatch.setattr(setup, "find_first", lambda _: "/usr/bin/containerd")
    monkeypatch.setattr(setup, "check_parent", lambda *_: None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    engine = setup.ENGINES["containerd"]
    files = (str(drop_in), str(directory / "config.toml"))
    own = setup.Engine(engine.title, engine.programs, lambda: files, engine.set_up)
    monkeypatch.setitem(setup.ENGINES, "containerd", own)

    def play(config: str | None, imports_by_itself: bool = False) -> Path:
        if config is not None:
            (directory / "config.toml").write_text(config)

        def ask(_: str, *words: str) -> Answer:
            assert words[0] == "config"
            document: dict[str, Any] = {"version": 3, "plugins": DEFAULTS}
            main = directory / "config.toml"
            imports = imports_by_itself
            if main.exists():
                text = tomllib.loads(main.read_text())
                imports = "imports" in text
                document = merged(document, text)
            if imports and drop_in.exists():
                document = merged(document, tomllib.loads(drop_in.read_text()))
            return Answer(0, toml(document), "")

        monkeypatch.setattr(setup, "ask", ask)
        return directory

    return play


def request(default: bool = False) -> setup.Request:
    return setup.Request("containerd", PROGRAM, default)


def test_containerd_that_imports_by_itself(containerd: Callable[..., Path]) -> None:
    place = containerd(None, imports_by_itself=True)
    outcome = setup.set_up(request())
    assert not outcome.missing
    assert not outcome.failure
    drop_in = place / "conf.d/50-ociruntime.toml"
    use = find_use("containerd", drop_in.read_text())
    assert use is not None
    assert use.program == PROGRAM
    assert not (place / "config.toml").exists()
    setup.undo("containerd")
    assert list(place.iterdir()) == []


def test_containerd_whose_configuration_imports_nothing(containerd: Callable[..., Path]) -> None:
    theirs = 'version = 3\n[plugins."x"]\na = 1\n'
    place = containerd(theirs, imports_by_itself=True)
    outcome = setup.set_up(request())
    assert f'BinaryName = "{PROGRAM}"' in outcome.missing
    assert [path.name for path in place.iterdir()] == ["config.toml"]
    assert (place / "config.toml").read_text() == theirs


def test_containerd_without_a_configuration(containerd: Callable[..., Path]) -> None:
    place = containerd(None)
    setup.set_up(request(default=True))
    assert [path.name for path in place.iterdir()] == ["config.toml"]
    outcome = setup.set_up(request(default=False))
    assert any(line.endswith("written") for line in outcome.lines)
    assert "default_runtime_name" not in (place / "config.toml").read_text()
    setup.undo("containerd")
    assert list(place.iterdir()) == []


def test_containerd_that_fails(
    containerd: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    containerd("")
    monkeypatch.setattr(setup, "ask", lambda *_: Answer(1, "", "a\ncontainerd: bad file\n"))
    with pytest.raises(RuntimeFailure, match="containerd: bad file"):
        setup.set_up(request())


def test_a_user_and_an_engine_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(RuntimeFailure, match="root"):
        setup.set_up(setup.Request("docker", PROGRAM))
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere/.settings")
    path = "/somewhere/.settings/containers/containers.conf.d/50-ociruntime.conf"
    assert setup.podman_file() == path
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", "/somewhere")
    assert setup.podman_file().startswith("/somewhere/.config/containers/")


def test_a_program_that_another_user_can_replace(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(RuntimeFailure, match="world-writable"):
        setup.set_up(setup.Request("podman", str(tmp_path / "ociruntime")))
    with pytest.raises(RuntimeFailure, match="unprintable"):
        setup.set_up(setup.Request("podman", "/a\nb/ociruntime"))
    with pytest.raises(RuntimeFailure, match="find the program"):
        setup.set_up(setup.Request("podman", ""))
