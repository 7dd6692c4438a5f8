"""The config that ``spec`` writes, and the state document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.base.json_text import dump
from ociruntime.runtime.spec.default_config import default_config
from ociruntime.runtime.spec.load_config import parse_config
from ociruntime.runtime.spec.state_document import SPEC_VERSION, state_document
from ociruntime.runtime.spec.validate import validate

STATE_SCHEMA = Path(__file__, "../../../../../schemas/state.schema.json").resolve()


@pytest.mark.parametrize("rootless", [False, True])
def test_valid_without_a_warning(rootless: bool) -> None:
    config = default_config(rootless, 1000, 100)
    assert validate(parse_config(dump(config, "\t").encode())) == []


def test_default_filesystems_are_there() -> None:
    """LNX-FS-01."""
    mounts = {mount["destination"]: mount["type"] for mount in default_config()["mounts"]}
    wanted = {"/proc": "proc", "/sys": "sysfs", "/dev/pts": "devpts", "/dev/shm": "tmpfs"}
    assert wanted.items() <= mounts.items()


def test_rootless_asks_for_nothing_beyond_the_caller() -> None:
    config = default_config(True, 1000, 100)
    linux = config["linux"]
    assert "resources" not in linux
    kinds = [namespace["type"] for namespace in linux["namespaces"]]
    assert kinds == ["pid", "ipc", "uts", "mount", "user"]
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": 1000, "size": 1}]
    assert linux["gidMappings"] == [{"containerID": 0, "hostID": 100, "size": 1}]
    mounts = {mount["destination"]: mount for mount in config["mounts"]}
    assert mounts["/sys"]["type"] == "none"
    assert mounts["/sys"]["source"] == "/sys"
    assert mounts["/sys"]["options"][0] == "rbind"
    assert "gid=5" not in mounts["/dev/pts"]["options"]


def test_two_calls_share_nothing() -> None:
    first, second = default_config(), default_config()
    first["process"]["capabilities"]["bounding"].clear()
    first["linux"]["maskedPaths"].clear()
    assert second == default_config()


@pytest.mark.parametrize("status", ["creating", "created", "running", "paused", "stopped"])
def test_state_by_the_schema(status: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    pid = 0 if status in ("creating", "stopped") else 4711
    state = state_document(SPEC_VERSION, "box-1", status, pid, "/bundle", {"a": ""})
    jsonschema.validate(state, json.loads(STATE_SCHEMA.read_text()))
    assert list(state) == ["ociVersion", "id", "status", "pid", "bundle", "annotations"]


def test_state_schema_wants_a_pid_while_there_is_a_process() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    state = state_document(SPEC_VERSION, "box-1", "running", 0, "/bundle", None)
    assert "annotations" not in state
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(state, json.loads(STATE_SCHEMA.read_text()))
