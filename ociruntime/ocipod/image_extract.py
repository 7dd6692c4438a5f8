"""``ocipod image extract``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Writes the image's documents and layers as an image layout, nothing of them unpacked."""
    from ociruntime.cli.progress import Bar
    from ociruntime.image.export import write_layout
    from ociruntime.image.lookup import look_up
    from ociruntime.image.store import Store
    from ociruntime.ocipod.new_directory import check_target, put_directory

    text, target = arguments.positional
    with Store(context.directory) as store, Bar() as bar:
        image = store.load(look_up(store, text))
        overwrite = arguments.flag("overwrite")
        path = check_target(target, context.directory, overwrite=overwrite)
        put_directory(path, lambda new: write_layout(store.blobs, image, new, bar))
        store.mark_used(image.id)
    return 0
