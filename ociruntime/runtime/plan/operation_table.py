"""The table of all operations of a plan.

The executor carries out each operation with one system call or a few.  From this table,
``tools/generate_plan.py`` writes ``runtime/plan/operation_constructors.py`` (typed constructors),
``csrc/executor/plan_ops.h`` (structures, decoders, dispatch) and ``docs/plan-reference.md``; a test
fails if one of them is out of date.

Field types: ``u32``, ``u64``, ``str``, ``bytes``, ``strs`` (list of str), ``u32s`` (list of u32).
The executor resolves a path called ``target`` inside the container's root; a path called ``source``
is on the host.  A slot is a number under which the executor keeps an open descriptor for later
operations.
"""

from __future__ import annotations

# (name, description, ((field, type, meaning), ...))
OPERATIONS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "open_namespace",
        "open a namespace file of the host; the executor keeps its descriptor in a slot",
        (("slot", "u32", "number of the slot"), ("source", "str", "path of the namespace file")),
    ),
    (
        "join_namespace",
        "enter the namespace whose descriptor is in a slot",
        (
            ("slot", "u32", "number of the slot"),
            ("kind", "u32", "CLONE_NEW* flag of the type that the namespace must have"),
        ),
    ),
    ("unshare", "create namespaces and enter them", (("flags", "u32", "CLONE_NEW* bits"),)),
    (
        "sync",
        "report a stage to the runtime; the executor waits for the answer GO",
        (("stage", "u32", "STAGE_* number"),),
    ),
    ("become_root", "switch to uid and gid 0 of the user namespace", ()),
    (
        "clone_init",
        "fork the container's init into new namespaces; the init carries out the rest of the plan",
        (("flags", "u32", "CLONE_NEW* bits"),),
    ),
    (
        "join_process",
        "enter the namespaces and the root of the container's init",
        (
            ("flags", "u32", "CLONE_NEW* bits"),
            (
                "root_of",
                "u32",
                "pid of the init if it shares the runtime's mount namespace, else 0",
            ),
        ),
    ),
    (
        "clone_process",
        "fork into the joined pid namespace; the child carries out the rest of the plan",
        (("terminal", "u32", "1 to make standard input the child's controlling terminal"),),
    ),
    (
        "write_proc",
        "write to a file in the host's verified procfs",
        (
            ("path", "str", "path below /proc"),
            ("data", "str", "content, written with one write(2)"),
        ),
    ),
    ("keyring", "join a new anonymous session keyring", ()),
    (
        "propagation",
        "set the propagation of the mount at the current root",
        (
            (
                "flags",
                "u32",
                "MS_SHARED, MS_SLAVE, MS_PRIVATE or MS_UNBINDABLE, optionally with MS_REC",
            ),
        ),
    ),
    (
        "id_map",
        "create a user namespace only for its id maps; the executor keeps its descriptor in a slot",
        (
            ("slot", "u32", "number of the slot"),
            ("uid_map", "str", "content of its file uid_map"),
            ("gid_map", "str", "content of its file gid_map"),
        ),
    ),
    (
        "open_tree",
        "copy a mount tree of the host; the executor keeps the copy's descriptor in a slot",
        (
            ("slot", "u32", "number of the slot"),
            ("source", "str", "path on the host"),
            (
                "follow",
                "u32",
                "1 to follow symbolic links, 0 to refuse them and to stay inside the shared root",
            ),
            ("recursive", "u32", "1 to include all submounts"),
            ("id_map", "u32", "slot of the user namespace with the mount's id maps, or NO_SLOT"),
            ("id_map_recursive", "u32", "1 to id-map the submounts as well"),
        ),
    ),
    (
        "root",
        "bind-mount the root filesystem on itself; later targets are resolved inside it",
        (("source", "str", "root directory on the host"),),
    ),
    (
        "shared_root",
        "use a directory as the root of later targets, without mounting it",
        (("source", "str", "root directory on the host"),),
    ),
    (
        "mount",
        "mount a new filesystem on a target, which is created if missing",
        (
            ("fstype", "str", "filesystem type"),
            ("source", "str", "source, as shown by mount(8)"),
            ("target", "str", "mount point"),
            ("options", "strs", "superblock options, key or key=value"),
            ("attributes", "u64", "MOUNT_ATTR_* bits"),
            ("propagation", "u32", "MS_* propagation flags, 0 for no change"),
            (
                "flags",
                "u32",
                "MOUNT_* bits: REAL_DIRECTORY, INHERIT_MODE, COPY_UP, OR_BIND, PRESENT",
            ),
            ("id_map", "u32", "slot of the user namespace with the mount's id maps, or NO_SLOT"),
            (
                "label",
                "str",
                "SELinux label to set on the root directory after mounting, empty for none",
            ),
        ),
    ),
    (
        "bind",
        "bind-mount a host path on a target, which is created if missing",
        (
            ("slot", "u32", "slot of the mount tree to attach, or NO_SLOT"),
            ("source", "str", "path on the host, which is bind-mounted if slot is NO_SLOT"),
            ("target", "str", "mount point"),
            ("recursive", "u32", "1 to include all submounts"),
            ("set_attributes", "u64", "MOUNT_ATTR_* to set on the top mount"),
            ("clear_attributes", "u64", "MOUNT_ATTR_* to clear on the top mount"),
            ("set_recursive", "u64", "MOUNT_ATTR_* to set on the mount and all submounts"),
            ("clear_recursive", "u64", "MOUNT_ATTR_* to clear on the mount and all submounts"),
            ("propagation", "u32", "MS_* propagation flags, 0 for no change"),
            ("flags", "u32", "MOUNT_* bits: REAL_DIRECTORY, PRESENT"),
            (
                "id_map",
                "u32",
                "slot of the user namespace with the mount's id maps, if slot is NO_SLOT",
            ),
            ("id_map_recursive", "u32", "1 to id-map the submounts as well"),
        ),
    ),
    (
        "unmount",
        "unmount the mount at a target; the runtime verifies the mount first",
        (("target", "str", "mount point"), ("follow", "u32", "1 to follow symbolic links")),
    ),
    (
        "set_attributes",
        "change the attributes of the mount at a target",
        (
            ("target", "str", "mount point"),
            ("set_attributes", "u64", "MOUNT_ATTR_* to set"),
            ("clear_attributes", "u64", "MOUNT_ATTR_* to clear"),
            ("recursive", "u32", "1 to change all submounts as well"),
            ("propagation", "u32", "MS_* propagation flags, 0 for no change"),
        ),
    ),
    (
        "reconfigure",
        "change options of the filesystem mounted at a target",
        (
            ("target", "str", "mount point"),
            ("options", "strs", "superblock options, key or key=value"),
        ),
    ),
    (
        "mkdir",
        "create a directory and its parents, if missing",
        (
            ("target", "str", "path of the directory"),
            ("mode", "u32", "permission bits of new directories"),
        ),
    ),
    (
        "device",
        "create a device node or FIFO; an existing node must be the same device",
        (
            ("target", "str", "path of the node"),
            ("mode", "u32", "S_IF* type and permission bits"),
            ("major", "u32", "major number"),
            ("minor", "u32", "minor number"),
            ("uid", "u32", "user id of the owner"),
            ("gid", "u32", "group id of the owner"),
            ("source", "str", "node of the host to bind-mount if mknod is not permitted"),
        ),
    ),
    (
        "symlink",
        "create a symbolic link; an existing file is kept, unless ``replace`` is set",
        (
            ("target", "str", "path of the link"),
            ("text", "str", "text of the link"),
            (
                "requires",
                "str",
                "path that must exist in the container, else no link is created; empty for none",
            ),
            ("replace", "u32", "1 to replace an existing file"),
        ),
    ),
    (
        "console",
        "open a terminal of the container's devpts; the executor sends its master to the runtime",
        (
            ("rows", "u32", "height in characters, 0 if not set"),
            ("columns", "u32", "width in characters, 0 if not set"),
            ("uid", "u32", "user id of the owner of the terminal's slave"),
            ("flags", "u32", "CONSOLE_* bits: BIND, CONTROL"),
        ),
    ),
    (
        "mask",
        "hide a path, if it exists, behind an empty file or directory",
        (
            ("target", "str", "path to hide"),
            ("context", "str", "SELinux context of the empty directory, empty for none"),
        ),
    ),
    (
        "readonly",
        "make a path, if it exists, and its submounts read-only",
        (("target", "str", "path to make read-only"),),
    ),
    (
        "hook",
        "run a hook in the current namespaces; its standard input is the container's state",
        (
            ("source", "str", "path of the program"),
            ("args", "strs", "argv of the program"),
            ("env", "strs", "environment of the hook"),
            ("with_home", "u32", "1 to add the variable HOME that the operation home has found"),
            ("timeout", "u32", "timeout in seconds, 0 for none"),
            ("state_before", "str", "state document (JSON) before the pid"),
            ("state_after", "str", "state document (JSON) after the pid"),
        ),
    ),
    (
        "null_streams",
        "replace the host's /dev/null in standard streams by the container's",
        (
            (
                "root_of",
                "u32",
                "pid of a process with the container's /dev/null, 0 for the root being built",
            ),
        ),
    ),
    (
        "pivot_root",
        "make the root filesystem the process's root; the executor unmounts the old root",
        (),
    ),
    (
        "move_root",
        "move the root filesystem onto / (MS_MOVE), as --no-pivot requests",
        (
            (
                "uncovered",
                "strs",
                "mount points of the host's proc and sysfs, which are unmounted or covered first",
            ),
        ),
    ),
    ("chroot", "chroot into the directory of shared_root or recorded_root", ()),
    ("hostname", "set the host name", (("name", "str", "host name"),)),
    ("domainname", "set the NIS domain name", (("name", "str", "NIS domain name"),)),
    ("loopback", "bring the loopback interface up", ()),
    (
        "rlimit",
        "set a resource limit",
        (
            ("resource", "u32", "RLIMIT_* number"),
            ("soft", "u64", "soft limit"),
            ("hard", "u64", "hard limit"),
        ),
    ),
    (
        "personality",
        "set the execution domain (personality(2))",
        (("domain", "u32", "PER_* number"),),
    ),
    (
        "affinity",
        "set the CPU affinity",
        (("cpus", "bytes", "bit mask, the lowest CPU first; empty for all CPUs of the cpuset"),),
    ),
    (
        "io_priority",
        "set the I/O priority of the process group",
        (("value", "u32", "class << 13 | level, as in ioprio_set(2)"),),
    ),
    (
        "scheduler",
        "set the scheduling policy",
        (
            ("policy", "u32", "SCHED_* number"),
            ("flags", "u64", "SCHED_FLAG_* bits"),
            ("nice", "u32", "nice value in two's complement"),
            ("priority", "u32", "static priority"),
            ("runtime", "u64", "SCHED_DEADLINE runtime in nanoseconds"),
            ("deadline", "u64", "SCHED_DEADLINE deadline in nanoseconds"),
            ("period", "u64", "SCHED_DEADLINE period in nanoseconds"),
        ),
    ),
    (
        "memory_policy",
        "set the NUMA memory policy",
        (
            ("mode", "u32", "MPOL_* mode and flags"),
            ("nodes", "bytes", "bit mask in 64-bit words, the lowest word first"),
        ),
    ),
    (
        "chdir",
        "change the working directory, which must be inside the root",
        (
            ("path", "str", "directory in the container"),
            ("optional", "u32", "1 to ignore a failure, because a second chdir follows"),
        ),
    ),
    (
        "stdio_owner",
        "change the owner of the standard streams; devices and read-only files are skipped",
        (("uid", "u32", "user id of the new owner"),),
    ),
    (
        "bounding",
        "drop capabilities from the bounding set",
        (("keep", "u64", "mask of the capabilities to keep"),),
    ),
    (
        "user",
        "switch to the user; root's capabilities are kept until the capability sets are set",
        (
            ("uid", "u32", "user id"),
            ("gid", "u32", "group id"),
            ("groups", "u32s", "supplementary groups"),
            ("set_groups", "u32", "1 to set the groups, 0 to keep those of the caller"),
        ),
    ),
    (
        "capabilities",
        "set the capability sets",
        (
            ("effective", "u64", "mask of the effective set"),
            ("permitted", "u64", "mask of the permitted set"),
            ("inheritable", "u64", "mask of the inheritable set"),
            ("ambient", "u64", "mask of the ambient set"),
        ),
    ),
    (
        "drop_extra",
        "drop the capabilities that were kept only to load the filter",
        (
            ("effective", "u64", "mask of the effective set"),
            ("permitted", "u64", "mask of the permitted set"),
            ("inheritable", "u64", "mask of the inheritable set"),
        ),
    ),
    ("no_new_privs", "set no_new_privs, so that setuid programs gain nothing", ()),
    ("umask", "set the file mode creation mask", (("mask", "u32", "permission bits to clear"),)),
    ("close_host", "close all remaining descriptors of files on the host", ()),
    (
        "home",
        "add HOME from /etc/passwd to the environment",
        (("uid", "u32", "user id in /etc/passwd"),),
    ),
    ("listen_pid", "add LISTEN_PID (the pid in the container) to the environment", ()),
    (
        "find_executable",
        "look up the program like execvp(3), with the user's permissions",
        (("file", "str", "process.args[0]"), ("path", "str", "PATH of the environment")),
    ),
    ("wait_start", "wait at the gate for `start`", ()),
    (
        "seccomp",
        "load the seccomp filter",
        (
            ("flags", "u32", "SECCOMP_FILTER_FLAG_* bits"),
            (
                "last",
                "u32",
                "1 if the program is executed next: report that before loading the filter",
            ),
            ("filter", "bytes", "array of struct sock_filter"),
        ),
    ),
    (
        "exec",
        "execute the container's program",
        (
            ("args", "strs", "argv"),
            ("env", "strs", "environment, except variables that other operations add"),
        ),
    ),
    (
        "restrict",
        "add attributes to the mount at a target; the runtime verifies the mount first",
        (
            ("target", "str", "mount point; symbolic links in the path are not followed"),
            ("set_attributes", "u64", "MOUNT_ATTR_* to set"),
        ),
    ),
    (
        "recorded_root",
        "bind-mount the root filesystem on itself; the runtime records the mount first",
        (("source", "str", "root directory on the host"),),
    ),
)

