"""Commands that fetch images and configure fetching: ``fetch``, ``trust``, ``config``."""

from __future__ import annotations

import json
import os

from ociruntime.base.errors import HostError, ImageError, UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import tell, write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import Bar, Lines
from ociruntime.images.fetch import fetch
from ociruntime.images.model.image import Image
from ociruntime.images.model.manifest import LARGEST_DOCUMENT
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from ociruntime.images.trust.openpgp import Key
from ociruntime.images.unpack.tree_store import TreeStore
from ociruntime.pods.cli.context import Context
from ociruntime.pods.manifest.build_manifest import volume_paths
from ociruntime.pods.store.lock import prepare_lock

SHORT = 12  # digits of an id


def run_fetch(context: Context, arguments: Arguments) -> int:
    """Fetch each image and print its id, in the order of the arguments.

    With ``--format=json``, print an object ``{"id", "volumes": [path]}`` for each image.
    """
    signature = _signature(arguments)
    policy = arguments.text("pull-policy", "update")
    with Store(context.directory) as store:
        for text in arguments.positional:
            image = _fetch(context, store, text, policy, signature)
            if arguments.text("format") == "json":
                line = json.dumps({"id": image.id, "volumes": volume_paths(image.app)})
            else:
                full = arguments.flag("full")
                line = image.id if full else image.id.partition(":")[2][:SHORT]
            status = write(f"{line}\n")
            if status:
                return status
    return 0


def _fetch(
    context: Context, store: Store, text: str, policy: str, signature: bytes | None
) -> Image:
    """Fetch the image ``text`` into the store, and unpack it, so that pods start quickly.

    ``text`` is the user's argument, a reference or file.  ``policy`` is the pull policy,
    ``signature`` a detached signature to verify, or None.  If a new image cannot be unpacked, it is
    removed from the store, and its names refer to their previous images again.
    """
    settings = Settings(context.system_config, context.local_config, context.user_config)
    before = {name: record.id for record in store.records() for name in (*record.names, record.id)}
    warnings: list[str] = []
    by_program = context.arguments.text("progress") == "json"
    try:
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
                platform=context.arguments.text("platform"),
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
    finally:  # the warnings may explain the failure
        for warning in warnings:
            tell("ocipod", warning)
    for warning in trees.warnings:
        context.log.warning(warning)
    return image


def run_image_load(context: Context, arguments: Arguments) -> int:
    """Load the images in each archive into the store, and print their ids and names."""
    from ociruntime.images.formats.local_image import load
    from ociruntime.images.trust.check_stored_image import Permission

    settings = Settings(context.system_config, context.local_config, context.user_config)
    with Store(context.directory) as store:
        permission = Permission(store, settings, context.insecure)

        def fetched(text: str) -> Image:
            return _fetch(context, store, text, "update", None)

        def warn(warning: str) -> None:
            tell("ocipod", warning)

        for path in arguments.positional:
            archive = os.path.abspath(path)
            for image, names in load(store, archive, fetched, permission, settings, warn):
                write_lines([" ".join([image.id, *names])])
    return 0


def _signature(arguments: Arguments) -> bytes | None:
    path = arguments.text("signature")
    if not path:
        return None
    if len(arguments.positional) > 1:
        hint = "fetch the other images separately"
        raise UsageError("--signature: only one image can be fetched with a signature", hint)
    if arguments.text("pull-policy") == "never":
        hint = "use --pull-policy=update"
        raise UsageError("--signature: cannot be verified with --pull-policy=never", hint)
    try:
        with open(path, "rb") as file:
            signature = file.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        raise HostError(f'--signature: read "{path}"', error) from None
    if len(signature) > LARGEST_DOCUMENT:
        raise UsageError(f'--signature: "{path}" is larger than {LARGEST_DOCUMENT} bytes')
    return signature


def run_trust(context: Context, arguments: Arguments) -> int:
    """Print each OpenPGP key and ask for confirmation; if all are confirmed, trust the keys."""
    from ociruntime.images.trust.policy import check_prefix
    from ociruntime.images.trust.trusted_keys import add_key, read_key_file

    prefix = arguments.text("prefix")
    if arguments.flag("root") == bool(prefix):
        hint = "use --prefix=PREFIX, or --root for all images"
        raise UsageError("trust: either --prefix or --root is required", hint)
    if prefix:
        prefix = check_prefix(prefix, "--prefix")
    keys = [(path, key) for path in arguments.positional for key in read_key_file(path)]
    for path, key in keys:
        write_lines(_description(prefix, path, key))
        if not arguments.flag("skip-fingerprint-review") and not _agreed():
            raise ImageError(f"trust key {key.fingerprint}: not confirmed", "no key was added")
    for _, key in keys:
        status = write(f"added {add_key(context.local_config, prefix, key)}\n")
        if status:
            return status
    return 0


