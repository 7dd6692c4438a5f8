"""``ocipod app add``."""

from __future__ import annotations

from ociruntime.errors import UsageError
from ociruntime.ocipod.options import GLOBAL_OPTIONS
from ociruntime.ocipod.preparation import check_root, host_of, warn
from ociruntime.pod.app_options import ADD_OPTIONS, APP_OPTIONS
from ociruntime.pod.app_words import read_words
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.ocipod.context import Context


def run(context: Context, words: list[str]) -> int:
    """The app is in the pod, prepared to be started.  Raises RuntimeFailure."""
    from ociruntime.pod.app_addition import add_to_pod
    from ociruntime.pod.prepare import Request

    options = (*APP_OPTIONS, *ADD_OPTIONS)
    said = read_words(words, (), options, GLOBAL_OPTIONS, leading=1, single=True)
    context = context.changed(said.globals.texts, said.globals.flags)
    if not said.positional or len(said.apps) != 1:
        raise UsageError("app add takes a pod and one image", "ocipod app add UUID IMAGE")
    check_root()
    with open_pod(context.directory, said.positional[0]) as pod:
        add_to_pod(pod, Request(host_of(context), said, warn))
    return 0
