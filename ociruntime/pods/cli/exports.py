"""Commands that export images and apps: ``image export``, ``extract``, ``render``, ``export``."""

from __future__ import annotations

import os

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import Bar
from ociruntime.images.fetch import look_up
from ociruntime.images.formats.export_image import write_archive, write_layout
from ociruntime.images.model.image import Image
from ociruntime.images.model.image_limits import Limits
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from ociruntime.images.unpack.unpack import unpack
from ociruntime.pods.cli.context import Context
from ociruntime.pods.cli.new_directory import check_target, new_file, put_directory
from ociruntime.pods.operations.export_app import BlobsAndNew, exported, lock_stopped_pod
from ociruntime.pods.store.manifest_file import read_manifest
from ociruntime.pods.store.phases import open_pod


def run_image_export(context: Context, arguments: Arguments) -> int:
    """Write an image to an OCI archive, or with ``--format=oci`` to a directory.

    If this fails, neither an incomplete archive nor an incomplete directory remains.
    """
    text, target = arguments.positional
    overwrite = arguments.flag("overwrite")
    with Store(context.directory) as store, Bar() as bar:
        image = store.load(look_up(store, text))
        if arguments.text("format", "oci-archive") == "oci":
            if target == "-":
                raise UsageError(
                    "--format=oci: cannot write a directory to standard output",
                    "pass the path of a directory",
                )
            path = check_target(target, context.directory, overwrite=overwrite)
            put_directory(path, lambda new: write_layout(store.blobs, image, new, bar))
        else:
            with new_file(target, overwrite=overwrite) as file:
                write_archive(store.blobs, image, file, bar)
        store.mark_used(image.id)
    return 0


def run_image_extract(context: Context, arguments: Arguments) -> int:
    """Write an image's manifest, configuration and layers to a directory as an OCI image layout."""
    text, target = arguments.positional
    with Store(context.directory) as store, Bar() as bar:
        image = store.load(look_up(store, text))
        overwrite = arguments.flag("overwrite")
        path = check_target(target, context.directory, overwrite=overwrite)
        put_directory(path, lambda new: write_layout(store.blobs, image, new, bar))
        store.mark_used(image.id)
    return 0


CONFIG = "image-config.json"


def run_image_render(context: Context, arguments: Arguments) -> int:
    """Unpack an image to the new directory DIR: its layers to DIR/rootfs, and its configuration.

    With ``--rootfs-only``, unpack the layers to DIR itself, and leave out the configuration.
    """
    settings = Settings(context.system_config, context.local_config, context.user_config)
    limits = settings.limits()
    text, target = arguments.positional
    rootfs_only = arguments.flag("rootfs-only")
    with Store(context.directory) as store, Bar() as bar:
        image = store.load(look_up(store, text))
        overwrite = arguments.flag("overwrite")
        path = check_target(target, context.directory, overwrite=overwrite)
        warnings: list[str] = []

        def fill(new: int) -> None:
            warnings.extend(_fill(store, image, new, limits, bar, rootfs_only=rootfs_only))

        put_directory(path, fill)
        store.mark_used(image.id)
    for warning in warnings:
        context.log.warning(warning)
    return 0


def _fill(
    store: Store, image: Image, target: int, limits: Limits, bar: Bar, *, rootfs_only: bool
) -> list[str]:
    """Write an image's ``rootfs`` and ``image-config.json`` to the directory ``target``.

    ``target`` is a descriptor.  With ``rootfs_only``, unpack the layers to the directory itself,
    and leave out the configuration.  Returns warnings about file attributes that could not be set.
    """
    if rootfs_only:
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


def run_export(context: Context, arguments: Arguments) -> int:
    """Export a stopped app as an image archive; if this fails, no incomplete file remains."""
    uuid, target = arguments.positional
    squash = arguments.flag("squash")
    settings = Settings(context.system_config, context.local_config, context.user_config)
    limits = settings.limits()
    with open_pod(context.directory, uuid) as pod, Store(context.directory) as store, Bar() as bar:
        names = [entry["name"] for entry in read_manifest(pod)["apps"]]
        name = arguments.text("app")
        if not name and len(names) != 1:
            hint = f"choose one with --app: {', '.join(names)}" if names else "add one first"
            count = "several apps" if names else "no apps"
            raise UsageError(f"export pod {uuid}: the pod has {count}", hint)
        with new_file(target, overwrite=arguments.flag("overwrite")) as file:
            beside = "/tmp" if target == "-" else os.path.dirname(os.path.abspath(target))
            blobs = BlobsAndNew(store.blobs.path)
            with lock_stopped_pod(pod, "export"):
                app = name or names[0]
                image = exported(pod, app, store, blobs, beside, limits, squash=squash)
                write_archive(blobs, image, file, bar)
    return 0


_OVERWRITE = Option("overwrite", "replace the directory and its content")
COMMANDS = (
    Command(
        "image export IMAGE FILE",
        "export an image to a file",
        run_image_export,
        options=(
            Option(
                "format", "output format (default: oci-archive)", "oci-archive|oci", kind="choice"
            ),
            Option("overwrite", "overwrite an existing file"),
        ),
        details=(
            "Writes an OCI image layout, which `fetch` reads as oci-archive:FILE or oci:DIR.\n"
            "If FILE is -, the archive is written to standard output."
        ),
        examples=(
            (
                ("Copy an image to another machine, to `fetch oci-archive:busybox.tar` there"),
                "ocipod image export busybox - | ssh web 'cat >busybox.tar'",
            ),
        ),
    ),
    Command(
        "image extract IMAGE DIR",
        "extract an image as an OCI layout directory",
        run_image_extract,
        options=(_OVERWRITE,),
        details="DIR becomes an OCI image layout, which `fetch` reads as oci:DIR.",
        examples=(("Extract an OCI image layout", "ocipod image extract busybox ./layout"),),
    ),
    Command(
        "image render IMAGE DIR",
        "unpack an image into a directory",
        run_image_render,
        options=(Option("rootfs-only", "write only the files, into DIR itself"), _OVERWRITE),
        details=(
            "Creates DIR once everything is unpacked. It contains the directory rootfs, with\n"
            "the files of all layers, and image-config.json, the image's configuration."
        ),
        examples=(
            (
                "Unpack the root filesystem of a bundle",
                "ocipod image render --rootfs-only busybox rootfs",
            ),
        ),
    ),
    Command(
        "export UUID FILE",
        "export a stopped app as an image archive",
        run_export,
        options=(
            Option("app", "name of the app, if the pod has several", "APP"),
            Option("squash", "write a single layer"),
            Option("overwrite", "overwrite FILE"),
        ),
        details=("The new image has the settings of the app's image, and the files of the app."),
        examples=(("Export an app as an image", "ocipod export --app=web 6d52 web.tar"),),
    ),
)