# The stages at which the executor waits for the host (`sync`); see runtime/executor/protocol.py.
STAGE_MAPS = 1
STAGE_CGROUP = 2
STAGE_HOOKS = 3
STAGE_READY = 4
STAGE_NETWORK = 5
STAGE_DONE = 6

# Messages between the executor and the host; runtime/executor/protocol.py has a diagram.
MESSAGE_GO = 1
MESSAGE_STAGE = 2
MESSAGE_INIT_PID = 3
MESSAGE_CONSOLE = 4
MESSAGE_EXEC = 5
MESSAGE_FAILURE = 6
MESSAGE_LISTENER = 7
MESSAGE_MOUNT = 8
MESSAGE_SKIP = 9

NO_SLOT = 0xFFFFFFFF
SLOTS = 256  # without a slot, the source of a bind mount is opened after the namespaces are entered

MOUNT_REAL_DIRECTORY = 1  # the target itself must be a directory, not a symbolic link
MOUNT_INHERIT_MODE = 2  # a tmpfs gets the mode of the directory that it covers
MOUNT_COPY_UP = 4  # a tmpfs gets a copy of the directory that it covers
MOUNT_PRESENT = 16  # the host must accept the mount before it is attached
MOUNT_OR_BIND = 8  # proc and sysfs: if mounting is denied, bind-mount the host's

