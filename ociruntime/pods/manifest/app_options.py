"""The tables of command-line options of ``prepare``, ``run``, ``run-prepared`` and ``app add``.

A pod option may stand anywhere.  An app option applies to the image before it.
"""

from __future__ import annotations

from ociruntime.commandline.options import Option

# Pod options that take effect at prepare.
PREPARE_OPTIONS = (
    Option(
        "port",
        "publish a port of an image to the host",
        "NAME:[IP:]PORT",
        kind="list",
        details=(
            "NAME is a port of an image, as in 80-tcp or 80/tcp; the image need not expose "
            "it. Without IP the port is published on all addresses of the host. Fails if "
            "the host's port is in use. Conflicts with --net=none and --net=host."
        ),
    ),
    Option(
        "volume",
        "define a volume that apps can mount",
        "NAME,kind=host|empty,...",
        kind="list",
        details=(
            "kind=host,source=DIR is a directory of the host. kind=empty is a new "
            "directory, removed with the pod; it accepts mode=0755, uid=N and gid=N. Both "
            "accept readOnly=true, kind=host also recursive=false, which excludes mounts "
            "below DIR. NAME is what --mount refers to, or a volume of the image: "
            "volume-var-lib-data for /var/lib/data."
        ),
    ),
    Option("mount", value="volume=NAME,target=DIR", kind="list"),
    Option("memory", value="SIZE"),
    Option("cpu", value="CPUS"),
    Option("cpu-shares", value="N"),
    Option("pids", value="N"),
    Option(
        "sysctl",
        "set a kernel parameter of the pod",
        "NAME=VALUE",
        kind="list",
        details=(
            "Only parameters of the pod's own namespaces: net.* without --net=host, and "
            "fs.mqueue.*, kernel.msg*, kernel.sem and kernel.shm* without --ipc=parent."
        ),
    ),
    Option(
        "no-overlay",
        "copy image files instead of using overlayfs",
        details=(
            "Copying is slower and takes more space. It is the default if the host has no "
            "overlayfs."
        ),
    ),
    Option(
        "set-env",
        "set an environment variable in all apps",
        "NAME=VALUE",
        kind="list",
        details="Overrides --set-env-file; overridden by --environment.",
    ),
    Option(
        "set-env-file",
        "read environment variables for all apps",
        "FILE",
        kind="list",
        details=(
            "One NAME=VALUE per line; empty lines and lines that begin with # or ; are "
            "ignored. A name may occur once. Overrides variables of the image."
        ),
    ),
    Option(
        "inherit-env",
        "inherit the environment of this command",
        details="Variables of the images and of other options override inherited ones.",
    ),
    Option(
        "pod-manifest",
        "create the pod from a pod manifest",
        "FILE",
        details=(
            "The format is that of `cat-manifest`; images are named by ID. Options that "
            "the manifest replaces are refused."
        ),
    ),
    Option(
        "private-users",
        "run the pod in a user namespace",
        details=(
            "User and group IDs 0 to 65535 of the apps are mapped to a range that only "
            "this pod uses."
        ),
    ),
    Option(
        "pull-policy",
        "pull policy (default: new)",
        "new|update|never",
        kind="choice",
        details=(
            "new fetches images that are not in the store; update also fetches images that "
            "have changed in the registry; never fetches no image."
        ),
    ),
    Option(
        "flavor",
        "isolation: oci, fly (chroot only) or kvm",
        "NAME",
        details=(
            "oci runs apps in namespaces with restricted privileges. fly runs one app in a "
            "chroot with all privileges and namespaces of the host, for programs that "
            "administer it. kvm runs the pod in a qemu virtual machine with a kernel of "
            "its own."
        ),
    ),
    Option("kvm-kernel", "kernel of the virtual machine (kvm)", "FILE"),
    Option("stage1-name", value="NAME"),
    Option("annotation", value="NAME=VALUE", kind="list"),
    Option("user-annotation", value="NAME=VALUE", kind="list"),
    Option("user-label", value="NAME=VALUE", kind="list"),
    Option("store-only"),
    Option("no-store"),
)

