"""``ocipod image list``."""

from __future__ import annotations

from ociruntime.base.errors import ImageError, UsageError
from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import write
from ociruntime.commandline.progress import amount
from ociruntime.commandline.times import ago, date

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.images.store.store import Store
    from ociruntime.images.unpack.tree_store import TreeStore
    from ociruntime.pods.cli.context import Context

TITLES = {
    "id": "ID",
    "name": "NAME",
    "size": "SIZE",
    "importtime": "IMPORT TIME",
    "lastused": "LAST USED",
    "platform": "PLATFORM",
    "digest": "DIGEST",
}
_SHOWN = "id,name,size,importtime,lastused"
_SHORT_ID = 12  # digits
_NONE = "-"


def run(context: Context, arguments: Arguments) -> int:
    """Print a line for each name of each image; an image without a name has one line, too."""
    from ociruntime.images.store.store import Store
    from ociruntime.images.unpack.tree_store import TreeStore

    fields = _fields(arguments.text("fields", _SHOWN), "fields")
    keys = _fields(arguments.text("sort", "importtime"), "sort")
    with Store(context.directory) as store:
        found = _described(store, TreeStore(context.directory))
    found.sort(
        key=lambda one: [one[key] for key in keys],
        reverse=arguments.text("order", "asc") == "desc",
    )
    if output_format := arguments.text("format"):
        from ociruntime.commandline.json_output import as_json

        return write(as_json([_for_json(one) for one in found], output_format))
    full = arguments.flag("full")
    rows = [] if arguments.flag("no-legend") else [[TITLES[key] for key in fields]]
    rows += [[_cell(one, key, full=full) for key in fields] for one in found]
    return write(tabbed(rows))


def _described(store: Store, trees: TreeStore) -> list[dict[str, Any]]:
    """Return the rows by field; for a damaged image, only what the store's index has."""
    from ociruntime.images.unpack.tree_store import tree_id

    found = []
    for record in store.records():
        platform, tree_size = "", 0
        try:
            image = store.load(record)
            platform, tree_size = image.platform, trees.size(tree_id(image))
        except ImageError:
            platform = "damaged"
        for name in record.names or ("",):
            found.append(
                {
                    "id": record.id,
                    "name": name,
                    "size": record.size + tree_size,
                    "importtime": record.imported,
                    "lastused": record.used,
                    "platform": platform,
                    "digest": record.id,
                }
            )
    return found


def _fields(text: str, option: str) -> list[str]:
    fields = text.split(",")
    for field in fields:
        if field not in TITLES:
            raise UsageError(f'--{option}: unknown field "{field}"', ", ".join(TITLES))
    return fields


def _cell(one: dict[str, Any], field: str, *, full: bool) -> str:
    value = one[field]
    if field == "id":
        return str(value) if full else str(value).partition(":")[2][:_SHORT_ID]
    if field == "size":
        return str(value) if full else amount(value)
    if field in ("importtime", "lastused"):
        return date(int(value)) if full else ago(int(value))
    # The platform is copied from the image and may be empty.
    return str(value) or _NONE


def _for_json(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": one["id"],
        "name": one["name"],
        "size": one["size"],
        "import_time": int(one["importtime"]),
        "last_used_time": int(one["lastused"]),
        "platform": one["platform"],
    }
