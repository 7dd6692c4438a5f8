"""``ocipod image extract``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Write the image's documents and packed layers as an OCI image layout."""
    from ociruntime.commandline.progress import Bar
    from ociruntime.images.fetch import look_up
    from ociruntime.images.formats.export import write_layout
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.new_directory import check_target, put_directory

    text, target = arguments.positional
    with Store(context.directory) as store, Bar() as bar:
        image = store.load(look_up(store, text))
        overwrite = arguments.flag("overwrite")
        path = check_target(target, context.directory, overwrite=overwrite)
        put_directory(path, lambda new: write_layout(store.blobs, image, new, bar))
        store.mark_used(image.id)
    return 0
