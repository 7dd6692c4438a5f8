"""``ocipod fetch``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.errors import HostError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context

SHORT = 12  # digits of an id


def run(context: Context, arguments: Arguments) -> int:
    """Prints an id for each image, in the order of the arguments."""
    from ociruntime.image.fetch import fetch
    from ociruntime.image.settings import Settings
    from ociruntime.image.store import Store
    from ociruntime.ocipod.progress import Bar

    signature = _signature(arguments)
    settings = Settings(context.system_config, context.local_config, context.user_config)
    policy = arguments.text("pull-policy", "update")
    with Store(context.directory) as store:
        for text in arguments.positional:
            with Bar() as bar:
                image = fetch(
                    store,
                    text,
                    policy,
                    context.insecure,
                    bar,
                    settings=settings,
                    signature=signature,
                )
            full = image.id if arguments.flag("full") else image.id.partition(":")[2][:SHORT]
            status = write(f"{full}\n")
            if status:
                return status
    return 0


def _signature(arguments: Arguments) -> bytes | None:
    path = arguments.text("signature")
    if not path:
        return None
    if len(arguments.positional) > 1:
        raise UsageError("--signature is about one image", "fetch the others apart")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise HostError(f"read {path}", error) from None
