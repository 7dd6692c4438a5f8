"""``ocipod image cat-manifest``."""

from __future__ import annotations

from ociruntime.base.errors import ImageError, UsageError
from ociruntime.commandline.output import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print the document byte for byte; a newline is added if it ends without one.

    The digest of the document is that of the bytes without this newline.
    """
    from ociruntime.images.fetch import look_up
    from ociruntime.images.store.store import Store

    if arguments.flag("config") and arguments.flag("index"):
        raise UsageError("--config cannot be combined with --index")
    with Store(context.directory) as store:
        record = look_up(store, arguments.positional[0])
        digest = record.id
        if arguments.flag("config"):
            digest = store.load(record).config_digest
        elif arguments.flag("index"):
            digest = record.index
        if not digest:
            raise ImageError(f'image "{arguments.positional[0]}" was not chosen from an index')
        text = store.blobs.read(digest).decode("utf-8", "surrogateescape")
    if arguments.flag("pretty-print"):
        import json

        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return write(text if text.endswith("\n") else f"{text}\n")
