"""``ocipod image verify``."""

from __future__ import annotations

from ociruntime.commandline.output import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.commandline.progress import Bar
    from ociruntime.images.model.image import Image, Record
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.context import Context

_FAILED = 254


def run(context: Context, arguments: Arguments) -> int:
    """Verify blobs and trees; print a line for each damaged blob, and one for the tree."""
    from ociruntime.commandline.progress import Bar
    from ociruntime.images.fetch import look_up
    from ociruntime.images.store.store import Store

    status = 0
    with Store(context.directory) as store, Bar() as bar:
        records = [look_up(store, text) for text in arguments.positional]
        for text, record in zip(arguments.positional, records, strict=True):
            damaged = _damaged_blobs(store, record, bar)
            lines = [f"{one} is damaged" for one in damaged]
            whole = not damaged
            if whole:
                line, whole = _tree(context, store.load(record), bar)
                lines.append(line)
            else:
                lines.append("remove the image and fetch it again")
            bar.clear()
            write_lines(f"{text}: {line}" for line in lines)
            status = status if whole else _FAILED
    return status


def _damaged_blobs(store: Store, record: Record, bar: Bar) -> list[str]:
    """Remove blobs that do not match their digest, so that they can be fetched again.

    Returns their names.
    """
    found = []
    digests = store.digests(record.id)
    for done, digest in enumerate(digests):
        bar("reading blobs", done, len(digests))
        if not store.blobs.is_whole(digest):
            store.blobs.drop(digest)
            found.append(f"blob {digest}")
    return found


def _tree(context: Context, image: Image, bar: Bar) -> tuple[str, bool]:
    """Verify the image's tree and repair it; return a message and whether it is intact now."""
    from ociruntime.images.model.settings import Settings
    from ociruntime.images.unpack.tree_store import CHANGED, TreeStore, tree_id
    from ociruntime.pods.store.lock import prepare_lock
    from ociruntime.pods.store.references import running_trees

    settings = Settings(context.system_config, context.local_config, context.user_config)
    trees = TreeStore(context.directory, settings.limits)
    tree = tree_id(image)
    with prepare_lock(context.directory, exclusive=True):
        state = trees.verify(tree, bar)
        if state != CHANGED:
            return f"blobs are intact, tree is {state}", True
        if tree in running_trees(context.directory):
            return "tree is modified, and not unpacked again while a running pod uses it", False
        trees.render_again(image, bar)
    return "tree was modified; unpacked again", True
