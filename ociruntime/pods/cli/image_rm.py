"""``ocipod image rm``."""

from __future__ import annotations

from ociruntime.base.errors import ImageError, RuntimeFailure
from ociruntime.commandline.output import tell, write, write_lines
from ociruntime.commandline.progress import amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.images.model.image import Record
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.context import Context

_FAILED = 254


def run(context: Context, arguments: Arguments) -> int:
    """Remove each image; an error with one is printed, and the others are still removed.

    The lock of ``prepare`` is held, so that no image is removed that a new pod is about to use.
    """
    from ociruntime.images.fetch import look_up
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
                    hint = "--force removes it anyway"
                    raise ImageError(f'image "{text}" is used by a pod', hint)
                freed += _remove(context, store, record)
                count += 1
                write_lines([" ".join(["removed", record.id, *record.names])])
            except RuntimeFailure as failure:
                tell("ocipod", str(failure))
                status = _FAILED
    write(f"{count} of {len(arguments.positional)} removed, {amount(freed)} freed\n")
    return status


def _remove(context: Context, store: Store, record: Record) -> int:
    """Remove an image, and its tree if no other image or pod uses it; return the bytes freed."""
    from ociruntime.images.unpack.tree_store import TreeStore, tree_id
    from ociruntime.pods.store.references import used_trees

    try:
        tree = tree_id(store.load(record))
    except ImageError:
        tree = ""  # damaged image: its tree is left to image gc
    freed = store.remove([record.id])
    if not tree or any(tree_id(image) == tree for image in store.images()):
        return freed
    trees = TreeStore(context.directory)
    size = trees.size(tree)
    if tree not in used_trees(context.directory):
        trees.remove(tree)
        freed += size
    return freed
