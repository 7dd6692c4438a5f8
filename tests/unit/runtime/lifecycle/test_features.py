"""The reported features match the tables of the code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ociruntime.base.json_text import dump
from ociruntime.base.seccomp_actions import SECCOMP_ACTIONS, SECCOMP_FILTER_FLAGS
from ociruntime.runtime.lifecycle import features as module
from ociruntime.runtime.lifecycle.features import features
from ociruntime.runtime.plan.mount_options import DATA_KEYS, parse_mount_options
from ociruntime.runtime.spec.state_document import SPEC_VERSION


@pytest.fixture
def claimed() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(dump(features()))
    return document


def test_versions(claimed: dict[str, Any]) -> None:
    assert claimed["ociVersionMin"] == "1.0.0"
    assert claimed["ociVersionMax"] == SPEC_VERSION


def test_nothing_is_unknown(claimed: dict[str, Any]) -> None:
    # FEAT-02: null would say that the runtime does not know.
    assert "null" not in json.dumps(claimed)


def test_mount_options_are_recognised_and_none_is_data(claimed: dict[str, Any]) -> None:
    names = claimed["mountOptions"]
    assert len(set(names)) == len(names)
    assert {"rro", "rbind", "rprivate", "noexec"} <= set(names)
    assert not set(names) & {key for keys in DATA_KEYS.values() for key in keys}
    for name in names:
        assert parse_mount_options([name], "mounts[0]").data == []


def test_refused_settings_are_not_claimed(claimed: dict[str, Any]) -> None:
    linux = claimed["linux"]
    assert set(linux["seccomp"]["actions"]) == set(SECCOMP_ACTIONS)
    assert {"SCMP_ARCH_X86_64", "SCMP_ARCH_X32"} <= set(linux["seccomp"]["archs"])
    assert linux["selinux"]["enabled"] is True
    assert linux["mountExtensions"]["idmap"]["enabled"] is True
    assert {"idmap", "ridmap"} <= set(claimed["mountOptions"])


def test_supported_flags_are_known_ones(claimed: dict[str, Any]) -> None:
    seccomp = claimed["linux"]["seccomp"]
    assert set(seccomp["supportedFlags"]) <= set(seccomp["knownFlags"])
    assert set(seccomp["knownFlags"]) == set(SECCOMP_FILTER_FLAGS)


def test_without_libseccomp_no_seccomp_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(profile: object) -> bool:
        raise ImportError(str(profile))

    monkeypatch.setattr(module, "_takes", absent)
    monkeypatch.setattr(module, "libseccomp_version", lambda: "")
    claimed: dict[str, Any] = json.loads(dump(features()))
    assert claimed["linux"]["seccomp"]["enabled"] is False
    assert claimed["linux"]["seccomp"]["actions"] == []
    assert "io.github.seccomp.libseccomp.version" not in claimed["annotations"]
