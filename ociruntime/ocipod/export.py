"""``ocipod export``."""

from __future__ import annotations

import os

from ociruntime.errors import UsageError
from ociruntime.pod.manifest_file import read_manifest
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Writes the archive; nothing is left of half a one."""
    from ociruntime.cli.progress import Bar
    from ociruntime.image.export import write_archive
    from ociruntime.image.store import Store
    from ociruntime.ocipod.new_directory import new_file
    from ociruntime.pod.export import BlobsAndNew, exported, kept

    uuid, target = arguments.positional
    squash = arguments.flag("squash")
    with open_pod(context.directory, uuid) as pod, Store(context.directory) as store, Bar() as bar:
        names = [entry["name"] for entry in read_manifest(pod)["apps"]]
        name = arguments.text("app")
        if not name and len(names) != 1:
            raise UsageError("which app?", f"--app names one: {', '.join(names) or 'it has none'}")
        with new_file(target, overwrite=arguments.flag("overwrite")) as file:
            beside = "/tmp" if target == "-" else os.path.dirname(os.path.abspath(target))
            blobs = BlobsAndNew(store.blobs.path)
            with kept(pod):
                image = exported(pod, name or names[0], store, blobs, beside, squash=squash)
                write_archive(blobs, image, file, bar)
    return 0
