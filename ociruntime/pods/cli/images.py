"""Commands on the image store: ``image list``, ``rm``, ``gc``, ``inspect``, ``history`` ..."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from ociruntime.base.errors import ImageError, RuntimeFailure, UsageError
from ociruntime.base.fault_injection import fault
from ociruntime.base.log import plain
from ociruntime.commandline.durations import period
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import tell, write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import Bar, amount
from ociruntime.commandline.tables_and_times import ago, as_json, date, tabbed
from ociruntime.images.fetch import look_up
from ociruntime.images.model.image import Image, Record
from ociruntime.images.model.inspect_details import details
from ociruntime.images.model.reference import parse
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from ociruntime.images.store.unused_images import garbage
from ociruntime.images.unpack.tree_store import CHANGED, Tree, TreeStore, tree_id
from ociruntime.pods.cli.context import Context
from ociruntime.pods.cli.options import FORMAT
from ociruntime.pods.store.lock import prepare_lock
from ociruntime.pods.store.used_images import running_trees, used_images, used_trees

_HISTORY_TITLES = ["CREATED", "CREATED BY", "SIZE", "COMMENT"]
USE_NAME = "use a name such as localhost:5000/team/web:1.2"
_LONGEST_COMMAND = 45  # characters
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


def run_image_list(context: Context, arguments: Arguments) -> int:
    """List the images in the store: one line per name, and one for an image without a name."""
    fields = _fields(arguments.text("fields", _SHOWN), "fields")
    keys = _fields(arguments.text("sort", "importtime"), "sort")
    with Store(context.directory) as store:
        images = _described(store, TreeStore(context.directory))
    images.sort(
        key=lambda image: [image[key] for key in keys],
        reverse=arguments.text("order", "asc") == "desc",
    )
    if output_format := arguments.text("format"):
        return write(as_json([_for_json(image) for image in images], output_format))
    full = arguments.flag("full")
    rows = [] if arguments.flag("no-legend") else [[TITLES[key] for key in fields]]
    rows += [[_cell(image, key, full=full) for key in fields] for image in images]
    return write(tabbed(rows))


def _described(store: Store, trees: TreeStore) -> list[dict[str, Any]]:
    """Return a dict for each name of each image in the store, with the keys of TITLES.

    For an image without a name, returns one dict with the name "".  A damaged image has the
    platform "damaged", and its size does not include its unpacked tree.
    """
    rows = []
    for record in store.records():
        platform, tree_size = "", 0
        try:
            image = store.load(record)
            platform, tree_size = image.platform, trees.size(tree_id(image))
        except ImageError:
            platform = "damaged"
        for name in record.names or ("",):
            rows.append(
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
    return rows


def _fields(text: str, option: str) -> list[str]:
    fields = text.split(",")
    for field in fields:
        if field not in TITLES:
            raise UsageError(
                f'--{option}: unknown field "{field}"', f"supported: {', '.join(TITLES)}"
            )
    return fields


def _cell(image: dict[str, Any], field: str, *, full: bool) -> str:
    value = image[field]
    if field == "id":
        return str(value) if full else str(value).partition(":")[2][:_SHORT_ID]
    if field == "size":
        return str(value) if full else amount(value)
    if field in ("importtime", "lastused"):
        return date(int(value)) if full else ago(int(value))
    # The platform comes from the image, and may be empty.
    return str(value) or _NONE


def _for_json(image: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": image["id"],
        "name": image["name"],
        "size": image["size"],
        "import_time": int(image["importtime"]),
        "last_used_time": int(image["lastused"]),
        "platform": image["platform"],
    }


_FAILED = 254


def run_image_rm(context: Context, arguments: Arguments) -> int:
    """Remove images from the store; if a removal fails, print the error and continue.

    Holds a lock that excludes ``ocipod prepare``, because that command might be about to use one of
    the images.  Returns 254 if a removal failed.
    """
    status = count = freed = 0
    force, untag = arguments.flag("force"), arguments.flag("untag")
    with Store(context.directory) as store, prepare_lock(context.directory, exclusive=True):
        used = set() if force else used_images(context.directory)
        for text in arguments.positional:
            try:
                record = look_up(store, text)
                if untag and not _is_id(text, record) and store.remove_name(record.id, record.name):
                    count += 1
                    write_lines([f"untagged {record.name}"])
                    continue
                if record.names and arguments.flag("unnamed"):
                    raise ImageError(f'remove image "{text}": it has a name: {record.name}')
                if record.id in used:
                    hint = "use --force to remove it anyway"
                    raise ImageError(f'remove image "{text}": it is used by a pod', hint)
                freed += _remove_image(context, store, record)
                count += 1
                write_lines([" ".join(["removed", record.id, *record.names])])
            except RuntimeFailure as failure:
                tell("ocipod", str(failure))
                status = _FAILED
    write(f"{count} of {len(arguments.positional)} removed, {amount(freed)} freed\n")
    return status


def _is_id(text: str, record: Record) -> bool:
    return record.id.partition(":")[2].startswith(text.removeprefix("sha256:"))


def _remove_image(context: Context, store: Store, record: Record) -> int:
    """Remove an image from the store; return the number of bytes freed.

    Also removes the image's unpacked tree if no other image or pod uses the tree.
    """
    try:
        tree = tree_id(store.load(record))
    except ImageError:
        tree = ""  # the image is damaged: its tree is unknown, image gc removes it
    freed = store.remove([record.id])
    if not tree or any(tree_id(image) == tree for image in store.images()):
        return freed
    trees = TreeStore(context.directory)
    size = trees.size(tree)
    if tree not in used_trees(context.directory):
        trees.remove(tree)
        freed += size
    return freed


_GRACE = 24 * 3600.0  # seconds


def run_image_gc(context: Context, arguments: Arguments) -> int:
    """Remove unused images, their unpacked trees, and stray files such as interrupted downloads.

    Holds a lock that excludes ``ocipod prepare``, because a pod that is being prepared does not
    refer to its images yet.  ``prepare`` may look up an image just before it waits for the lock.
    Therefore the time of an image's last use is checked again before the image is removed.  Nothing
    is removed unless the images of all pods can be determined.
    """
    from ociruntime.images.registry.resumable_download import remove_stale

    text = arguments.text("grace-period")
    grace = period(text, "grace-period") if text else _GRACE
    before = time.time() - grace
    trees = TreeStore(context.directory)
    with Store(context.directory) as store, prepare_lock(context.directory, exclusive=True):
        unused = garbage(
            store.records(),
            trees.trees(),
            _trees(store),
            used_images(context.directory),
            used_trees(context.directory),
            before,
        )
        fault("imagegc.before-sweep")
        of_trees = _remove_trees(trees, unused.trees)
        of_images = _remove_images(store, unused.images, before)
        swept = store.sweep()
        trees.sweep()
        cut = remove_stale(f"{store.path}/partial", 0)
    removed = f"{of_images[0]} images, {of_trees[0]} trees and {swept[0] + cut[0]} stray files"
    freed = of_images[1] + of_trees[1] + swept[1] + cut[1]
    return write(f"{removed} removed, {amount(freed)} freed\n")


def _remove_trees(trees: TreeStore, unused: Iterable[Tree]) -> tuple[int, int]:
    """Remove the ``unused`` trees that are not locked; return (number removed, bytes freed)."""
    count = freed = 0
    for tree in unused:
        if trees.remove(tree.id, wait=False):
            count, freed = count + 1, freed + tree.size
            write(f"removed tree {tree.id}\n")
    return count, freed


def _remove_images(store: Store, unused: Iterable[Record], before: float) -> tuple[int, int]:
    """Remove the images in ``unused`` that have not been used since the time ``before``.

    Returns (number of removed images, bytes freed).
    """
    count = freed = 0
    for record in unused:
        if store.last_use(record.id) > before:
            continue
        count, freed = count + 1, freed + store.remove([record.id])
        write_lines([" ".join(["removed", record.id, *record.names])])
    return count, freed


def _trees(store: Store) -> dict[str, str]:
    """Return {image id: id of its unpacked tree} for all images that are not damaged."""
    trees = {}
    for record in store.records():
        try:
            trees[record.id] = tree_id(store.load(record))
        except ImageError:
            continue
    return trees


def run_image_verify(context: Context, arguments: Arguments) -> int:
    """Verify the blobs and trees of images; print damaged blobs, and the state of each tree.

    Removes damaged blobs, and unpacks modified trees again.  Returns 254 if damage remains.
    """
    status = 0
    with Store(context.directory) as store, Bar() as bar:
        records = [look_up(store, text) for text in arguments.positional]
        for text, record in zip(arguments.positional, records, strict=True):
            damaged = _damaged_blobs(store, record, bar)
            lines = [f"{blob} is damaged" for blob in damaged]
            whole = not damaged
            if whole:
                line, whole = _verify_tree(context, store.load(record), bar)
                lines.append(line)
            else:
                lines.append("remove the image and fetch it again")
            bar.clear()
            write_lines(f"{text}: {line}" for line in lines)
            status = status if whole else _FAILED
    return status


def _damaged_blobs(store: Store, record: Record, bar: Bar) -> list[str]:
    """Remove an image's blobs that do not match their digests.

    Returns a string "blob DIGEST" for each removed blob.
    """
    damaged = []
    digests = store.digests(record.id)
    for done, digest in enumerate(digests):
        bar("reading blobs", done, len(digests))
        if not store.blobs.is_whole(digest):
            store.blobs.drop(digest)
            damaged.append(f"blob {digest}")
    return damaged


def _verify_tree(context: Context, image: Image, bar: Bar) -> tuple[str, bool]:
    """Verify the image's unpacked tree; if it was modified, unpack the image again.

    The image is not unpacked again while a running pod uses the tree.  Returns (message for the
    user, whether the tree is intact now).
    """
    settings = Settings(context.system_config, context.local_config, context.user_config)
    trees = TreeStore(context.directory, settings.limits)
    tree = tree_id(image)
    with prepare_lock(context.directory, exclusive=True):
        state = trees.verify(tree, bar)
        if state != CHANGED:
            return f"blobs are intact, tree is {state}", True
        if tree in running_trees(context.directory):
            return "tree is modified; it is not unpacked again while a running pod uses it", False
        trees.render_again(image, bar)
    return "tree was modified; unpacked again", True


def run_image_cat_manifest(context: Context, arguments: Arguments) -> int:
    """Print an image's manifest; with ``--config`` its configuration, with ``--index`` its index.

    The bytes are printed unchanged unless ``--pretty-print`` is given.  If the last line does not
    end with a newline, a newline is added.
    """
    if arguments.flag("config") and arguments.flag("index"):
        raise UsageError("--config and --index are mutually exclusive")
    with Store(context.directory) as store:
        record = look_up(store, arguments.positional[0])
        digest = record.id
        if arguments.flag("config"):
            digest = store.load(record).config_digest
        elif arguments.flag("index"):
            digest = record.index
        if not digest:
            raise ImageError(
                f'print the index of image "{arguments.positional[0]}": it has no index'
            )
        text = store.blobs.read(digest).decode("utf-8", "surrogateescape")
    if arguments.flag("pretty-print"):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return write(text if text.endswith("\n") else f"{text}\n")


def history_table(steps: list[dict[str, Any]], *, full: bool) -> str:
    """Return a table of the steps by which an image was built, the newest first.

    ``steps`` has the form of ``history`` in the output of ``image inspect``, with the oldest step
    first.  With ``full``, commands are not truncated.
    """
    rows = [_HISTORY_TITLES]
    for step in reversed(steps):
        command = plain(step["created_by"])
        if not full and len(command) > _LONGEST_COMMAND:
            command = command[: _LONGEST_COMMAND - 1] + "…"
        created = plain(step["created"]).partition(".")[0]
        rows.append([created or "-", command or "-", amount(step["size"]), step["comment"]])
    return tabbed(rows)


def run_image_inspect(context: Context, arguments: Arguments) -> int:
    """Print the settings, layers and history of each image, as a JSON list."""
    with Store(context.directory) as store:
        images = [details(store.load(look_up(store, text))) for text in arguments.positional]
    return write(json.dumps(images, indent=2) + "\n")


def run_image_history(context: Context, arguments: Arguments) -> int:
    """Print the steps by which an image was built, newest first."""
    with Store(context.directory) as store:
        image = details(store.load(look_up(store, arguments.positional[0])))
    return write(history_table(image["history"], full=arguments.flag("no-trunc")))


def run_image_tag(context: Context, arguments: Arguments) -> int:
    """Add a name to an image; if another image has this name, remove the name from that image.

    The signature policy applies to the names under which the image was imported, not to this name.
    """
    text, name = arguments.positional
    reference = parse(name)
    if reference.kind != "registry" or reference.digest:
        raise ImageError(f'tag image "{text}": "{name}" is not a name with a tag', USE_NAME)
    with Store(context.directory) as store:
        store.set_name(look_up(store, text).id, reference.name)
    return 0


COMMANDS = (
    Command(
        "image list",
        "list images in the store",
        run_image_list,
        options=(
            Option("fields", "fields to show", "FIELD,..."),
            Option("sort", "fields to sort by (default: importtime)", "FIELD,..."),
            Option("order", "sort order (default: asc)", "asc|desc", kind="choice"),
            Option("full", "do not truncate IDs, sizes and times"),
            Option("no-legend", "omit the header"),
            FORMAT,
        ),
        details=(
            "Prints one line per name. Fields: id, name, size (including the unpacked tree),\n"
            "importtime, lastused, platform, digest."
        ),
        examples=(
            ("List the largest images first", "ocipod image list --sort=size --order=desc"),
            ("List only names", "ocipod image list --no-legend --fields=name"),
        ),
    ),
    Command(
        "image rm IMAGE...",
        "remove images from the store",
        run_image_rm,
        options=(
            Option("force", "also remove images in use; pods keep their files"),
            Option("untag", "remove only the name if the image has others"),
            Option("unnamed"),  # for the manager: refuse an image that got a name meanwhile
        ),
        details=(
            "Removes an image with all its names. If one image cannot be removed, the others\n"
            "are, and the exit status is 254."
        ),
        examples=(("Remove an image by name", "ocipod image rm docker.io/library/busybox:latest"),),
    ),
    Command(
        "image gc",
        "remove unused images",
        run_image_gc,
        options=(Option("grace-period", "keep images used within TIME (default: 24h)", "TIME"),),
        details=(
            "Removes images that no pod uses, their unpacked trees, and the remains of\n"
            "interrupted imports. Waits while a pod is being prepared."
        ),
        examples=(("Remove images unused for a week", "ocipod image gc --grace-period=168h"),),
    ),
    Command(
        "image verify IMAGE...",
        "verify the digests of images",
        run_image_verify,
        details=(
            "Reports and removes damaged blobs, so that they can be fetched again. Unpacks a\n"
            "modified tree again, unless a running pod uses it. The exit status is 254 if\n"
            "anything stays damaged."
        ),
        examples=(("Check an image for damage", "ocipod image verify busybox"),),
    ),
    Command(
        "image cat-manifest IMAGE",
        "print the manifest of an image",
        run_image_cat_manifest,
        options=(
            Option("config", "print the configuration instead"),
            Option("index", "print the image index instead"),
            Option("pretty-print", "indent the output"),
        ),
        examples=(
            (
                "Print the environment of an image",
                "ocipod image cat-manifest --config busybox | jq .config.Env",
            ),
        ),
    ),
    Command(
        "image inspect IMAGE...",
        "show details of images as JSON",
        run_image_inspect,
        details="Prints settings, layers and history of each image in the store.",
        examples=(
            (
                "Print the environment of an image",
                "ocipod image inspect busybox | jq .[0].config.Env",
            ),
        ),
    ),
    Command(
        "image history IMAGE",
        "show how an image was built",
        run_image_history,
        options=(Option("no-trunc", "do not truncate commands"),),
        details="Prints the steps, newest first, each with the stored size of its layer.",
    ),
    Command(
        "image tag IMAGE NAME",
        "give an image another name",
        run_image_tag,
        details=(
            "NAME is a registry reference, such as localhost:5000/team/web:1.2. If another\n"
            "image has that name, it loses the name. The signature policy applies to the name\n"
            "under which the image was fetched."
        ),
        examples=(("Name an image by its version", "ocipod image tag web web:1.2"),),
    ),
)