# Pod options that take effect at run.
RUN_OPTIONS = (
    Option(
        "net",
        "networks to join, none or host",
        "NAME[:K=V;K=V],...",
        kind="joined",
        details=(
            "NAME is default (a bridge with NAT), default-restricted (a bridge that reaches "
            "only the host and other pods on it), none, host, all, or a configured CNI network; "
            "separate several with commas. K=V are arguments of the plugins. Without a value "
            "the network is default."
        ),
    ),
    Option(
        "net-name",
        "name of the pod on its networks",
        "NAME",
        kind="list",
        details=(
            "On networks with names, such as those of `ocictl network create`, pods find each "
            "other by their hostnames and these names. The default is the names of the apps."
        ),
    ),
    Option(
        "dns",
        "set a DNS server; or host, none",
        "IP",
        kind="list",
        details=(
            "host uses the host's resolv.conf unchanged; none uses the image's. The default "
            "is the DNS server of the network, or else of the host."
        ),
    ),
    Option("dns-search", "set a DNS search domain", "DOMAIN", kind="list"),
    Option("dns-opt", "set a resolver option", "OPTION", kind="list"),
    Option("dns-domain", "set the DNS domain of the pod", "DOMAIN"),
    Option(
        "hosts-entry",
        "add a line to /etc/hosts; or host",
        "IP=NAME,...",
        kind="list",
        details="host uses the host's /etc/hosts.",
    ),
    Option("hostname", "hostname of the pod", "NAME", details="The default is ocipod-UUID."),
    Option(
        "ipc",
        "IPC namespace (default: auto)",
        "auto|private|parent",
        kind="choice",
        details=("parent shares the IPC namespace and /dev/shm of the host; auto means private."),
    ),
    Option(
        "pid",
        "PID namespace (default: private)",
        "private|parent",
        kind="choice",
        details="parent shows the apps all processes of the host, and lets them send signals.",
    ),
    Option(
        "uts",
        "UTS namespace (default: private)",
        "private|parent",
        kind="choice",
        details="parent shares the host's hostname. Conflicts with --hostname and --domainname.",
    ),
    Option("domainname", "NIS domain name of the pod", "NAME"),
    Option(
        "shm-size",
        "size of /dev/shm (default: 64M)",
        "SIZE",
        details=(
            "All apps share /dev/shm. SIZE is a number with an optional unit, for example "
            "512K, 50M or 1.5GiB; units are powers of 1024. Conflicts with --ipc=parent."
        ),
    ),
    Option(
        "interactive", "run the only app on this terminal", details="The pod may have only one app."
    ),
    Option("mds-register"),
    Option("detach", "run in the background and print the UUID"),
)

PREPARED_OPTIONS = (Option("quiet", "print only the UUID"),)
SAVED_OPTIONS = (Option("uuid-file-save", "write the UUID to FILE", "FILE"),)

