"""Decide which images and trees (unpacked root filesystems) ``image gc`` removes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from ociruntime.images.model.image import Record
from ociruntime.images.unpack.tree_store import Tree


@dataclass(frozen=True)
class Garbage:
    """The images and trees that ``image gc`` removes."""

    images: tuple[Record, ...]
    trees: tuple[Tree, ...]


def garbage(
    records: Iterable[Record],
    trees: Iterable[Tree],
    tree_of: Mapping[str, str],
    used_images: Set[str],
    used_trees: Set[str],
    before: float,
) -> Garbage:
    """Return the images and trees that ``image gc`` removes.

    It removes an image if its id is not in ``used_images`` and its last use was at or before
    ``before`` (seconds since the epoch).  It removes a tree if its id is not in ``used_trees``,
    unless the tree is complete and one of its images was used after ``before``.  ``tree_of`` maps
    the ids of images to the ids of their trees.
    """
    records = list(records)
    images = [
        record for record in records if record.id not in used_images and record.used <= before
    ]
    recent = {tree_of.get(record.id) for record in records if record.used > before}
    unused_trees = [
        tree
        for tree in trees
        if tree.id not in used_trees and (tree.id not in recent or not tree.rendered)
    ]
    return Garbage(tuple(images), tuple(unused_trees))
