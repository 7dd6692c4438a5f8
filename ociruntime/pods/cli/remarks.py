"""Details of the options of ``ocipod`` for its manual pages; loaded with ``manual.py``."""

from __future__ import annotations

# Commands that share the details of `run`.
LIKE_RUN = ("prepare", "run-prepared", "app sandbox", "app add")

# (command, option) -> details; ("", option) for global options.
MORE: dict[tuple[str, str], str] = {
    ("", "dir"): "Each directory has its own images and pods. The default is /var/lib/ociruntime.",
    ("", "runtime"): (
        "runc and crun can be used as well. A name without a slash is looked up in PATH."
    ),
    ("", "insecure-options"): (
        "A comma-separated list of: none, image, tls, http, pubkey, capabilities, paths, "
        "seccomp, all-fetch (image, tls, http, pubkey), all-run (the others), all."
    ),
    ("", "user-config"): "User settings override local and vendor settings.",
    ("run", "port"): (
        "NAME is a port of an image, as in 80-tcp or 80/tcp; it need not be declared. Without "
        "IP the port is published on all addresses of the host. A port in use is an error, and so "
        "are ports with --net=none or --net=host."
    ),
    ("run", "volume"): (
        "kind=host,source=DIR is a directory of the host. kind=empty is a new directory, removed "
        "with the pod; it accepts mode=0755, uid=N and gid=N. Both accept readOnly=true, kind=host "
        "also recursive=false, which excludes mounts below DIR. NAME is what --mount refers to, or "
        "a volume of the image: volume-var-lib-data for /var/lib/data."
    ),
    ("run", "mount"): (
        "DIR is a path in the app; symbolic links are resolved inside the app. readOnly=true makes "
        "the mount read-only for this app."
    ),
    ("run", "set-env"): "Overrides --set-env-file; overridden by --environment.",
    ("run", "set-env-file"): (
        "One NAME=VALUE per line; empty lines and lines that begin with # or ; are ignored. A name "
        "may occur once. Overrides variables of the image."
    ),
    ("run", "inherit-env"): "All other variables override inherited ones.",
    ("run", "pod-manifest"): (
        "The format is that of `cat-manifest`; images are named by ID. Options that the manifest "
        "replaces are refused."
    ),
    ("run", "no-overlay"): (
        "Copying is slower and takes more space. It is the default if the host has no overlayfs."
    ),
    ("run", "private-users"): (
        "User and group IDs 0 to 65535 of the apps are mapped to a range that only this pod uses."
    ),
    ("run", "pull-policy"): (
        "new fetches images that are not in the store, update also those that have changed in the "
        "registry, never fetches nothing."
    ),
    ("run", "flavor"): (
        "oci runs apps in namespaces with restricted privileges. fly runs one app in a chroot with "
        "all privileges and namespaces of the host, for programs that administer it. kvm runs the "
        "pod in a qemu virtual machine with a kernel of its own."
    ),
    ("run", "net"): (
        "NAME is default (a bridge with NAT), default-restricted (only the host and other such "
        "pods), none, host, all, or a configured CNI network; separate several with commas. K=V "
        "are arguments of the plugins. Without a value the network is default."
    ),
    ("run", "dns"): (
        "host uses the host's resolv.conf, none that of the image. The default comes from the "
        "network."
    ),
    ("run", "hosts-entry"): "host uses the host's /etc/hosts.",
    ("run", "hostname"): "The default is ocipod-UUID.",
    ("run", "ipc"): "parent shares the IPC namespace and /dev/shm of the host; auto means private.",
    ("run", "interactive"): "The pod may have only one app.",
    ("run", "name"): (
        "Lowercase letters, digits and dashes, unique in the pod. The default is the last part of "
        "the image's name."
    ),
    ("run", "exec"): (
        "The arguments of the image are dropped; give new ones after --. A program without a slash "
        "is looked up in the PATH of the app."
    ),
    ("run", "user"): "Names are looked up in /etc/passwd of the image.",
    ("run", "group"): "Names are looked up in /etc/group of the image.",
    ("run", "environment"): "Overrides all other variables.",
    ("run", "shm-size"): (
        "All apps share /dev/shm. SIZE is 512K, 50M or 1.5GiB, in steps of 1024. Conflicts with "
        "--ipc=parent."
    ),
    ("run", "memory"): (
        "SIZE is 512K, 50M or 1.5GiB, in steps of 1024; at least 4096. Before the first IMAGE the "
        "limit applies to all apps together; so do --cpu, --cpu-shares and --pids."
    ),
    ("run", "cpu"): "A number of CPUs, or thousandths of one with the suffix m.",
    ("run", "cpu-shares"): "2 to 262144; the default is 1024.",
    ("run", "oom-score-adj"): "The OOM killer prefers processes with a high value.",
    ("run", "caps-retain"): (
        "A comma-separated list; names may omit CAP_, as in net_raw. Conflicts with --caps-remove."
    ),
    ("run", "caps-remove"): (
        "The defaults are AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, MKNOD, "
        "NET_BIND_SERVICE, NET_RAW, SETFCAP, SETGID, SETPCAP, SETUID and SYS_CHROOT."
    ),
    ("run", "seccomp"): (
        "mode=retain allows only the listed calls, mode=remove all but those; errno=NAME is the "
        "error of denied calls. Names of sets begin with @: @appc.io/all, @appc.io/empty, "
        "@docker/default-whitelist, @rkt/default-whitelist and the same with blacklist. The "
        "default is Docker's profile."
    ),
    ("run", "stdin"): (
        "stream and tty read from attached clients; interactive uses the streams or the terminal "
        "of this command."
    ),
    ("run", "stdout"): (
        "Unless null, output goes to the log, to attached clients and, in the foreground, to the "
        "output of this command; with tty the app has a terminal."
    ),
    ("run", "stderr"): "As for --stdout; a terminal has both streams.",
    ("app sandbox", "port"): (
        "NAME is a name that apps may refer to, PROTO is tcp or udp, the first PORT is in the pod, "
        "IP and the last PORT are on the host."
    ),
    ("app sandbox", "on-failure"): ("keep leaves the pod running, halt stops it as with `run`."),
    (
        "gc",
        "grace-period",
    ): "The grace period begins when the first `gc` after its stop marks the pod.",
    ("gc", "mark-only"): "Expired prepared pods are not removed either.",
}


def more(command: str, option: str) -> str:
    """Return the details of an option, or ""."""
    found = MORE.get((command, option), "")
    return found or (MORE.get(("run", option), "") if command in LIKE_RUN else "")
