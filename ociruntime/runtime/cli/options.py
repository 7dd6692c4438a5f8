"""The commands and options of ``ociruntime``, as tables in the form of ``option.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

# Options that callers pass to runc or crun and that have no effect here.
_NO_SUBREAPER_IN_CREATE: Option = ("no-subreaper", "", "flag", "", "")

GLOBAL_OPTIONS: tuple[Option, ...] = (
    ("root", "", "text", "DIR", "directory for the state of containers"),
    ("log", "", "text", "FILE", "append errors to FILE, besides standard error"),
    ("log-format", "", "choice", "text|json", "log format (default: text)"),
    ("log-level", "", "choice", "error|warning|info|debug", "log level (default: error)"),
    ("debug", "", "flag", "", "set the log level to debug and show tracebacks"),
    (
        "cgroup-manager",
        "",
        "choice",
        "cgroupfs|systemd|disabled",
        "cgroup driver (default: cgroupfs)",
    ),
    ("systemd-cgroup", "", "flag", "", "same as --cgroup-manager=systemd"),
    (
        "rootless",
        "",
        "choice",
        "true|false|auto",
        "ignore cgroup permission errors (default: auto)",
    ),
    ("criu", "", "text", "FILE", "path of the criu binary"),
    ("version", "v", "flag", "", "print the version"),
    ("help", "h", "flag", "", "print help; also after a command"),
    ("usage", "?", "flag", "", ""),
)

_CONTAINER_OPTIONS: tuple[Option, ...] = (
    ("bundle", "b", "text", "DIR", "path of the bundle (default: current directory)"),
    ("config", "f", "text", "FILE", "config file in the bundle (default: config.json)"),
    ("console-socket", "", "text", "SOCKET", "Unix socket to send the pty master to"),
    ("pidfd-socket", "", "text", "SOCKET", "Unix socket to send a pidfd of the init to"),
    ("pid-file", "", "text", "FILE", "file to write the PID of the init to"),
    ("preserve-fds", "", "number", "N", "pass N additional file descriptors (3 to N + 2)"),
    ("no-pivot", "", "flag", "", "do not use pivot_root (needed on an initramfs)"),
    ("no-new-keyring", "", "flag", "", "do not create a new session keyring"),
)

_TIMELINE: Option = (
    "timeline",
    "",
    "text",
    "FILE",
    "record where the time goes: .svg or .json",
)

_OF_RESTORE = ("bundle", "config", "console-socket", "pid-file", "no-pivot", "no-new-keyring")

_CHECKPOINT_OPTIONS: tuple[Option, ...] = (
    ("image-path", "", "text", "DIR", "image directory (default: checkpoint)"),
    ("work-path", "", "text", "DIR", "directory for CRIU's logs (default: --image-path)"),
    ("tcp-established", "", "flag", "", "allow open TCP connections"),
    ("ext-unix-sk", "", "flag", "", "allow external Unix sockets"),
    ("shell-job", "", "flag", "", "allow shell jobs (a terminal from outside)"),
    ("file-locks", "", "flag", "", "allow file locks"),
    ("manage-cgroups-mode", "", "choice", "soft|full|strict|ignore", "how to handle cgroups"),
    ("network-lock", "", "choice", "iptables|nftables|skip", "network locking method"),
    ("empty-ns", "", "list", "network", "create the network namespace empty"),
    ("auto-dedup", "", "flag", "", "deduplicate memory images"),
    ("lazy-pages", "", "flag", "", "transfer memory pages on demand"),
)

COMMANDS: tuple[Command, ...] = (
    (
        "create",
        "ID",
        1,
        1,
        "create a container without starting its program",
        (*_CONTAINER_OPTIONS, _TIMELINE, _NO_SUBREAPER_IN_CREATE),
        (
            "Returns when the container is set up; `start` runs its program. If anything\n"
            "fails, nothing is left behind. Standard input, output and error become the\n"
            "container's. --timeline writes a chart (.svg) or a trace for Perfetto (.json)."
        ),
    ),
    (
        "start",
        "ID",
        1,
        1,
        "start a created container",
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
            "The status is creating, created, running, paused or stopped. A stopped container\n"
            "has PID 0 and is kept until `delete`."
        ),
    ),
    (
        "kill",
        "ID [SIGNAL]",
        1,
        2,
        "send a signal to the init of a container",
        (
            ("all", "a", "flag", "", "signal all processes; ignore a stopped container"),
            ("regex", "r", "flag", "", "match IDs by a regular expression"),
        ),
        (
            "SIGNAL is a number or a name, with or without SIG: 9, KILL, SIGTERM, SIGRTMIN+3.\n"
            "The default is the annotation org.opencontainers.image.stopSignal, or SIGTERM."
        ),
    ),
    (
        "delete",
        "ID",
        1,
        1,
        "delete a stopped container",
        (
            ("force", "f", "flag", "", "kill it first; ignore an unknown ID"),
            ("regex", "r", "flag", "", "match IDs by a regular expression"),
        ),
        (
            "A container that was never started is deleted without --force, and so is what an\n"
            "interrupted `create` has left behind."
        ),
    ),
    (
        "run",
        "ID",
        1,
        1,
        "create and start a container, wait for it, delete it",
        (
            *_CONTAINER_OPTIONS,
            _TIMELINE,
            ("detach", "d", "flag", "", "run in the background"),
            ("keep", "", "flag", "", "keep the container after it has stopped"),
            ("no-subreaper", "", "flag", "", "do not become the subreaper of its orphans"),
        ),
        (
            "Exits with the status of the program, or 128 + N if signal N killed it. Signals\n"
            "sent to this command are forwarded to the program."
        ),
    ),
    (
        "exec",
        "ID [COMMAND [ARGUMENT]...]",
        1,
        ANY,
        "run another process in a container",
        (
            ("process", "p", "text", "FILE", "read the process object from FILE, not COMMAND"),
            ("detach", "d", "flag", "", "run in the background"),
            ("pid-file", "", "text", "FILE", "file to write the PID of the process to"),
            ("tty", "t", "flag", "", "allocate a pseudo-terminal"),
            ("console-socket", "", "text", "SOCKET", "Unix socket to send the pty master to"),
            ("pidfd-socket", "", "text", "SOCKET", "Unix socket to send a pidfd of the process to"),
            ("cwd", "", "text", "DIR", "working directory in the container"),
            ("env", "e", "list", "NAME=VALUE", "set an environment variable"),
            ("user", "u", "text", "UID[:GID]", "numeric user and group"),
            ("additional-gids", "g", "list", "GID", "add a supplementary group"),
            ("cap", "c", "list", "CAP", "add a capability"),
            ("no-new-privs", "", "flag", "", "set no_new_privs (setuid programs gain nothing)"),
            ("apparmor", "", "text", "PROFILE", "AppArmor profile"),
            ("process-label", "", "text", "LABEL", "SELinux label"),
            ("preserve-fds", "", "number", "N", "pass N additional file descriptors (3 to N + 2)"),
            ("cgroup", "", "list", "[CTRL:]PATH", "run in a sub-cgroup of the container"),
            ("ignore-paused", "", "flag", "", "allow a paused container; wait for its resume"),
        ),
        (
            "Defaults are the settings of the container's own process. Options precede ID.\n"
            "Exits with the status of the program, 128 + N if signal N killed it, or 255 if\n"
            "it could not be run. Signals sent to this command are forwarded to the program."
        ),
    ),
    (
        "ps",
        "ID [ARGUMENT]...",
        1,
        ANY,
        "list the processes of a container",
        (("format", "f", "choice", "table|json", "output format (default: table)"),),
        (
            "The table is the output of the host's ps(1) with ARGUMENT... (default: -ef); it\n"
            "must have a PID column. The JSON is an array of PIDs on the host."
        ),
    ),
    (
        "mounts",
        "add|remove ID FILE",
        3,
        3,
        "add or remove mounts of a container",
        (),
        (
            "FILE holds a JSON array like `mounts` in config.json. If one mount fails, none\n"
            "is added. `remove` unmounts the destinations in reverse order."
        ),
    ),
    (
        "pause",
        "ID",
        1,
        1,
        "suspend all processes of a container",
        (),
        "Pausing a paused container is not an error.",
    ),
    (
        "resume",
        "ID",
        1,
        1,
        "resume a paused container",
        (),
        "Resuming a running container is not an error.",
    ),
    (
        "update",
        "ID",
        1,
        1,
        "change the resource limits of a container",
        (
            ("resources", "r", "text", "FILE", "read linux.resources from FILE (-: stdin)"),
            ("memory", "", "text", "SIZE", "memory limit: 512, 50M, 1.5G; -1: unlimited"),
            ("memory-reservation", "", "text", "SIZE", "memory soft limit"),
            ("memory-swap", "", "text", "SIZE", "limit of memory and swap together"),
            ("cpu-share", "", "number", "N", "CPU shares (relative weight)"),
            ("cpu-quota", "", "number", "USEC", "CPU time per period"),
            ("cpu-period", "", "number", "USEC", "length of a CPU period"),
            ("cpu-burst", "", "number", "USEC", "unused CPU time that may accumulate"),
            ("cpu-idle", "", "number", "N", "1: schedule as SCHED_IDLE"),
            ("cpu-rt-runtime", "", "number", "USEC", "realtime CPU time per period"),
            ("cpu-rt-period", "", "number", "USEC", "length of a realtime period"),
            ("cpuset-cpus", "", "text", "LIST", "CPUs to use: 0-3,7"),
            ("cpuset-mems", "", "text", "LIST", "memory nodes to use"),
            ("pids-limit", "", "number", "N", "maximum number of processes; -1: unlimited"),
            ("blkio-weight", "", "number", "N", "block I/O weight (10 to 1000)"),
            ("l3-cache-schema", "", "text", "SCHEMA", "Intel RDT L3 cache schema"),
            ("mem-bw-schema", "", "text", "SCHEMA", "Intel RDT memory bandwidth schema"),
            ("kernel-memory", "", "text", "SIZE", ""),
            ("kernel-memory-tcp", "", "text", "SIZE", ""),
        ),
        "Changes all limits or none, but no device rules. FILE overrides options.",
    ),
    (
        "events",
        "ID",
        1,
        1,
        "stream statistics and OOM events of a container",
        (
            ("stats", "", "flag", "", "print the statistics once and exit"),
            ("interval", "", "text", "TIME", "interval of statistics, as 1m30s (default: 5s)"),
        ),
        (
            "Prints a line of JSON per interval (type stats) and one when a process is\n"
            "OOM-killed (type oom), until the container stops."
        ),
    ),
    (
        "checkpoint",
        "ID",
        1,
        1,
        "checkpoint a running container with CRIU",
        (
            *_CHECKPOINT_OPTIONS,
            ("leave-running", "", "flag", "", "leave the container running"),
            ("pre-dump", "", "flag", "", "dump only the memory; leave the container running"),
            ("parent-path", "", "text", "DIR", "previous images, relative to --image-path"),
            ("page-server", "", "text", "ADDR:PORT", "send the memory to a CRIU page server"),
            ("status-fd", "", "number", "FD", "descriptor to notify when --lazy-pages is ready"),
            ("link-remap", "", "flag", "", "allow deleted files that are still open"),
            ("tcp-skip-in-flight", "", "flag", "", "skip in-flight TCP connections"),
        ),
        (
            "The container is deleted afterwards; if CRIU (criu.org) fails, it keeps running.\n"
            "The root filesystem is not saved; tmpfs mounts of the container are."
        ),
    ),
    (
        "restore",
        "ID",
        1,
        1,
        "restore a container from a checkpoint",
        (
            *(option for option in _CONTAINER_OPTIONS if option[0] in _OF_RESTORE),
            ("detach", "d", "flag", "", "run in the background"),
            ("keep", "", "flag", "", "keep the container after it has stopped"),
            ("no-subreaper", "", "flag", "", "do not become the subreaper of its orphans"),
            *_CHECKPOINT_OPTIONS,
            ("tcp-close", "", "flag", "", "close open TCP connections"),
            (
                "lsm-profile",
                "",
                "text",
                "TYPE:NAME",
                "replace the LSM profile: apparmor:NAME",
            ),
            ("lsm-mount-context", "", "text", "LABEL", "replace the SELinux label of mounts"),
        ),
        (
            "Processes come from the checkpoint; mounts, cgroup and limits from config.json.\n"
            "The exit status is that of `run`."
        ),
    ),
    (
        "list",
        "",
        0,
        0,
        "list containers",
        (
            ("format", "f", "choice", "table|json", "output format (default: table)"),
            ("quiet", "q", "flag", "", "print only IDs"),
        ),
        "",
    ),
    (
        "spec",
        "",
        0,
        0,
        "create a default config.json",
        (
            (
                "bundle",
                "b",
                "text",
                "DIR",
                "directory to write to (default: current one)",
            ),
            ("file", "f", "text", "FILE", "write FILE instead; overwrite it"),
            ("rootless", "", "flag", "", "for a rootless container"),
        ),
        "An existing config.json is never overwritten.",
    ),
    (
        "plan",
        "[BUNDLE]",
        0,
        1,
        "show what `create` would do, step by step",
        (
            *_CONTAINER_OPTIONS,
            ("id", "", "text", "ID", "ID of the container (default: plan)"),
            ("format", "", "choice", "text|json", "output format (default: text)"),
        ),
        "Nothing is created or changed. Each step names its setting in config.json.",
    ),
    (
        "check",
        "[BUNDLE]",
        0,
        1,
        "check that this host, or a bundle on it, can run",
        (
            ("bundle", "b", "text", "DIR", "same as BUNDLE"),
            (
                "config",
                "f",
                "text",
                "FILE",
                "config file in the bundle (default: config.json)",
            ),
            ("format", "", "choice", "text|json", "output format (default: text)"),
        ),
        (
            "Without BUNDLE: examines the kernel, cgroups, privileges and this installation,\n"
            "and creates a test container. With BUNDLE: lists every problem in config.json,\n"
            "and what it needs that the host lacks. Nothing is left behind. Exits with 0 if\n"
            "containers, or this one, can run, else with 1."
        ),
    ),
    (
        "features",
        "",
        0,
        0,
        "print the supported features as JSON",
        (),
        "The document is the Features Structure of the runtime specification.",
    ),
    (
        "snapshot",
        "status|make|refresh|remove [PROGRAM]...",
        1,
        5,
        "manage the startup snapshots",
        (),
        (
            "A snapshot of the warm interpreter saves create, exec and ocipod 9 ms per start,\n"
            "ocictl 12 and ocid 120. PROGRAM is ociruntime, ocipod, ocictl or ocid (default:\n"
            "all). A program's first command after boot makes its snapshot. A snapshot is\n"
            "ignored when anything that it depends on has changed. `refresh` makes missing\n"
            "and outdated ones, and does not wait for another process that is making one.\n"
            "The file /etc/ociruntime/no-snapshot disables snapshots."
        ),
    ),
)
