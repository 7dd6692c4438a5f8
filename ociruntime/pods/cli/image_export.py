"""``ocipod image export``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Write an archive, or with ``--format=oci`` a directory; on failure, nothing remains."""
    from ociruntime.commandline.progress import Bar
    from ociruntime.images.fetch import look_up
    from ociruntime.images.formats.export import write_archive, write_layout
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.new_directory import check_target, new_file, put_directory

    text, target = arguments.positional
    overwrite = arguments.flag("overwrite")
    with Store(context.directory) as store, Bar() as bar:
        image = store.load(look_up(store, text))
        if arguments.text("format", "oci-archive") == "oci":
            if target == "-":
                raise UsageError("--format=oci: cannot write a directory to standard output")
            path = check_target(target, context.directory, overwrite=overwrite)
            put_directory(path, lambda new: write_layout(store.blobs, image, new, bar))
        else:
            with new_file(target, overwrite=overwrite) as file:
                write_archive(store.blobs, image, file, bar)
        store.mark_used(image.id)
    return 0
