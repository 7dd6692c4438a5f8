"""``ocipod fetch``."""

from __future__ import annotations

from ociruntime.base.errors import HostError, ImageError, UsageError
from ociruntime.commandline.output import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.images.model.image import Image
    from ociruntime.images.store.store import Store
    from ociruntime.pods.cli.context import Context

SHORT = 12  # digits of an id


def run(context: Context, arguments: Arguments) -> int:
    """Fetch each image and print its id, in the order of the arguments."""
    from ociruntime.images.store.store import Store

    signature = _signature(arguments)
    policy = arguments.text("pull-policy", "update")
    with Store(context.directory) as store:
        for text in arguments.positional:
            image = _fetch(context, store, text, policy, signature)
            full = image.id if arguments.flag("full") else image.id.partition(":")[2][:SHORT]
            status = write(f"{full}\n")
            if status:
                return status
    return 0


def _fetch(
    context: Context, store: Store, text: str, policy: str, signature: bytes | None
) -> Image:
    """Fetch an image into the store and unpack its tree, so that pods start quickly.

    An image that cannot be unpacked is removed again.
    """
    from ociruntime.commandline.progress import Bar, Lines
    from ociruntime.images.fetch import fetch
    from ociruntime.images.model.settings import Settings
    from ociruntime.images.unpack.tree_store import TreeStore
    from ociruntime.pods.cli.preparation import warn
    from ociruntime.pods.store.lock import prepare_lock

    settings = Settings(context.system_config, context.local_config, context.user_config)
    before = {name: one.id for one in store.records() for name in (*one.names, one.id)}
    warnings: list[str] = []
    by_program = context.arguments.text("progress") == "json"
    with Lines() if by_program else Bar() as bar:
        image = fetch(
            store,
            text,
            policy,
            context.insecure,
            bar,
            settings=settings,
            signature=signature,
            replace=context.arguments.flag("replace"),
            warn=warnings.append,
        )
        trees = TreeStore(context.directory, settings.limits)
        try:
            with prepare_lock(context.directory, exclusive=False):
                trees.render(image, bar)
        except ImageError:
            if image.id not in before:
                names = store.record(image.id).names
                store.remove([image.id])
                for name in names:
                    if name in before:
                        store.set_name(before[name], name)
            raise
    for warning in warnings:
        warn(warning)
    for warning in trees.notes:
        context.log.warning(warning)
    return image


def _signature(arguments: Arguments) -> bytes | None:
    path = arguments.text("signature")
    if not path:
        return None
    if len(arguments.positional) > 1:
        hint = "fetch the others separately"
        raise UsageError("--signature: only one image can be fetched with it", hint)
    from ociruntime.images.model.manifest import LARGEST_DOCUMENT

    try:
        with open(path, "rb") as file:
            signature = file.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        raise HostError(f"read {path}", error) from None
    if len(signature) > LARGEST_DOCUMENT:
        raise UsageError(f"--signature {path}: larger than {LARGEST_DOCUMENT} bytes")
    return signature
