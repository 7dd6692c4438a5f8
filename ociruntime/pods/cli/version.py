"""``ocipod version``."""

from __future__ import annotations

import platform

from ociruntime import __version__
from ociruntime.commandline.output import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context

# Versions of the supported specifications.
IMAGE_SPEC = "1.1"
CNI_SPEC = "1.1.0"


def run(context: Context, arguments: Arguments) -> int:
    """Print the versions, one per line."""
    del context, arguments
    facts = {
        "ocipod": __version__,
        "image-spec": IMAGE_SPEC,
        "CNI": CNI_SPEC,
        "Python": platform.python_version(),
        "Linux": platform.release(),
        "machine": platform.machine(),
    }
    return write("".join(f"{name}: {version}\n" for name, version in facts.items()))
