"""The lines for each engine, and what is read from an engine's own files."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from ociruntime.runtime.engines.engine_configs import (
    CRI_PLUGINS,
    DEFAULT,
    NAMED,
    CriEntry,
    Entry,
    Use,
    containerd_lines,
    crio_lines,
    docker_lines,
    find_use,
    is_docker_lines,
    lost_setting,
    podman_lines,
)

RUNC = {
    "runtime_type": "io.containerd.runc.v2",
    "runtime_root": "",
    "sandbox_mode": "podsandbox",
    "pod_annotations": ["a", 'b"'],
    "options": {"BinaryName": "", "SystemdCgroup": True},
}
PLACE = '/opt/a "b"\\c/bin/ociruntime'


def cri_lines(default: bool, plugin: str = CRI_PLUGINS[0]) -> str:
    return containerd_lines(CriEntry(PLACE, default, plugin, 3, RUNC))


@pytest.mark.parametrize("default", [False, True])
def test_what_is_written_is_read(default: bool) -> None:
    """Whatever the path has in it that TOML or JSON quotes."""
    entry = Entry(PLACE, default)
    use = Use(DEFAULT if default else NAMED, PLACE)
    assert find_use("podman", podman_lines(entry)) == use
    assert find_use("docker", docker_lines(entry)) == use
    assert find_use("crio", crio_lines(entry)) == use
    for plugin in CRI_PLUGINS:
        assert find_use("containerd", cri_lines(default, plugin)) == use


def test_containerd_keeps_runc_and_follows_its_cgroup_driver() -> None:
    document = tomllib.loads(cri_lines(False))
    runtimes = document["plugins"][CRI_PLUGINS[0]]["containerd"]["runtimes"]
    assert runtimes["ociruntime"]["options"] == {"BinaryName": PLACE, "SystemdCgroup": True}
    assert runtimes["runc"] == {
        **{name: value for name, value in RUNC.items() if value},
        "options": {"SystemdCgroup": True},
    }
    assert "runc]" not in containerd_lines(CriEntry(PLACE, False, CRI_PLUGINS[0], 3, {}))


def test_settings_of_several_files() -> None:
    default = '[engine]\nruntime = "ociruntime"\n'
    assert find_use("podman", default, podman_lines(Entry(PLACE))) == Use(DEFAULT, PLACE)
    other = '[engine]\nruntime = "crun"\n[engine.runtimes]\ncrun = ["/usr/bin/crun"]\n'
    assert find_use("podman", default, podman_lines(Entry(PLACE)), other) == Use(NAMED, PLACE)


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("docker", ""),
        ("docker", "[1]"),
        ("docker", '{"runtimes": []}'),
        ("docker", '{"runtimes": {"ociruntime": 7}}'),
        ("docker", '{"runtimes": {"other": {"path": "/usr/bin/crun"}}}'),
        ("podman", "["),
        ("podman", "engine = 1"),
        ("podman", "[engine.runtimes]\nociruntime = [7]\n"),
        ("containerd", "[plugins]\n"),
        ("crio", "[crio]\nruntime = 3\n"),
    ],
)
def test_other_configurations(engine: str, text: str) -> None:
    assert find_use(engine, text) is None


def test_a_daemon_json_that_somebody_has_added_to_is_not_ours() -> None:
    ours = docker_lines(Entry(PLACE, True))
    assert is_docker_lines(ours)
    assert not is_docker_lines(ours + "\n")
    assert not is_docker_lines(json.dumps(json.loads(ours)))
    assert not is_docker_lines(json.dumps({**json.loads(ours), "debug": True}, indent=2) + "\n")
    assert not is_docker_lines("{}")


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ({}, {"a": 1}, ""),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, ""),
        ({"a": {"b": 1}}, {"a": {}}, "a.b"),
        ({"a": {"b": 1}}, {}, "a.b"),
        ({"a": {"b": 1}}, {"a": 3}, "a.b"),
        ({"a": [1]}, {"a": [1, 2]}, "a"),
        ({"a": ""}, {}, ""),
        ({"a": False}, {"a": True}, "a"),
        ({"imports": [1]}, {"imports": [2]}, ""),
    ],
)
def test_lost_settings(before: dict[str, Any], after: dict[str, Any], path: str) -> None:
    assert lost_setting(before, after, ("imports",)) == path
