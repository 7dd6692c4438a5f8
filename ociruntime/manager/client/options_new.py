"""Commands that create containers, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

# Options of a new container; `manager/client/new_container.py` turns them into a request.
SPEC_OPTIONS: tuple[Option, ...] = (
    ("name", "", "text", "NAME", "name of the container (default: generated)"),
    ("rootfs", "", "text", "DIR", "use a copy of this directory, not an image"),
    ("entrypoint", "", "text", "PROGRAM", "override the entrypoint of the image"),
    ("env", "e", "list", "NAME[=VALUE]", "set an environment variable"),
    ("env-file", "", "list", "FILE", "read environment variables from a file"),
    ("volume", "v", "list", "SOURCE:TARGET[:ro]", "bind mount a directory or a named volume"),
    ("mount", "", "list", "KEY=VALUE,...", "mount with keys: source, target, readonly"),
    ("publish", "p", "list", "[IP:]PORT:PORT", "publish a port to the host"),
    ("workdir", "w", "text", "DIR", "working directory in the container"),
    ("user", "u", "text", "USER[:GROUP]", "user name or UID"),
    ("hostname", "", "text", "NAME", "hostname of the container"),
    ("network", "", "text", "NAME", "network: default, none, host or a name"),
    ("dns", "", "list", "IP", "set a DNS server"),
    ("memory", "m", "text", "SIZE", "memory limit"),
    ("cpus", "", "text", "N", "number of CPUs: 0.5, 2"),
    ("pids-limit", "", "number", "N", "maximum number of processes"),
    ("cap-add", "", "list", "CAP", "add a capability"),
    ("cap-drop", "", "list", "CAP", "drop a capability"),
    ("read-only", "", "flag", "", "mount the root filesystem read-only"),
    ("interactive", "i", "flag", "", "keep stdin open"),
    ("tty", "t", "flag", "", "allocate a pseudo-terminal"),
    ("label", "l", "list", "KEY[=VALUE]", "set metadata"),
    ("restart", "", "text", "POLICY", "no, on-failure[:N], always or unless-stopped"),
    ("rm", "", "flag", "", "remove the container when it exits"),
    ("stop-signal", "", "text", "SIGNAL", "signal sent by stop"),
    ("stop-timeout", "", "number", "SECONDS", "timeout before SIGKILL (default: 10)"),
    ("pull", "", "choice", "missing|always|never", "pull policy (default: missing)"),
    ("insecure", "", "list", "CHECK", "skip an image check: image, tls, http"),
)
# Aliases that docker and podman know.
_ALSO: tuple[Option, ...] = (("net", "", "text", "NAME", ""),)

_DETAILS = "With --rootfs there is no IMAGE: all arguments are the command."
_SYNOPSIS = "IMAGE [COMMAND [ARG]...]"

NEW_COMMANDS: tuple[Command, ...] = (
    (
        "run",
        _SYNOPSIS,
        1,
        ANY,
        "create and start a container",
        (
            ("detach", "d", "flag", "", "run in the background and print the ID"),
            ("detach-keys", "", "text", "KEYS", "detach key sequence (default: ctrl-p,ctrl-q)"),
            *SPEC_OPTIONS,
            *_ALSO,
        ),
        _DETAILS,
    ),
    (
        "create",
        _SYNOPSIS,
        1,
        ANY,
        "create a container without starting it",
        (*SPEC_OPTIONS, *_ALSO),
        _DETAILS,
    ),
)
