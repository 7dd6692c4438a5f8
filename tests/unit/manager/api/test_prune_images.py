"""`image prune` while other requests change the images."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import Conflict
from ociruntime.manager.api import images
from ociruntime.manager.containers.pod_calls import HAS_NAME, classified

ROWS = [{"id": "sha256:a", "name": "", "size": 1}, {"id": "sha256:b", "name": "", "size": 2}]


def test_an_image_that_gets_a_name_meanwhile_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ocipod checks again while it holds the lock."""

    async def call(*args: str) -> str:
        if "list" in args:
            return json.dumps(ROWS)
        if args[-1] == "sha256:a" and "--unnamed" in args:
            raise classified(f"remove image{HAS_NAME}docker.io/library/box:1")
        return ""

    async def no_body(*_: object) -> dict[str, Any]:
        return {}

    monkeypatch.setattr(images, "read_body", no_body)
    manager: Any = SimpleNamespace(programs=SimpleNamespace(call=call))
    response = asyncio.run(images.prune(manager, None))  # type: ignore[arg-type]
    assert json.loads(response.text or "") == {"removed": ["sha256:b"], "freed": 2}


def test_its_error_is_a_conflict() -> None:
    assert isinstance(classified(f"remove image{HAS_NAME}box:1"), Conflict)