CONSOLE_BIND = 1  # mount the terminal at /dev/console, too
CONSOLE_CONTROL = 2  # make the terminal the controlling terminal

CONSTANTS: tuple[tuple[str, int, str], ...] = (
    ("STAGE_MAPS", STAGE_MAPS, "the user namespace exists; the runtime writes its maps"),
    ("STAGE_CGROUP", STAGE_CGROUP, "the runtime puts the process into its cgroups"),
    ("STAGE_HOOKS", STAGE_HOOKS, "mounts are done; the runtime runs prestart and createRuntime"),
    ("STAGE_READY", STAGE_READY, "the container is set up; the runtime writes the state"),
    ("STAGE_NETWORK", STAGE_NETWORK, "the runtime moves network devices into the namespace"),
    ("STAGE_DONE", STAGE_DONE, "the plan is finished; the runtime ends the executor"),
    ("MESSAGE_GO", MESSAGE_GO, "runtime: continue"),
    ("MESSAGE_STAGE", MESSAGE_STAGE, "executor: it has reached a stage"),
    ("MESSAGE_INIT_PID", MESSAGE_INIT_PID, "executor: the init process exists"),
    ("MESSAGE_CONSOLE", MESSAGE_CONSOLE, "executor: sends the terminal's master as a descriptor"),
    ("MESSAGE_EXEC", MESSAGE_EXEC, "executor: the next system call is execve"),
    ("MESSAGE_FAILURE", MESSAGE_FAILURE, "executor: an operation failed"),
    ("MESSAGE_LISTENER", MESSAGE_LISTENER, "executor: sends the filter's listener as a descriptor"),
    ("MESSAGE_MOUNT", MESSAGE_MOUNT, "executor: sends this operation's mount as a descriptor"),
    ("MESSAGE_SKIP", MESSAGE_SKIP, "host: continue without this operation"),
    ("NO_SLOT", NO_SLOT, "no slot"),
    ("SLOTS", SLOTS, "number of slots"),
    ("MOUNT_REAL_DIRECTORY", MOUNT_REAL_DIRECTORY, "the target must be a real directory"),
    (
        "MOUNT_INHERIT_MODE",
        MOUNT_INHERIT_MODE,
        "a tmpfs gets the mode of the directory that it covers",
    ),
    ("MOUNT_COPY_UP", MOUNT_COPY_UP, "a tmpfs gets a copy of the directory that it covers"),
    ("MOUNT_OR_BIND", MOUNT_OR_BIND, "if mounting is denied, bind-mount the host's /proc or /sys"),
    ("MOUNT_PRESENT", MOUNT_PRESENT, "the host must accept the mount before it is attached"),
    ("CONSOLE_BIND", CONSOLE_BIND, "the terminal is mounted at /dev/console"),
    ("CONSOLE_CONTROL", CONSOLE_CONTROL, "the terminal becomes the controlling terminal"),
)

WIRE_MAGIC = 0x314E4C50  # "PLN1"
