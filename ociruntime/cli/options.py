"""Every command and every option, as data: parser, help and whatever documents them read this.

An option is ``(name, short, kind, value, help)``.  Kinds:

    flag     no value, or ``=true`` / ``=false``
    text     any value; ``value`` is its name in the help
    number   a decimal integer
    choice   ``value`` lists what is accepted, separated by ``|``

An option without help text is accepted and not shown.  A command is ``(name, arguments,
fewest, most, summary, options, details)``; ``fewest`` and ``most`` count its arguments.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Option = tuple[str, str, str, str, str]
    Command = tuple[str, str, int, int, str, tuple[Option, ...], str]

# What callers of runc or crun send and nothing here reads.
_CRIU: Option = ("criu", "", "text", "FILE", "")
_NO_SUBREAPER_IN_CREATE: Option = ("no-subreaper", "", "flag", "", "")

GLOBAL_OPTIONS: tuple[Option, ...] = (
    ("root", "", "text", "DIR", "keep the state of containers in DIR"),
    ("log", "", "text", "FILE", "append errors to FILE, besides standard error"),
    ("log-format", "", "choice", "text|json", "how a line of the log is written"),
    ("log-level", "", "choice", "error|warning|info|debug", "the least that is worth a line"),
    ("debug", "", "flag", "", "as --log-level=debug, with tracebacks"),
    ("cgroup-manager", "", "choice", "cgroupfs|systemd|disabled", "only cgroupfs works so far"),
    ("systemd-cgroup", "", "flag", "", "the same as --cgroup-manager=systemd"),
    ("rootless", "", "choice", "true|false|auto", "do without cgroups that may not be made"),
    _CRIU,
    ("version", "v", "flag", "", "print the version"),
    ("help", "h", "flag", "", "print help, also after a command"),
    ("usage", "?", "flag", "", ""),
)

_CONTAINER_OPTIONS: tuple[Option, ...] = (
    ("bundle", "b", "text", "DIR", "the bundle (default: the working directory)"),
    ("config", "f", "text", "FILE", "read FILE of the bundle instead of config.json"),
    ("console-socket", "", "text", "SOCKET", "send the terminal's master to this unix socket"),
    ("pid-file", "", "text", "FILE", "write the pid of the first process to FILE"),
    ("preserve-fds", "", "number", "N", "hand descriptors 3 to N + 2 to the container"),
    ("no-pivot", "", "flag", "", "move the root, do not pivot: for an initramfs"),
    ("no-new-keyring", "", "flag", "", "keep the session keyring of the caller"),
)

COMMANDS: tuple[Command, ...] = (
    (
        "create",
        "ID",
        1,
        1,
        "build a container up to the point where its program would start",
        (*_CONTAINER_OPTIONS, _NO_SUBREAPER_IN_CREATE),
        (
            "The container waits for `start`. The command returns when everything is mounted,\n"
            "limited and checked, and the program found; after a failure nothing is left.\n"
            "Standard input, output and error become the container's."
        ),
    ),
    (
        "start",
        "ID",
        1,
        1,
        "run the program of a created container",
        (("failure-fd", "", "number", "FD", ""),),
        "",
    ),
    (
        "state",
        "ID",
        1,
        1,
        "print the state of a container as JSON",
        (),
        (
            "The status is creating, created, running, paused or stopped; a stopped container\n"
            "has pid 0 and stays until `delete`."
        ),
    ),
    (
        "kill",
        "ID [SIGNAL]",
        1,
        2,
        "send a signal to the first process of a container",
        (("all", "a", "flag", "", "all processes; a stopped container is no error"),),
        (
            "SIGNAL is a number or a name in any case, with or without SIG: 9, KILL, SIGTERM,\n"
            "SIGRTMIN+3. The default is SIGTERM."
        ),
    ),
    (
        "delete",
        "ID",
        1,
        1,
        "remove a stopped container",
        (("force", "f", "flag", "", "kill it first; an unknown id is no error"),),
        (
            "A container that was created and never started is removed without --force.\n"
            "What an interrupted `create` has left is removed as well."
        ),
    ),
    (
        "run",
        "ID",
        1,
        1,
        "create and start a container, wait for its end and delete it",
        (
            *_CONTAINER_OPTIONS,
            ("detach", "d", "flag", "", "return once the program runs"),
            ("keep", "", "flag", "", "do not delete the container after its end"),
            ("no-subreaper", "", "flag", "", "do not adopt orphans of the container"),
        ),
        (
            "The exit status is the program's, or 128 and the number of the signal that ended\n"
            "it. Signals sent to this command reach the program."
        ),
    ),
    (
        "list",
        "",
        0,
        0,
        "list the containers",
        (
            ("format", "f", "choice", "table|json", "how they are printed (default: table)"),
            ("quiet", "q", "flag", "", "print only the ids"),
        ),
        "",
    ),
    (
        "spec",
        "",
        0,
        0,
        "write a config.json to start from",
        (
            ("bundle", "b", "text", "DIR", "where (default: the working directory)"),
            ("rootless", "", "flag", "", "for a container made without root"),
        ),
        "A file that is there is never replaced.",
    ),
    (
        "plan",
        "[BUNDLE]",
        0,
        1,
        "show, step by step, what `create` would do",
        (
            *_CONTAINER_OPTIONS,
            ("id", "", "text", "ID", "of the container (default: plan)"),
            ("format", "", "choice", "text|json", "how it is printed (default: text)"),
        ),
        ("Nothing is made or changed. Each step names the setting of config.json it comes\nfrom."),
    ),
    (
        "features",
        "",
        0,
        0,
        "print as JSON what this runtime supports",
        (),
        "The document is the Features Structure of the runtime specification.",
    ),
)
