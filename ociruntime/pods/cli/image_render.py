"""``ocipod image render``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.commandline.progress import Bar
    from ociruntime.images.model.image import Image
    from ociruntime.images.model.limits import Limits
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.context import Context

CONFIG = "image-config.json"


def run(context: Context, arguments: Arguments) -> int:
    """Unpack the layers of an image, in order, into a directory."""
    from ociruntime.commandline.progress import Bar
    from ociruntime.images.fetch import look_up
    from ociruntime.images.model.settings import Settings
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.new_directory import check_target, put_directory

    settings = Settings(context.system_config, context.local_config, context.user_config)
    limits = settings.limits()
    text, target = arguments.positional
    alone = arguments.flag("rootfs-only")
    with Store(context.directory) as store, Bar() as bar:
        image = store.load(look_up(store, text))
        overwrite = arguments.flag("overwrite")
        path = check_target(target, context.directory, overwrite=overwrite)
        notes: list[str] = []

        def fill(new: int) -> None:
            notes.extend(_fill(store, image, new, limits, bar, alone=alone))

        put_directory(path, fill)
        store.mark_used(image.id)
    for note in notes:
        context.log.warning(note)
    return 0


def _fill(
    store: Store, image: Image, target: int, limits: Limits, bar: Bar, *, alone: bool
) -> list[str]:
    """Fill the new directory with descriptor ``target``; return warnings about skipped entries."""
    import os

    from ociruntime.images.unpack.unpack import unpack

    if alone:
        return unpack(store.blobs, image.layers, target, limits, bar)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(CONFIG, flags, 0o644, dir_fd=target), "wb") as file:
        file.write(store.blobs.read(image.config_digest))
    os.mkdir("rootfs", dir_fd=target)
    directory = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    rootfs = os.open("rootfs", directory, dir_fd=target)
    try:
        os.fchmod(rootfs, 0o755)
        return unpack(store.blobs, image.layers, rootfs, limits, bar)
    finally:
        os.close(rootfs)
