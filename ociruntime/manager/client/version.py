"""``ocictl version``."""

from __future__ import annotations

from ociruntime import __version__
from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.each_reference import FAILED, print_failure
from ociruntime.manager.client.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Print the versions of client and daemon; return 1 if there is no daemon.

    Raises UsageError.
    """
    facts = {"ocictl": __version__}
    status = 0
    try:
        facts.update(connection.get(resource("version")))
    except RuntimeFailure as failure:
        print_failure(failure)
        status = FAILED
    if form := arguments.text("format"):
        return write(formatted([facts], form)) or status
    return write("".join(f"{name}: {value}\n" for name, value in facts.items())) or status
