"""Containers whose mounts CRIU cannot restore."""

from __future__ import annotations

import json

import pytest

from ociruntime.base.errors import ContainerError
from ociruntime.runtime.lifecycle.checkpoint.checkpoint import joined_namespaces
from ociruntime.runtime.spec.config_types import Config
from ociruntime.runtime.spec.default_config import default_config
from ociruntime.runtime.spec.load_config import parse_config
from tests.errors.changes import Change, both, drop, put, without_namespace


def changed(change: Change) -> Config:
    """Return the default configuration with a change."""
    config = default_config()
    change(config)
    return parse_config(json.dumps(config).encode())


def test_mounts_on_the_host() -> None:
    with pytest.raises(ContainerError, match="no mount namespace"):
        joined_namespaces(changed(without_namespace("mount")))


def test_no_mounts_on_the_host() -> None:
    nothing = both(
        drop("mounts"),
        drop("root", "readonly"),
        put("linux", to={"namespaces": []}),
        put("process", "terminal", to=False),
    )
    assert joined_namespaces(changed(nothing)) == {}


def test_a_joined_namespace() -> None:
    path = put("linux", "namespaces", 0, "path", to="/proc/1/ns/pid")
    assert joined_namespaces(changed(path)) == {"pid": "/proc/1/ns/pid"}
