"""``ocipod cat-manifest``."""

from __future__ import annotations

from ociruntime.cli.json_output import as_json
from ociruntime.cli.output import write
from ociruntime.ocipod.uuids import given_uuid
from ociruntime.pod.manifest_file import read_manifest
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Prints the manifest as it is now."""
    with open_pod(context.directory, given_uuid(arguments)) as pod:
        manifest = read_manifest(pod)
    pretty = arguments.flags.get("pretty-print", True)
    return write(as_json(manifest, "json-pretty" if pretty else "json"))
