"""``ocipod app add``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.pods.cli.options import GLOBAL_OPTIONS
from ociruntime.pods.cli.preparation import check_root, host_of, warn
from ociruntime.pods.manifest.app_arguments import read_words
from ociruntime.pods.manifest.app_options import ADD_OPTIONS, APP_OPTIONS
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.cli.context import Context


def run(context: Context, args: list[str]) -> int:
    """Add an app to the pod, ready to be started.  Raises RuntimeFailure."""
    from ociruntime.pods.operations.prepare import Request
    from ociruntime.pods.operations.sandbox import add_to_pod

    options = (*APP_OPTIONS, *ADD_OPTIONS)
    parsed = read_words(args, (), options, GLOBAL_OPTIONS, leading=1, single=True)
    context = context.changed(parsed.globals.texts, parsed.globals.flags)
    if not parsed.positional or len(parsed.apps) != 1:
        raise UsageError("app add: a pod and one image are required", "ocipod app add UUID IMAGE")
    check_root()
    with open_pod(context.directory, parsed.positional[0]) as pod:
        add_to_pod(pod, Request(host_of(context), parsed, warn))
    return 0
