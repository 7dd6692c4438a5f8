"""``ocipod image rm``."""

from __future__ import annotations

from ociruntime.base.errors import ImageError, RuntimeFailure
from ociruntime.commandline.output import tell, write, write_lines
from ociruntime.commandline.progress import amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.images.store.index_copy import Record
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.context import Context

_FAILED = 254


def run(context: Context, arguments: Arguments) -> int:
    """Removes one after another; one that cannot be removed is told, and the others go.

    Under the lock that pods are prepared with: no image goes that is about to be used.
    """
    from ociruntime.images.lookup import look_up
    from ociruntime.images.store.store import Store
    from ociruntime.pods.store.lock import prepare_lock
    from ociruntime.pods.store.references import used_images

    status = count = freed = 0
    force = arguments.flag("force")
    with Store(context.directory) as store, prepare_lock(context.directory, exclusive=True):
        used = set() if force else used_images(context.directory)
        for text in arguments.positional:
            try:
                record = look_up(store, text)
                if record.id in used:
                    raise ImageError(f'image "{text}" is used by a pod', "--force removes it")
                freed += _remove(context, store, record)
                count += 1
                write_lines([" ".join(["removed", record.id, *record.names])])
            except RuntimeFailure as failure:
                tell("ocipod", str(failure))
                status = _FAILED
    write(f"{count} of {len(arguments.positional)} removed, {amount(freed)} freed\n")
    return status


def _remove(context: Context, store: Store, record: Record) -> int:
    """The image, and its tree if nothing else has it; the bytes that are free now."""
    from ociruntime.images.unpack.tree_store import TreeStore, tree_id
    from ociruntime.pods.store.references import used_trees

    try:
        tree = tree_id(store.load(record))
    except ImageError:
        tree = ""  # a damaged image: gc finds its tree
    freed = store.remove([record.id])
    if not tree or any(tree_id(image) == tree for image in store.images()):
        return freed
    trees = TreeStore(context.directory)
    size = trees.size(tree)
    if tree not in used_trees(context.directory):
        trees.remove(tree)
        freed += size
    return freed
