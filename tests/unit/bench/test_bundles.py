"""The configurations that are measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import bundles

PLAIN: dict[str, Any] = {
    "process": {"args": ["sleep"], "rlimits": [{"type": "RLIMIT_NOFILE"}]},
    "root": {"path": "rootfs"},
    "mounts": [{"destination": "/proc", "type": "proc"}],
    "linux": {"resources": {"devices": [{"allow": False, "access": "rwm"}]}},
}


def test_the_given_configuration_stays_as_it_is() -> None:
    before = json.dumps(PLAIN)
    bundles.with_bind_mounts(PLAIN, 3, Path("/source"))
    bundles.with_tmpfs(PLAIN, 3)
    bundles.with_devices(PLAIN, 3)
    bundles.with_seccomp(PLAIN, 3, 1)
    bundles.that_ends(PLAIN)
    assert json.dumps(PLAIN) == before


def test_mounts_have_targets_of_their_own() -> None:
    for found in (
        bundles.with_bind_mounts(PLAIN, bundles.TARGETS, Path("/source")),
        bundles.with_tmpfs(PLAIN, bundles.TARGETS),
    ):
        assert len({mount["destination"] for mount in found["mounts"]}) == bundles.TARGETS + 1


def test_device_rules_differ_and_come_last() -> None:
    rules = bundles.with_devices(PLAIN, 1000)["linux"]["resources"]["devices"]
    assert rules[0] == {"allow": False, "access": "rwm"}
    assert len({(rule["major"], rule["minor"]) for rule in rules[1:]}) == 1000


def test_another_seed_is_another_filter() -> None:
    found = [bundles.with_seccomp(PLAIN, 1000, seed)["linux"]["seccomp"] for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    values = {rule["args"][0]["value"] for rule in found[0]["syscalls"]}
    assert len(values) == 1000


def test_docker_has_its_restrictions() -> None:
    golden = json.loads(bundles.GOLDEN.read_text())
    profile = json.loads(bundles.PROFILE.read_text())
    found = bundles.docker(PLAIN, golden, profile)
    assert len(found["process"]["capabilities"]["bounding"]) == 14
    assert found["linux"]["maskedPaths"] == golden["linux"]["maskedPaths"]
    assert len(found["linux"]["seccomp"]["syscalls"]) > 1
    assert "bind" not in {mount["type"] for mount in found["mounts"]}
