"""Manifests that somebody has written."""

from __future__ import annotations

import pytest

from ociruntime.errors import UsageError
from ociruntime.pod import manifest_input

IMAGE = {"id": "sha256:" + "5" * 64}


@pytest.mark.parametrize("name", ["a\n", "..", "a/b", "", "a" * 201])
def test_names_that_could_not_be_those_of_files(name: str) -> None:
    with pytest.raises(UsageError, match="is no name"):
        manifest_input.completed({"apps": [{"name": name, "image": IMAGE}]}, {})
    volumes = [{"name": name, "kind": "empty"}]
    with pytest.raises(UsageError, match="is no name"):
        manifest_input.completed({"apps": [], "volumes": volumes}, {})