def _description(prefix: str, path: str, key: Key) -> list[str]:
    groups = " ".join(key.fingerprint[at : at + 4] for at in range(0, len(key.fingerprint), 4))
    scope = f'images "{prefix}"' if prefix else "all images"
    users = [f"  {user_id}" for user_id in key.user_ids]
    return [f"key for {scope}, from {path}", f"  {groups}", *users]


def _agreed() -> bool:
    """Ask the user whether to trust the key that was printed; return True for yes.

    Raises ImageError at the end of standard input.
    """
    while True:
        write("trust this key (yes/no)? ")
        line = _line()
        if not line:
            write("\n")
            hint = "use --skip-fingerprint-review to skip the question"
            raise ImageError("trust the key: no answer on standard input", hint)
        answer = line.strip().lower()
        if answer in ("yes", "no"):
            return answer == "yes"


def _line() -> str:
    """Read a line of standard input and return it; "" at the end of the input.

    Reads byte by byte, because the rest of the input may be for another program.
    """
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line.decode(errors="replace")


def run_config(context: Context, arguments: Arguments) -> int:
    """Print the merged image settings as JSON, without passwords and tokens."""
    from ociruntime.images.registry import credential_files
    from ociruntime.images.trust import policy, trusted_keys

    settings = Settings(context.system_config, context.local_config, context.user_config)
    rules = policy.load_policy(settings)
    document = {
        "directories": {
            "data": context.directory,
            "system": context.system_config,
            "local": context.local_config,
            "user": context.user_config,
        },
        "mirrors": settings.mirrors(),
        "limits": vars(settings.limits()),
        "credentials": credential_files.hosts(settings, context.log.warning),
        "policy": {
            "default": policy.shown(rules.default),
            "prefixes": {name: policy.shown(rule) for name, rule in rules.prefixes.items()},
        },
        "trustedKeys": trusted_keys.overview(settings),
    }
    pretty = arguments.flags.get("pretty-print", True)
    return write(json.dumps(document, indent=2 if pretty else None) + "\n")


COMMANDS = (
    Command(
        "fetch IMAGE...",
        "download images into the store, print their IDs",
        run_fetch,
        options=(
            Option("pull-policy", "pull policy", "new|update|never", kind="choice"),
            Option("platform", "platform (default: this machine's)", "linux/ARCH"),
            Option("full", "print full IDs"),
            Option("format", value="text|json", kind="choice"),
            Option("signature", "verify this detached OpenPGP signature", "FILE"),
            Option("replace", "let an ACI take over the name of another image"),
            Option("progress", value="bar|json", kind="choice"),
        ),
        details=(
            "IMAGE is a registry reference (busybox:1.36, localhost:5000/web, docker://NAME),\n"
            "an ID, or a file: oci:DIR[:TAG], oci-archive:FILE[:TAG], dir:DIR, tar:FILE,\n"
            "docker-archive:FILE[:NAME], aci:FILE, or a path like ./image.tar. The name in\n"
            "the manifest of an ACI becomes the image's second name if no other image has it."
        ),
        examples=(
            ("Fetch from a registry", "ocipod fetch quay.io/prometheus/busybox:latest"),
            (
                "Fetch from an image layout",
                "ocipod --insecure-options=image fetch oci:./busybox:latest",
            ),
        ),
    ),
    Command(
        "image load FILE...",
        "load the images of an archive under their names",
        run_image_load,
        details=(
            "FILE is an archive of `docker save`, `podman save` or `ocipod image export`, or\n"
            "an OCI image layout. Prints the ID and the names of each image. If another image\n"
            "has one of the names, it loses that name. The signature policy applies to the\n"
            "file and to each name."
        ),
        examples=(("Load an archive", "docker save web >web.tar; ocipod image load web.tar"),),
    ),
    Command(
        "trust FILE...",
        "trust OpenPGP keys to sign images",
        run_trust,
        options=(
            Option("prefix", "for images like PREFIX/web or PREFIX:1", "PREFIX"),
            Option("root", "for all images"),
            Option("skip-fingerprint-review", "do not ask for confirmation"),
        ),
        details=(
            "Shows each key in the files and asks for confirmation, then adds them to\n"
            "trustedkeys in the local settings. PREFIX is a full name like docker.io/library."
        ),
        examples=(("Trust a key for one repository", "ocipod trust --prefix=quay.io/web web.asc"),),
    ),
    Command(
        "config",
        "print the merged image settings as JSON",
        run_config,
        options=(Option("pretty-print", "indent (default)"),),
        examples=(("Print the settings", "ocipod config"),),
    ),
)
