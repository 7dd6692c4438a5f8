"""Every command and every option, as data: parser, help and whatever documents them read this.

An option is ``(name, short, kind, value, help)``.  Kinds:

    flag     no value, or ``=true`` / ``=false``
    text     any value; ``value`` is its name in the help
    number   a decimal integer
    choice   ``value`` lists what is accepted, separated by ``|``
    list     any value; each use of the option adds one
    optional any value behind ``=``; without one it is ``true``

An option without help text is accepted and not shown.  A command is ``(name, arguments,
fewest, most, summary, options, details)``; ``fewest`` and ``most`` count its arguments.  With
``ANY`` of them they are another program's: the first one ends the options.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Option = tuple[str, str, str, str, str]
    Command = tuple[str, str, int, int, str, tuple[Option, ...], str]

ANY = 1 << 30

# What callers of runc or crun send and nothing here reads.
_NO_SUBREAPER_IN_CREATE: Option = ("no-subreaper", "", "flag", "", "")

GLOBAL_OPTIONS: tuple[Option, ...] = (
    ("root", "", "text", "DIR", "keep the state of containers in DIR"),
    ("log", "", "text", "FILE", "append errors to FILE, besides standard error"),
    ("log-format", "", "choice", "text|json", "how a line of the log is written"),
    ("log-level", "", "choice", "error|warning|info|debug", "the least that is worth a line"),
    ("debug", "", "flag", "", "as --log-level=debug, with tracebacks"),
    ("cgroup-manager", "", "choice", "cgroupfs|systemd|disabled", "who makes the cgroup"),
    ("systemd-cgroup", "", "flag", "", "the same as --cgroup-manager=systemd"),
    ("rootless", "", "choice", "true|false|auto", "do without cgroups that may not be made"),
    ("criu", "", "text", "FILE", "the program that writes and reads checkpoints"),
    ("version", "v", "flag", "", "print the version"),
    ("help", "h", "flag", "", "print help, also after a command"),
    ("usage", "?", "flag", "", ""),
)

_CONTAINER_OPTIONS: tuple[Option, ...] = (
    ("bundle", "b", "text", "DIR", "the bundle (default: the working directory)"),
    ("config", "f", "text", "FILE", "read FILE of the bundle instead of config.json"),
    ("console-socket", "", "text", "SOCKET", "send the terminal's master to this unix socket"),
    ("pidfd-socket", "", "text", "SOCKET", "send a pidfd of the first process there"),
    ("pid-file", "", "text", "FILE", "write the pid of the first process to FILE"),
    ("preserve-fds", "", "number", "N", "hand descriptors 3 to N + 2 to the container"),
    ("no-pivot", "", "flag", "", "move the root, do not pivot: for an initramfs"),
    ("no-new-keyring", "", "flag", "", "keep the session keyring of the caller"),
)

_TIMELINE: Option = (
    "timeline",
    "",
    "text",
    "FILE",
    "write what took how long: .svg or .json",
)

_OF_RESTORE = ("bundle", "config", "console-socket", "pid-file", "no-pivot", "no-new-keyring")

_CHECKPOINT_OPTIONS: tuple[Option, ...] = (
    ("image-path", "", "text", "DIR", "where the checkpoint is (default: checkpoint)"),
    ("work-path", "", "text", "DIR", "where the logs go (default: --image-path)"),
    ("tcp-established", "", "flag", "", "also TCP connections that are open"),
    ("ext-unix-sk", "", "flag", "", "also Unix sockets that lead outside"),
    ("shell-job", "", "flag", "", "also with a terminal of the caller"),
    ("file-locks", "", "flag", "", "also locks on files"),
    ("manage-cgroups-mode", "", "choice", "soft|full|strict|ignore", "what is done with cgroups"),
    ("network-lock", "", "choice", "iptables|nftables|skip", "how packets are held meanwhile"),
    ("empty-ns", "", "list", "network", "leave a namespace of that kind empty"),
    ("auto-dedup", "", "flag", "", "keep each page in one place only"),
    ("lazy-pages", "", "flag", "", "hand pages over when they are wanted"),
)

COMMANDS: tuple[Command, ...] = (
    (
        "create",
        "ID",
        1,
        1,
        "build a container up to the point where its program would start",
        (*_CONTAINER_OPTIONS, _TIMELINE, _NO_SUBREAPER_IN_CREATE),
        (
            "The container waits for `start`. The command returns when everything is mounted,\n"
            "limited and checked, and the program found; after a failure nothing is left.\n"
            "Standard input, output and error become the container's. FILE of --timeline is a\n"
            "picture, or a trace for Perfetto; the executor's part ends where create does."
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
        (
            ("all", "a", "flag", "", "all processes; a stopped container is no error"),
            ("regex", "r", "flag", "", "ID is a regular expression that ids match"),
        ),
        (
            "SIGNAL is a number or a name in any case, with or without SIG: 9, KILL, SIGTERM,\n"
            "SIGRTMIN+3. The default is what the annotation\n"
            "org.opencontainers.image.stopSignal names, or SIGTERM."
        ),
    ),
    (
        "delete",
        "ID",
        1,
        1,
        "remove a stopped container",
        (
            ("force", "f", "flag", "", "kill it first; an unknown id is no error"),
            ("regex", "r", "flag", "", "ID is a regular expression that ids match"),
        ),
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
            _TIMELINE,
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
        "exec",
        "ID [COMMAND [ARGUMENT]...]",
        1,
        ANY,
        "run a further program in a container",
        (
            ("process", "p", "text", "FILE", "take the process object of FILE, and no COMMAND"),
            ("detach", "d", "flag", "", "return once the program runs"),
            ("pid-file", "", "text", "FILE", "write the program's pid to FILE once it runs"),
            ("tty", "t", "flag", "", "give it a terminal"),
            ("console-socket", "", "text", "SOCKET", "send the terminal's master there"),
            ("pidfd-socket", "", "text", "SOCKET", "send a pidfd of the process there"),
            ("cwd", "", "text", "DIR", "its working directory in the container"),
            ("env", "e", "list", "NAME=VALUE", "add to its environment"),
            ("user", "u", "text", "UID[:GID]", "its user, by number"),
            ("additional-gids", "g", "list", "GID", "add a supplementary group"),
            ("cap", "c", "list", "CAP", "add a capability"),
            ("no-new-privs", "", "flag", "", "no privileges from setuid programs"),
            ("apparmor", "", "text", "PROFILE", "its AppArmor profile"),
            ("process-label", "", "text", "LABEL", "its SELinux label"),
            ("preserve-fds", "", "number", "N", "hand descriptors 3 to N + 2 to it"),
            ("cgroup", "", "list", "[CTRL:]PATH", "a cgroup below the container's"),
            ("ignore-paused", "", "flag", "", "also in a paused container: it waits with it"),
        ),
        (
            "What is not given is as in the container's process. Options stand before ID. The\n"
            "exit status is the program's, 128 and the number of the signal that ended it, or\n"
            "255 if it could not be run. Signals sent to this command reach the program."
        ),
    ),
    (
        "ps",
        "ID [ARGUMENT]...",
        1,
        ANY,
        "show the processes of a container",
        (("format", "f", "choice", "table|json", "how they are printed (default: table)"),),
        (
            "The table is that of ps(1) on the host, called with ARGUMENT... (default: -ef);\n"
            "it must have a column PID. The JSON is an array of pids, as the host sees them."
        ),
    ),
    (
        "mounts",
        "add|remove ID FILE",
        3,
        3,
        "add mounts to a container that is there, or remove them",
        (),
        (
            "FILE holds a JSON array like `mounts` of config.json. If one of them cannot\n"
            "be made, none stays. `remove` unmounts the destinations, the last first."
        ),
    ),
    (
        "pause",
        "ID",
        1,
        1,
        "stop all processes of a container",
        (),
        "They stand still until `resume`. One that is paused already is no error.",
    ),
    (
        "resume",
        "ID",
        1,
        1,
        "let the processes of a paused container go on",
        (),
        "One that is not paused is no error.",
    ),
    (
        "update",
        "ID",
        1,
        1,
        "change the limits of a container",
        (
            ("resources", "r", "text", "FILE", "take linux.resources from FILE, - is stdin"),
            ("memory", "", "text", "SIZE", "memory; a SIZE is 512, 50M, 1.5G or -1: none"),
            ("memory-reservation", "", "text", "SIZE", "what it keeps when memory is scarce"),
            ("memory-swap", "", "text", "SIZE", "memory and swap together"),
            ("cpu-share", "", "number", "N", "weight beside others"),
            ("cpu-quota", "", "number", "US", "time of CPUs in each period"),
            ("cpu-period", "", "number", "US", "length of a period"),
            ("cpu-burst", "", "number", "US", "unused time that may be made up for"),
            ("cpu-idle", "", "number", "N", "1: run only when nobody else does"),
            ("cpu-rt-runtime", "", "number", "US", "realtime of CPUs in each of its periods"),
            ("cpu-rt-period", "", "number", "US", "length of those"),
            ("cpuset-cpus", "", "text", "LIST", "CPUs it may run on: 0-3,7"),
            ("cpuset-mems", "", "text", "LIST", "memory nodes it may use"),
            ("pids-limit", "", "number", "N", "processes and threads; -1: no limit"),
            ("blkio-weight", "", "number", "N", "weight of block I/O, 10 to 1000"),
            ("l3-cache-schema", "", "text", "LINE", "of its group of Intel RDT"),
            ("mem-bw-schema", "", "text", "LINE", "of its group of Intel RDT"),
            ("kernel-memory", "", "text", "SIZE", ""),
            ("kernel-memory-tcp", "", "text", "SIZE", ""),
        ),
        "All of it or nothing is changed. Device rules never are; FILE overrules flags.",
    ),
    (
        "events",
        "ID",
        1,
        1,
        "show what a container uses, and when it runs out of memory",
        (
            ("stats", "", "flag", "", "once, and no more"),
            ("interval", "", "text", "TIME", "how often: 100ms, 5s (default), 1m30s"),
        ),
        (
            "Prints a line of JSON each TIME (type stats) and when a process is killed for\n"
            "want of memory (type oom), until the container has ended."
        ),
    ),
    (
        "checkpoint",
        "ID",
        1,
        1,
        "write a running container to files, to be restored",
        (
            *_CHECKPOINT_OPTIONS,
            ("leave-running", "", "flag", "", "do not end and delete the container"),
            ("pre-dump", "", "flag", "", "write only the memory, and let it run on"),
            ("parent-path", "", "text", "DIR", "the images before these, from --image-path on"),
            ("page-server", "", "text", "ADDR:PORT", "send the memory there"),
            ("status-fd", "", "number", "FD", "tell here when --lazy-pages is ready"),
            ("link-remap", "", "flag", "", "also files that have been deleted"),
            ("tcp-skip-in-flight", "", "flag", "", "leave out connections not yet accepted"),
        ),
        (
            "CRIU does it (criu.org). The container is then deleted; after a failure it goes\n"
            "on. Its files are not written down, but for those in a tmpfs of its own."
        ),
    ),
    (
        "restore",
        "ID",
        1,
        1,
        "make a container of what `checkpoint` has written",
        (
            *(option for option in _CONTAINER_OPTIONS if option[0] in _OF_RESTORE),
            ("detach", "d", "flag", "", "return once the container runs"),
            ("keep", "", "flag", "", "do not delete the container after its end"),
            ("no-subreaper", "", "flag", "", "do not adopt orphans of the container"),
            *_CHECKPOINT_OPTIONS,
            ("tcp-close", "", "flag", "", "close TCP connections that were open"),
            (
                "lsm-profile",
                "",
                "text",
                "TYPE:NAME",
                "another profile: apparmor:NAME",
            ),
            ("lsm-mount-context", "", "text", "LABEL", "another SELinux label for its mounts"),
        ),
        (
            "The processes are as they were written down; mounts, cgroup and limits come from\n"
            "config.json. The exit status is as that of `run`."
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
            ("file", "f", "text", "FILE", "write FILE instead, and replace it if it is there"),
            ("rootless", "", "flag", "", "for a container made without root"),
        ),
        "A config.json that is there is never replaced.",
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
        "check",
        "[BUNDLE]",
        0,
        1,
        "tell what this host, or a bundle on it, lacks to run",
        (
            ("bundle", "b", "text", "DIR", "the same as BUNDLE"),
            ("config", "f", "text", "FILE", "read FILE of the bundle instead of config.json"),
            ("format", "", "choice", "text|json", "how it is printed (default: text)"),
        ),
        (
            "Without BUNDLE: what the kernel, the cgroups, the privileges of the caller and\n"
            "this installation can do, and a whole container built for trial. With BUNDLE:\n"
            "every fault of its config.json and of what that asks of the host, not only the\n"
            "first. Nothing is left or changed. The exit status is 0 if containers, or this\n"
            "one, can run, else 1."
        ),
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
    (
        "snapshot",
        "status|make|refresh|remove [PROGRAM]...",
        1,
        5,
        "manage the snapshots that programs start from",
        (),
        (
            "From a snapshot of a warm interpreter, create, exec and ocipod start 9 ms\n"
            "sooner, ocictl 12, ocid 120. PROGRAM is ociruntime, ocipod, ocictl or ocid\n"
            "(default: all). The first `create` and the first command of each other program\n"
            "in a boot make their snapshots. One is not used when anything it depends on has\n"
            "changed. `refresh` makes those that do not fit, and does not wait for another\n"
            "process that makes them. /etc/ociruntime/no-snapshot switches all of it off."
        ),
    ),
)
