"""``ocipod export``."""

from __future__ import annotations

import os

from ociruntime.base.errors import UsageError
from ociruntime.pods.store.manifest_file import read_manifest
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Write the archive; on failure, no partial file remains."""
    from ociruntime.commandline.progress import Bar
    from ociruntime.images.formats.export import write_archive
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.new_directory import new_file
    from ociruntime.pods.operations.export import BlobsAndNew, exported, kept

    uuid, target = arguments.positional
    squash = arguments.flag("squash")
    with open_pod(context.directory, uuid) as pod, Store(context.directory) as store, Bar() as bar:
        names = [entry["name"] for entry in read_manifest(pod)["apps"]]
        name = arguments.text("app")
        if not name and len(names) != 1:
            hint = f"give one with --app: {', '.join(names)}" if names else "the pod has none"
            raise UsageError(f"export pod {uuid}: which app?", hint)
        with new_file(target, overwrite=arguments.flag("overwrite")) as file:
            beside = "/tmp" if target == "-" else os.path.dirname(os.path.abspath(target))
            blobs = BlobsAndNew(store.blobs.path)
            with kept(pod):
                image = exported(pod, name or names[0], store, blobs, beside, squash=squash)
                write_archive(blobs, image, file, bar)
    return 0
