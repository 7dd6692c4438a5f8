"""One broken bundle, and the small changes that break one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ociruntime.runtime.spec.default_config import default_config

BIND = {"destination": "/data", "type": "bind", "source": "/etc", "options": ["rbind"]}

Change = Callable[[dict[str, Any]], None]
Step = str | int


@dataclass(frozen=True)
class BrokenBundle:
    """One broken bundle; see above."""

    name: str
    says: tuple[str, ...]
    change: Change | None = None
    raw: bytes | None = None  # config.json as it is, in place of a changed default
    no_config: bool = False
    stage: str = "spec"
    files: dict[str, tuple[str, int]] = field(default_factory=dict)

    def config(self) -> bytes | None:
        """What to write as config.json."""
        if self.no_config:
            return None
        if self.raw is not None:
            return self.raw
        config = default_config()
        config["process"]["terminal"] = False
        if self.change:
            self.change(config)
        return json.dumps(config, indent=1).encode()


def put(*steps: Step, to: object) -> Change:
    """Set the member or item at the end of the steps."""

    def change(config: dict[str, Any]) -> None:
        parent: Any = config
        for step in steps[:-1]:
            parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
        parent[steps[-1]] = to

    return change


def drop(*steps: Step) -> Change:
    """Take away the member or item at the end of the steps."""

    def change(config: dict[str, Any]) -> None:
        parent: Any = config
        for step in steps[:-1]:
            parent = parent[step]
        del parent[steps[-1]]

    return change


def add(*steps: Step, item: object) -> Change:
    """Append to the array at the end of the steps, made if it is not there."""

    def change(config: dict[str, Any]) -> None:
        parent: Any = config
        for step in steps[:-1]:
            parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
        parent.setdefault(steps[-1], []).append(item)

    return change


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(config: dict[str, Any]) -> None:
        for one in changes:
            one(config)

    return change


def rename(old: str, new: str) -> Change:
    """Give a member of the whole config another name."""

    def change(config: dict[str, Any]) -> None:
        config[new] = config.pop(old)

    return change


def without_namespace(kind: str) -> Change:
    """Take a kind of namespace away."""

    def change(config: dict[str, Any]) -> None:
        namespaces = config["linux"]["namespaces"]
        namespaces.remove({"type": kind})

    return change


def mapped(**extent: int) -> Change:
    """A user namespace with one extent for users and one for groups."""
    good = {"containerID": 0, "hostID": 100000, "size": 65536}
    return both(
        add("linux", "namespaces", item={"type": "user"}),
        put("linux", "uidMappings", to=[{**good, **extent}]),
        put("linux", "gidMappings", to=[good]),
    )


def spec(name: str, change: Change, *says: str) -> BrokenBundle:
    """An entry found by loading."""
    return BrokenBundle(name, says, change)


def text(name: str, raw: str | bytes, *says: str) -> BrokenBundle:
    """An entry whose config.json is no proper JSON."""
    return BrokenBundle(name, says, raw=raw if isinstance(raw, bytes) else raw.encode())


def create(name: str, change: Change, *says: str, **files: tuple[str, int]) -> BrokenBundle:
    """An entry found by making the container; ``files`` go into rootfs/bin, by name."""
    inside = {f"rootfs/bin/{file}": content for file, content in files.items()}
    return BrokenBundle(name, says, change, stage="create", files=inside)
