"""``ocipod cat-manifest``."""

from __future__ import annotations

from ociruntime.commandline.json_output import as_json
from ociruntime.commandline.output import write
from ociruntime.pods.cli.uuids import given_uuid
from ociruntime.pods.store.manifest_file import read_manifest
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print the pod's current manifest."""
    with open_pod(context.directory, given_uuid(arguments)) as pod:
        manifest = read_manifest(pod)
    pretty = arguments.flags.get("pretty-print", True)
    return write(as_json(manifest, "json-pretty" if pretty else "json"))
