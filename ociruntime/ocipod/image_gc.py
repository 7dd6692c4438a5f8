"""``ocipod image gc``."""

from __future__ import annotations

import time

from ociruntime.cli.output import write
from ociruntime.cli.progress import amount
from ociruntime.errors import ImageError
from ociruntime.ocipod.durations import period

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.image.store import Store
    from ociruntime.ocipod.context import Context

_GRACE = 24 * 3600.0  # seconds


def run(context: Context, arguments: Arguments) -> int:
    """Removes trees and images that nobody needs, then files that belong to none.

    Among these are downloads that were cut, and not gone on with during the grace period.

    Under the lock that pods are prepared with: what a pod is about to use is not named by it yet.
    When the images of one pod cannot be told, nothing goes.
    """
    from ociruntime.fault import fault
    from ociruntime.image.collection import rubbish
    from ociruntime.image.partial import remove_stale
    from ociruntime.image.store import Store
    from ociruntime.image.tree_store import TreeStore
    from ociruntime.pod.lock import prepare_lock
    from ociruntime.pod.references import used_images, used_trees

    text = arguments.text("grace-period")
    grace = period(text, "grace-period") if text else _GRACE
    trees = TreeStore(context.directory)
    with Store(context.directory) as store, prepare_lock(context.directory, exclusive=True):
        found = rubbish(
            store.records(),
            trees.trees(),
            _trees(store),
            used_images(context.directory),
            used_trees(context.directory),
            time.time() - grace,
        )
        fault("imagegc.before-sweep")
        freed = 0
        for tree in found.trees:
            if trees.remove(tree.id, wait=False):
                freed += tree.size
                write(f"removed tree {tree.id}\n")
        for record in found.images:
            freed += store.remove([record.id])
            write(f"removed {record.id}{' ' * bool(record.names)}{' '.join(record.names)}\n")
        files, size = store.sweep()
        trees.sweep()
        cut = remove_stale(f"{store.path}/partial", grace)
        files, size = files + cut[0], size + cut[1]
    removed = f"{len(found.images)} images, {len(found.trees)} trees and {files} stray files"
    return write(f"{removed} removed, {amount(freed + size)} freed\n")


def _trees(store: Store) -> dict[str, str]:
    """Id of an image -> that of its tree; a damaged image has none."""
    from ociruntime.image.tree_store import tree_id

    found = {}
    for record in store.records():
        try:
            found[record.id] = tree_id(store.load(record))
        except ImageError:
            continue
    return found
