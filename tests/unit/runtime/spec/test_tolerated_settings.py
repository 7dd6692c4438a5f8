"""A corrected config is valid and has a warning; everything else is refused as before."""

from __future__ import annotations

import json

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.check.check_bundle import check_config
from ociruntime.runtime.check.finding import Json
from ociruntime.runtime.spec.default_config import default_config
from ociruntime.runtime.spec.tolerated_settings import tolerate
from tests.errors.broken_bundles import BROKEN_BUNDLES, BrokenBundle
from tests.errors.changes import Change
from tests.errors.tolerated import TOLERATED

IN_THE_PLAN = ("bind-option", "device-twice")  # decided where mount options are


def changed(change: Change) -> Json:
    """Return the default configuration with a change, apart from what the change holds."""
    config: Json = default_config()
    change(config)
    return json.loads(json.dumps(config))


@pytest.mark.parametrize(
    ("name", "change", "says"), [one for one in TOLERATED if one[0] not in IN_THE_PLAN]
)
def test_valid_afterwards(name: str, change: Change, says: str) -> None:
    config = changed(change)
    with pytest.raises(ConfigError):
        check_config(config)
    config = changed(change)
    warnings = tolerate(config)
    assert any(says in each for each in warnings), name
    check_config(config)
    assert tolerate(config) == []


def test_a_valid_configuration_stays() -> None:
    config = changed(lambda _: None)
    assert tolerate(config) == []
    assert config == json.loads(json.dumps(default_config()))


@pytest.mark.parametrize("entry", BROKEN_BUNDLES, ids=lambda entry: entry.name)
def test_broken_bundles_stay_broken(entry: BrokenBundle) -> None:
    """It raises nothing, whatever is in the document, and mends none of these."""
    try:
        config = json.loads(entry.config() or b"null")
    except (ValueError, RecursionError):
        return
    if entry.stage == "spec":
        warnings = tolerate(config)
        if warnings:
            with pytest.raises(ConfigError):
                check_config(config)


@pytest.mark.parametrize("junk", [None, 5, "", [], [{}], {}, {"a": None}, [None], True])
def test_junk_is_left_to_the_strict_check(junk: Json) -> None:
    for path in (
        ("process",),
        ("process", "user"),
        ("process", "rlimits"),
        ("hooks",),
        ("linux",),
        ("linux", "seccomp"),
        ("linux", "resources"),
        ("linux", "maskedPaths"),
        ("annotations",),
    ):
        config: Json = json.loads(json.dumps(default_config()))
        parent = config
        for step in path[:-1]:
            parent = parent.setdefault(step, {})
        parent[path[-1]] = junk
        tolerate(config)
    tolerate(junk)


def test_the_meaning() -> None:
    config = changed(lambda one: one["process"].pop("user"))
    config["process"]["rlimits"] = [
        {"type": "RLIMIT_CORE", "soft": 1, "hard": 1},
        {"type": "RLIMIT_CORE", "soft": 2, "hard": 2},
    ]
    config["linux"]["readonlyPaths"] = ["proc/sys", ""]
    tolerate(config)
    assert config["process"]["user"] == {"uid": 0, "gid": 0}
    assert config["process"]["rlimits"] == [{"type": "RLIMIT_CORE", "soft": 2, "hard": 2}]
    assert config["linux"]["readonlyPaths"] == ["/proc/sys"]
