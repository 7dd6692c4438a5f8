"""The image that the engines run: one layer, made from a root filesystem."""

from __future__ import annotations

from pathlib import Path

from tests.support.images import BuiltImage, pack_tree

NAME = "localhost/box:latest"


class Image(BuiltImage):
    """An image; ``tree`` is the root filesystem to pack."""

    def __init__(self, tree: Path, name: str = NAME, command: tuple[str, ...] = ("sh",)) -> None:
        super().__init__([pack_tree(tree)], {"Cmd": list(command)}, "", name)
