"""packaging/engines: files for engines that cannot run here match those of similar engines."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from ociruntime.runtime.engines.engine_configs import (
    RUNC_SHIM,
    CriEntry,
    Entry,
    containerd_lines,
    crio_lines,
    docker_lines,
    podman_lines,
)
from tests.support.project import ROOT

FILES = ROOT / "packaging/engines"
PLACE = "/usr/local/bin/ociruntime"
PLUGINS = {1: "io.containerd.grpc.v1.cri", 2: "io.containerd.cri.v1.runtime"}


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((FILES / name).read_text())


@pytest.mark.parametrize(("release", "version"), [(1, 2), (2, 3)])
def test_containerd(release: int, version: int) -> None:
    """The same tables for another plugin."""
    config = toml(f"containerd-{release}.toml")
    assert config["version"] == version
    assert list(config["plugins"]) == [PLUGINS[release]]
    runtimes = config["plugins"][PLUGINS[release]]["containerd"]["runtimes"]
    kind = "io.containerd.runc.v2"
    ours = {"runtime_type": kind, "options": {"BinaryName": PLACE}}
    assert runtimes == {"ociruntime": ours, "runc": {"runtime_type": kind}}


def test_crio() -> None:
    (one,) = toml("crio.conf")["crio"]["runtime"]["runtimes"].items()
    place = {"runtime_path": PLACE, "runtime_type": "oci", "runtime_root": "/run/ociruntime"}
    assert one == ("ociruntime", place)


def test_runtime_class_names_the_handler() -> None:
    lines = (FILES / "runtimeclass.yaml").read_text().splitlines()
    assert "kind: RuntimeClass" in lines
    assert "handler: ociruntime" in lines


def test_they_are_what_setup_writes() -> None:
    """`ociruntime setup` writes the same settings."""
    entry = Entry(PLACE, default=True)
    assert tomllib.loads(podman_lines(entry))["engine"] == {
        **(engine := toml("podman.conf")["engine"]),
        "runtimes": {"ociruntime": engine["runtimes"]["ociruntime"][:1]},
    }
    assert json.loads(docker_lines(entry)) == json.loads((FILES / "docker.json").read_text())
    assert tomllib.loads(crio_lines(Entry(PLACE))) == toml("crio.conf")
    for release, version in ((1, 2), (2, 3)):
        cri = CriEntry(PLACE, False, PLUGINS[release], version, {"runtime_type": RUNC_SHIM})
        assert tomllib.loads(containerd_lines(cri)) == toml(f"containerd-{release}.toml")


def test_podman_and_docker() -> None:
    """Both use the same name for the runtime."""
    engine = toml("podman.conf")["engine"]
    assert engine["runtime"] == "ociruntime"
    assert PLACE in engine["runtimes"]["ociruntime"]
    docker = json.loads((FILES / "docker.json").read_text())
    assert docker["runtimes"] == {docker["default-runtime"]: {"path": PLACE}}


def test_all_are_in_the_documentation() -> None:
    text = (ROOT / "docs/engines.md").read_text()
    for path in FILES.iterdir():
        assert f"packaging/engines/{path.name})" in text
