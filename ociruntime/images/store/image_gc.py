"""Which images and trees ``image gc`` removes, by the pods' references and the last use; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from ociruntime.images.model.image import Record
from ociruntime.images.unpack.tree_store import Tree


@dataclass(frozen=True)
class Rubbish:
    """Images and trees that can be removed."""

    images: tuple[Record, ...]
    trees: tuple[Tree, ...]


def rubbish(
    records: Iterable[Record],
    trees: Iterable[Tree],
    tree_of: Mapping[str, str],
    used_images: Set[str],
    used_trees: Set[str],
    before: float,
) -> Rubbish:
    """Return the images and trees that ``image gc`` can remove.

    Images are removed if no pod refers to them and their last use is not after ``before`` (seconds
    since the epoch).  Trees are removed if no pod refers to them, except rendered ones of images
    used after ``before``.  ``tree_of`` maps image ids to tree ids.
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
    return Rubbish(tuple(images), tuple(unused_trees))
