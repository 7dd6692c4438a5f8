"""``ocipod image gc``."""

from __future__ import annotations

import time

from ociruntime.base.errors import ImageError
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.progress import amount
from ociruntime.pods.cli.durations import period

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ociruntime.commandline.parser import Arguments
    from ociruntime.images.model.image import Record
    from ociruntime.images.store.store import Store
    from ociruntime.images.unpack.tree_store import Tree, TreeStore
    from ociruntime.pods.cli.context import Context

_GRACE = 24 * 3600.0  # seconds


def run(context: Context, arguments: Arguments) -> int:
    """Remove unused trees and images, then stray files.

    Stray files include downloads that were interrupted and not resumed within the grace period.
    The lock of ``prepare`` is held, because a pod being prepared does not name its images yet.  It
    may have looked them up just before it waits for the lock, so the last use of an image is
    checked again before its removal.  If the images of a pod cannot be read, nothing is removed.
    """
    from ociruntime.base.fault import fault
    from ociruntime.images.registry.partial import remove_stale
    from ociruntime.images.store.collection import rubbish
    from ociruntime.images.store.store import Store
    from ociruntime.images.unpack.tree_store import TreeStore
    from ociruntime.pods.store.lock import prepare_lock
    from ociruntime.pods.store.references import used_images, used_trees

    text = arguments.text("grace-period")
    grace = period(text, "grace-period") if text else _GRACE
    before = time.time() - grace
    trees = TreeStore(context.directory)
    with Store(context.directory) as store, prepare_lock(context.directory, exclusive=True):
        found = rubbish(
            store.records(),
            trees.trees(),
            _trees(store),
            used_images(context.directory),
            used_trees(context.directory),
            before,
        )
        fault("imagegc.before-sweep")
        of_trees = _remove_trees(trees, found.trees)
        of_images = _remove_images(store, found.images, before)
        swept = store.sweep()
        trees.sweep()
        cut = remove_stale(f"{store.path}/partial", grace)
    removed = f"{of_images[0]} images, {of_trees[0]} trees and {swept[0] + cut[0]} stray files"
    freed = of_images[1] + of_trees[1] + swept[1] + cut[1]
    return write(f"{removed} removed, {amount(freed)} freed\n")


def _remove_trees(trees: TreeStore, gone: Iterable[Tree]) -> tuple[int, int]:
    """Remove trees; return their number and the bytes freed."""
    count = freed = 0
    for tree in gone:
        if trees.remove(tree.id, wait=False):
            count, freed = count + 1, freed + tree.size
            write(f"removed tree {tree.id}\n")
    return count, freed


def _remove_images(store: Store, gone: Iterable[Record], before: float) -> tuple[int, int]:
    """Remove images not used after ``before``; return their number and the bytes freed."""
    count = freed = 0
    for record in gone:
        if store.last_use(record.id) > before:
            continue
        count, freed = count + 1, freed + store.remove([record.id])
        write_lines([" ".join(["removed", record.id, *record.names])])
    return count, freed


def _trees(store: Store) -> dict[str, str]:
    """Return the tree id of each image by image id; damaged images are left out."""
    from ociruntime.images.unpack.tree_store import tree_id

    found = {}
    for record in store.records():
        try:
            found[record.id] = tree_id(store.load(record))
        except ImageError:
            continue
    return found