# App options; they apply to the image before them.
APP_OPTIONS = (
    Option(
        "name",
        "name of the app (default: from the image)",
        "NAME",
        details=(
            "Lowercase letters, digits and dashes, unique in the pod. The default is the "
            "last part of the image's name."
        ),
    ),
    Option(
        "exec",
        "override the command of the image",
        "PROGRAM",
        details=(
            "The arguments of the image are dropped; pass new ones after --. A program "
            "without a slash is looked up in the PATH of the app."
        ),
    ),
    Option("working-dir", "working directory in the app", "DIR", completed=False),
    Option(
        "user",
        "UID, name, or path of a file with that owner",
        "USER",
        details="Names are looked up in /etc/passwd of the image.",
    ),
    Option(
        "group",
        "GID, name, or path of a file with that group",
        "GROUP",
        details="Names are looked up in /etc/group of the image.",
    ),
    Option("supplementary-gids", "supplementary groups, as numbers", "GID,..."),
    Option(
        "mount",
        "mount a volume (before IMAGE: in all apps)",
        "volume=NAME,target=DIR",
        kind="list",
        details=(
            "DIR is a path in the app; symbolic links are resolved inside the app. "
            "readOnly=true makes the mount read-only for this app."
        ),
    ),
    Option("readonly-rootfs", "mount the root filesystem read-only"),
    Option(
        "environment",
        "set an environment variable",
        "NAME=VALUE",
        kind="list",
        details="Overrides all other variables.",
    ),
    Option(
        "memory",
        "app's memory limit (before any IMAGE: the pod's)",
        "SIZE",
        details=(
            "SIZE is a number with an optional unit, for example 512K, 50M or 1.5GiB; units "
            "are powers of 1024. The minimum is 4096 bytes. Before the first IMAGE the limit "
            "applies to all apps together; so do --cpu, --cpu-shares and --pids."
        ),
    ),
    Option(
        "cpu",
        "CPU limit: 500m, 1.5",
        "CPUS",
        details="A number of CPUs, or thousandths of one with the suffix m.",
    ),
    Option(
        "cpu-shares",
        "CPU shares (relative weight)",
        "N",
        details="2 to 262144; the default is 1024.",
    ),
    Option("pids", "maximum number of processes", "N"),
    Option(
        "memory-swap",
        "limit of memory and swap together, or -1",
        "SIZE",
        details="Needs --memory; -1 is unlimited swap.",
    ),
    Option(
        "memory-reservation",
        "soft memory limit",
        "SIZE",
        details="If the host runs short of memory, it first reclaims the memory above this limit.",
    ),
    Option(
        "cpu-quota",
        "CPU time per period, in microseconds",
        "MICROSECONDS",
        details="The same limit as --cpu, which is quota divided by period.",
    ),
    Option("cpu-period", "period of --cpu-quota (default: 100000)", "MICROSECONDS"),
    Option("cpuset-cpus", "CPUs to run on: 0-2,7", "LIST"),
    Option("cpuset-mems", "memory nodes to use: 0,1", "LIST"),
    Option(
        "caps-retain",
        "keep only these capabilities",
        "CAP,...",
        kind="list",
        details=(
            "A comma-separated list; names may omit CAP_, as in net_raw. Conflicts with "
            "--caps-remove."
        ),
    ),
    Option(
        "caps-remove",
        "drop these default capabilities",
        "CAP,...",
        kind="list",
        details=(
            "The defaults are AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, "
            "MKNOD, NET_BIND_SERVICE, NET_RAW, SETFCAP, SETGID, SETPCAP, SETUID and "
            "SYS_CHROOT."
        ),
    ),
    Option(
        "seccomp",
        "allow or deny system calls",
        "mode=retain|remove,...",
        details=(
            "mode=retain allows only the listed calls; mode=remove denies only the listed calls; "
            "errno=NAME is the error of denied calls. Names of sets begin with @: "
            "@appc.io/all, @appc.io/empty, @docker/default-whitelist, "
            "@rkt/default-whitelist and the same with blacklist. The default is Docker's "
            "profile."
        ),
    ),
    Option(
        "ulimit",
        "set a resource limit of processes",
        "NAME=SOFT[:HARD]",
        kind="list",
        details="For example nofile=1024:4096; -1 means unlimited. NAME is as in setrlimit(2).",
    ),
    Option(
        "device",
        "add a host device to the app",
        "HOST[:PATH[:rwm]]",
        kind="list",
        details=(
            "PATH is the path in the app, by default the same; rwm is the access: read, write, "
            "mknod. If HOST is a directory, all devices in it are added."
        ),
    ),
    Option(
        "privileged",
        "grant all privileges of the host's root",
        details=(
            "All capabilities and devices, no seccomp filter, nothing masked, /sys and its "
            "cgroups writable: the app can take over the host."
        ),
    ),
    Option(
        "tmpfs",
        "mount a tmpfs",
        "DIR[:OPTION,...]",
        kind="list",
        details=(
            "Its files are in memory, and are lost when the app exits. The defaults are "
            "nosuid, nodev and noexec, overridden by suid, dev and exec; size=64m and "
            "mode=1777 set size and mode."
        ),
    ),
    Option("no-new-privileges", "set no_new_privs (setuid programs gain nothing)"),
    Option(
        "oom-score-adj",
        "OOM score adjustment (-1000 to 1000)",
        "N",
        details="The OOM killer prefers processes with a high value.",
    ),
    Option("annotation", "add an annotation to the manifest", "NAME=VALUE", kind="list"),
    Option("user-annotation", "add a user annotation", "NAME=VALUE", kind="list"),
    Option("user-label", "add a user label", "NAME=VALUE", kind="list"),
    Option(
        "stdin",
        "source of stdin (default: null)",
        "null|stream|interactive|tty",
        kind="choice",
        details=(
            "stream and tty read from attached clients; interactive uses the streams or "
            "the terminal of this command."
        ),
    ),
    Option(
        "stdout",
        "destination of stdout (default: log)",
        "log|null|stream|tty",
        kind="choice",
        details=(
            "Unless null, output goes to the log, to attached clients and, in the "
            "foreground, to the output of this command; with tty the app has a terminal."
        ),
    ),
    Option(
        "stderr",
        "destination of stderr (default: log)",
        "log|null|stream|tty",
        kind="choice",
        details="The values are those of --stdout. A terminal carries both stdout and stderr.",
    ),
    Option("signature", value="FILE"),
)

# Options only for `app add`; the first combines --volume and --mount.
ADD_OPTIONS = (
    Option("mnt-volume", "define and mount a volume", "name=NAME,target=DIR,...", kind="list"),
    Option("stop-signal", "stop signal (default: the image's, or SIGTERM)", "SIGNAL"),
)

# Before the first image these apply to the pod: mounts to every app, limits to the whole pod.
ALSO_OF_POD = (
    *("mount", "annotation", "user-annotation", "user-label"),
    *("memory", "cpu", "cpu-shares", "pids"),
)

# Options that conflict with --pod-manifest, because the file contains these settings.
REPLACED_BY_MANIFEST = (
    "port",
    "volume",
    "mount",
    "set-env",
    "set-env-file",
    "inherit-env",
    "pull-policy",
    "annotation",
    "user-annotation",
    "user-label",
    "memory",
    "cpu",
    "cpu-shares",
    "pids",
    "sysctl",
)
