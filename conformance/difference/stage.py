"""Prepare what a random config refers to, before a container is created from it.

Edits are plain data: ``OTHER`` stands for another container's namespace, ``TREE`` for a mount on
the host, and hooks have no program yet.
"""

from __future__ import annotations

import os
from typing import Any

from conformance import host_mounts
from conformance.bundle import Bundle
from conformance.context import Context
from conformance.difference.makers import OTHER, TREE

KINDS = {"network": "net"}


def prepare(c: Context, bundle: Bundle) -> dict[str, int]:
    """Replace the placeholders in the config; return kind -> inode of the namespaces to join."""
    config = bundle.config
    _hooks(bundle, config.pop("hooks", {}))
    for mount in config["mounts"]:
        if mount.get("source") == TREE:
            mount["source"] = str(_tree(c))
        elif mount.get("source", "").startswith("rootfs/"):
            mount["source"] = str(bundle.path / mount["source"])
    namespaces = config["linux"]["namespaces"]
    if any(one["type"] == "user" for one in namespaces):
        _give_to_mapped_root(bundle)
    return _join(c, [one for one in namespaces if one.get("path") == OTHER])


def _hooks(bundle: Bundle, hooks: dict[str, list[dict[str, Any]]]) -> None:
    for kind, entries in hooks.items():
        for entry in entries:
            bundle.hook(kind, **entry)


def _tree(c: Context) -> Any:
    top = c.directory / "tree"
    if not top.exists():
        host_mounts.make(top, "private")
        c.made_mounts.append(top)
        host_mounts.make(top / "below", "private")
        c.made_mounts.append(top / "below")
        (top / "file").write_text("")
    return top


def _give_to_mapped_root(bundle: Bundle) -> None:
    first = bundle.linux["uidMappings"][0]["hostID"]
    for place, directories, _ in os.walk(bundle.rootfs):
        for name in ["", *directories]:
            os.chown(os.path.join(place, name), first, first, follow_symlinks=False)


def _join(c: Context, entries: list[dict[str, Any]]) -> dict[str, int]:
    if not entries:
        return {}
    other = c.create(c.bundle())
    for one in entries:
        kind = KINDS.get(one["type"], one["type"])
        one["path"] = f"/proc/{other.pid}/ns/{kind}"
    kinds = [KINDS.get(one["type"], one["type"]) for one in entries]
    return {kind: other.namespace(kind) for kind in kinds}
