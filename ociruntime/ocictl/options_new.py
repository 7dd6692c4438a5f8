"""Commands that make containers, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

# What a new container is to be; `ocictl/new_container.py` makes a request of it.
SPEC_OPTIONS: tuple[Option, ...] = (
    ("name", "", "text", "NAME", "the container's name (one is made up)"),
    ("rootfs", "", "text", "DIR", "take a copy of this directory, not an image"),
    ("entrypoint", "", "text", "PROGRAM", "run this instead of the image's program"),
    ("env", "e", "list", "NAME[=VALUE]", "set a variable"),
    ("env-file", "", "list", "FILE", "set the variables of a file, one a line"),
    ("volume", "v", "list", "SOURCE:TARGET[:ro]", "mount a directory, or a volume by name"),
    ("mount", "", "list", "KEY=VALUE,...", "the same in other words: source, target, readonly"),
    ("publish", "p", "list", "[IP:]PORT:PORT", "forward a port of the host to one inside"),
    ("workdir", "w", "text", "DIR", "where the program begins"),
    ("user", "u", "text", "USER[:GROUP]", "who runs it"),
    ("hostname", "", "text", "NAME", "the container's host name"),
    ("network", "", "text", "NAME", "default, none, host or a network's name"),
    ("dns", "", "list", "IP", "a name server"),
    ("memory", "m", "text", "SIZE", "most memory"),
    ("cpus", "", "text", "N", "most CPU time: 0.5, 2"),
    ("pids-limit", "", "number", "N", "most processes"),
    ("cap-add", "", "list", "CAP", "give a capability more"),
    ("cap-drop", "", "list", "CAP", "give a capability less"),
    ("read-only", "", "flag", "", "let nobody change the container's files"),
    ("interactive", "i", "flag", "", "keep its standard input open"),
    ("tty", "t", "flag", "", "give it a terminal"),
    ("label", "l", "list", "KEY[=VALUE]", "note something"),
    ("restart", "", "text", "POLICY", "no, on-failure[:N], always, unless-stopped"),
    ("rm", "", "flag", "", "remove the container when it has ended"),
    ("stop-signal", "", "text", "SIGNAL", "how it is asked to end"),
    ("stop-timeout", "", "number", "SECONDS", "how long it may take to end (10)"),
    ("pull", "", "choice", "missing|always|never", "when to ask the registry (missing)"),
    ("insecure", "", "list", "CHECK", "a check of images to leave out: image, tls, http"),
)
# Other names, as callers of docker and podman know them.
_ALSO: tuple[Option, ...] = (("net", "", "text", "NAME", ""),)

_DETAILS = "With --rootfs, all arguments are the command."
_SYNOPSIS = "IMAGE [COMMAND [ARG]...]"

NEW_COMMANDS: tuple[Command, ...] = (
    (
        "run",
        _SYNOPSIS,
        1,
        ANY,
        "make a container and start it, and end as it ends",
        (
            ("detach", "d", "flag", "", "return when it runs, and print its id"),
            ("detach-keys", "", "text", "KEYS", "that leave a terminal (ctrl-p,ctrl-q)"),
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
        "make a container, and print its id",
        (*SPEC_OPTIONS, *_ALSO),
        _DETAILS,
    ),
)
