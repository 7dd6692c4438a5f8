"""``ocictl inspect``."""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.each_reference import FAILED, print_failure
from ociruntime.manager.client.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Print the containers that exist; return 1 if one was not found.  Raises UsageError."""
    status = 0
    records = []
    for ref in arguments.positional:
        try:
            records.append(connection.get(container(ref)))
        except HostError:
            raise
        except RuntimeFailure as failure:
            print_failure(failure)
            status = FAILED
    if form := arguments.text("format"):
        return write(formatted(records, form)) or status
    import json

    return write(json.dumps(records, indent=2) + "\n") or status
