"""Calls of ``ocipod`` for a container."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from ociruntime.base.errors import ManagerError, NotFound
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.pod_calls import NOT_STORED
from ociruntime.manager.containers.shared_services import SharedServices
from ociruntime.manager.containers.stored_image import StoredImage


class Programs:
    """A stub of ``ocipod`` with the images of ``stored``; records each call and its queue."""

    def __init__(self, *stored: str) -> None:
        self.stored = stored
        self.calls: list[tuple[str, str]] = []

    async def ocipod(self, *args: str) -> str:
        return self._run("ocipod", args)

    async def fetch(self, *args: str) -> str:
        return self._run("fetch", args)

    def _run(self, queue: str, args: tuple[str, ...]) -> str:
        *_, policy, image = args
        self.calls.append((queue, policy.partition("=")[2]))
        if policy == "--pull-policy=never" and image not in self.stored:
            raise ManagerError(f"image {image} {NOT_STORED}")
        return json.dumps({"id": f"id of {image}", "volumes": ["/data"]}) + "\n"


@pytest.mark.parametrize(
    ("spec", "calls"),
    [
        ({"image": "stored"}, [("ocipod", "never")]),
        ({"image": "stored", "pull_policy": "never"}, [("ocipod", "never")]),
        ({"image": "stored", "pull_policy": "always"}, [("fetch", "update")]),
        ({"image": "new"}, [("ocipod", "never"), ("fetch", "new")]),
        ({"image": "/a.tar"}, [("fetch", "new")]),
        ({"rootfs": "/r"}, [("ocipod", "update")]),
    ],
)
def test_only_images_that_are_not_stored_are_queued_behind_downloads(
    tmp_path: Path, spec: dict[str, Any], calls: list[tuple[str, str]]
) -> None:
    services = SharedServices(Settings(str(tmp_path), str(tmp_path / "pods")), list)
    programs = Programs("stored")
    services.programs = cast("Any", programs)
    image = spec.get("image") or "dir:/r"
    assert asyncio.run(services.fetch_image(spec)) == StoredImage(f"id of {image}", ["/data"])
    assert programs.calls == calls


def test_an_image_that_must_not_be_fetched(tmp_path: Path) -> None:
    services = SharedServices(Settings(str(tmp_path), str(tmp_path / "pods")), list)
    programs = Programs()
    services.programs = cast("Any", programs)
    with pytest.raises(NotFound, match=NOT_STORED):
        asyncio.run(services.fetch_image({"image": "x", "pull_policy": "never"}))
    # The client pulls it itself, to show the progress.
    for policy in ("missing", "always"):
        spec = {"image": "x", "pull_policy": policy}
        with pytest.raises(NotFound, match=NOT_STORED):
            asyncio.run(services.fetch_image(spec, download=False))
    assert programs.calls == [("ocipod", "never")] * 3
