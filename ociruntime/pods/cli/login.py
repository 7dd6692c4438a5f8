"""``ocipod login`` and ``logout``: store and remove the credentials of a registry."""

from __future__ import annotations

from ociruntime.base.errors import ImageError
from ociruntime.commandline.credentials import LOGIN_OPTIONS, credentials
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.images.registry import credential_files
from ociruntime.images.registry.credential_files import Credential
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.registry.registry import Registry
from ociruntime.pods.cli.context import Context


def run_login(context: Context, arguments: Arguments) -> int:
    """Log in to a registry and store the credentials; ask for a missing user name or password.

    Raises UsageError for contradictory options, RegistryError if the registry refuses the
    credentials, HostError if they cannot be stored.
    """
    host = credential_files.registry_of("".join(arguments.positional))
    credential = Credential(*credentials(arguments))
    http = HttpClient(context.insecure)
    try:
        Registry(host, "", http, credential).ping()
    finally:
        http.close()
    path = credential_files.keep(_directory(context), host, credential)
    return write(f"Login succeeded: credentials for {host} are in {path}\n")


def run_logout(context: Context, arguments: Arguments) -> int:
    """Remove the stored credentials of a registry; raise ImageError if there are none."""
    host = credential_files.registry_of("".join(arguments.positional))
    if not credential_files.forget(_directory(context), host):
        hint = "ocipod config lists the credentials in other files"
        raise ImageError(f"log out of {host}: no credentials in {_directory(context)}", hint)
    return write(f"Removed the credentials for {host}\n")


def _directory(context: Context) -> str:
    return context.user_config or context.local_config


COMMANDS = (
    Command(
        "login [REGISTRY]",
        "log in to a registry",
        run_login,
        options=LOGIN_OPTIONS,
        details=(
            "Checks the credentials and adds them to auth.json in the directory of\n"
            "--user-config or, without this option, of --local-config. The default registry\n"
            "is docker.io."
        ),
        examples=(("Log in with a token", "ocipod login -u me --password-stdin quay.io <token"),),
    ),
    Command(
        "logout [REGISTRY]",
        "remove the credentials of a registry",
        run_logout,
        details=(
            "Removes the credentials that login has added. The default registry is\ndocker.io."
        ),
    ),
)
