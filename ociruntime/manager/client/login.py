"""``ocictl login`` and ``logout``: store and remove a registry's credentials in ocid."""

from __future__ import annotations

from ociruntime.commandline.credentials import LOGIN_OPTIONS, credentials
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, resource


def run_login(connection: Connection, arguments: Arguments) -> int:
    """Log in to a registry; ask the user for a missing user name or password.

    Raises UsageError if an option is invalid, or if the user name or password cannot be read.
    """
    user, password = credentials(arguments)
    body = {"username": user, "password": password, **_registry(arguments)}
    connection.post(resource("login"), body)
    return write("Login succeeded\n")


def run_logout(connection: Connection, arguments: Arguments) -> int:
    """Make the daemon remove its stored credentials for a registry."""
    connection.post(resource("logout"), _registry(arguments))
    return 0


def _registry(arguments: Arguments) -> dict[str, str]:
    return {"registry": arguments.positional[0]} if arguments.positional else {}


COMMANDS = (
    Command(
        "login [REGISTRY]",
        "log in to a registry",
        run_login,
        options=LOGIN_OPTIONS,
        details=(
            "Default: docker.io. ocid checks the credentials and keeps them in\n"
            "/etc/ociruntime/auth.json, for the pulls of all users of ocid."
        ),
        examples=(("Log in with a token", "ocictl login -u me --password-stdin quay.io <token"),),
    ),
    Command("logout [REGISTRY]", "remove the credentials of a registry", run_logout),
)
