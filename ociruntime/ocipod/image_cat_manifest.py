"""``ocipod image cat-manifest``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.errors import ImageError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Prints the document as it came: its digest is that of these bytes without a last newline."""
    from ociruntime.image.lookup import look_up
    from ociruntime.image.store import Store

    if arguments.flag("config") and arguments.flag("index"):
        raise UsageError("--config and --index are two documents")
    with Store(context.directory) as store:
        record = look_up(store, arguments.positional[0])
        digest = record.id
        if arguments.flag("config"):
            digest = store.load(record).config_digest
        elif arguments.flag("index"):
            digest = record.index
        if not digest:
            raise ImageError(f'"{arguments.positional[0]}" was not chosen from an index')
        text = store.blobs.read(digest).decode("utf-8", "surrogateescape")
    if arguments.flag("pretty-print"):
        import json

        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return write(text if text.endswith("\n") else f"{text}\n")
