"""What manual pages say of options of ``ocipod`` beyond the line of the help.

Loaded with ``manual.py``: never by a command that does something.
"""

from __future__ import annotations

# Commands whose options of the same name are those of `run`.
LIKE_RUN = ("prepare", "run-prepared", "app sandbox", "app add")

# (command, option); of every command: ("", option).
MORE: dict[tuple[str, str], str] = {
    ("", "dir"): "Images and pods of one directory are not seen from another.",
    ("", "runtime"): (
        "It is called as runc and crun are, which can be used as well: a name is looked up in PATH."
    ),
    ("", "insecure-options"): (
        "Several are separated by commas: none, image, tls, http, pubkey, capabilities, paths, "
        "seccomp, all-fetch (the first four of them), all-run (the others), all."
    ),
    ("", "user-config"): "It wins over the other two.",
    ("run", "port"): (
        "NAME is that of a port in an image, as in 80-tcp or 80/tcp, or such a name of one that no "
        "image tells of. Without IP all addresses of the host are meant. A port that is taken is "
        "an error, and so are ports with --net=none or --net=host."
    ),
    ("run", "volume"): (
        "With kind=host,source=DIR it is a directory of the host, with kind=empty a new one, which "
        "goes with the pod and takes mode=0755, uid=N and gid=N. Both take readOnly=true, a "
        "directory of the host recursive=false as well: without what is mounted below it. NAME is "
        "what --mount refers to, or that of a volume in the image: of /var/lib/data it is "
        "volume-var-lib-data."
    ),
    ("run", "mount"): (
        "DIR is a path in the app; links on the way to it are followed there. With readOnly=true "
        "it is read-only for this app."
    ),
    ("run", "set-env"): "It is stronger than --set-env-file, and weaker than --environment.",
    ("run", "set-env-file"): (
        "Empty lines and those that begin with # or ; do not count. A name may be there once. "
        "It is stronger than the image's own variables."
    ),
    ("run", "inherit-env"): "They are weaker than all others.",
    ("run", "pod-manifest"): (
        "The format is that of `cat-manifest`; images are named by their ids. What the manifest "
        "says cannot be said by options as well."
    ),
    ("run", "no-overlay"): (
        "It takes longer and more room. Without overlayfs on the host it is done in any case."
    ),
    ("run", "private-users"): (
        "The apps' ids from 0 to 65535 are then others outside, in a range that is the pod's own."
    ),
    ("run", "pull-policy"): (
        "With new what is not in the store is fetched, with update also what is, if the registry "
        "has another by now; with never nothing is fetched."
    ),
    ("run", "flavor"): (
        "With oci apps are in namespaces of the pod, restricted in their privileges. With fly a "
        "pod has one app, with its own files and all else of the host's: for programs that "
        "administrate the host. With kvm the pod is a virtual machine of qemu with its own kernel."
    ),
    ("run", "net"): (
        "NAME is default (an address behind the host's), default-restricted (the host and other "
        "such pods alone), none, host, all, or a network that is configured as CNI has it; several "
        "are separated by commas. K=V are arguments for its plugins. An option without a value "
        "means default."
    ),
    ("run", "dns"): (
        "With host the file is the host's, with none it is the image's. Without the option it is "
        "what the network says."
    ),
    ("run", "hosts-entry"): "With host the whole file is the host's.",
    ("run", "hostname"): "The default is ocipod-UUID.",
    ("run", "ipc"): "With parent they are the host's, with its /dev/shm; auto means private.",
    ("run", "interactive"): "The pod may have one app only.",
    ("run", "name"): (
        "It is made of small letters, digits and dashes, and there once in a pod. The default is "
        "the last part of the image's name."
    ),
    ("run", "exec"): (
        "The image's arguments do not count then, only those behind --. A program without a slash "
        "is looked for in the PATH of the app."
    ),
    ("run", "user"): "A name is looked up in the image's own /etc/passwd.",
    ("run", "group"): "A name is looked up in the image's own /etc/group.",
    ("run", "environment"): "It is stronger than all others.",
    ("run", "shm-size"): (
        "All apps of the pod have one. SIZE is 512K, 50M or 1.5GiB, in steps of 1024. It excludes "
        "--ipc=parent."
    ),
    ("run", "memory"): (
        "SIZE is 512, 50M or 1.5GiB, in steps of 1024; 4096 at least. Before the first IMAGE it is "
        "what all apps may have together; so it is with --cpu, --cpu-shares and --pids."
    ),
    ("run", "cpu"): "In CPUs, or in thousandths with an m behind.",
    ("run", "cpu-shares"): "From 2 to 262144; 1024 is usual.",
    ("run", "oom-score-adj"): "From -1000 to 1000: the process with the highest goes first.",
    ("run", "caps-retain"): (
        "Names may be short, as in net_raw, and are separated by commas. It excludes --caps-remove."
    ),
    ("run", "caps-remove"): (
        "The usual ones are AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, MKNOD, "
        "NET_BIND_SERVICE, NET_RAW, SETFCAP, SETGID, SETPCAP, SETUID and SYS_CHROOT."
    ),
    ("run", "seccomp"): (
        "mode=retain allows the calls that follow alone, mode=remove all but those; errno=NAME is "
        "the error of the others. A set begins with @: @appc.io/all, @appc.io/empty, "
        "@docker/default-whitelist, @rkt/default-whitelist and the same with blacklist. Without "
        "the option the calls of Docker's default are allowed."
    ),
    ("run", "stdin"): (
        "With stream and tty it comes from those who are attached; with interactive the streams of "
        "this command are the app's, or their terminal is."
    ),
    ("run", "stdout"): (
        "Whatever is not null goes to the log, to those who are attached, and to the output of "
        "this command, unless it has detached; with tty the app has a terminal."
    ),
    ("run", "stderr"): "The same for errors; a terminal has both.",
    ("app sandbox", "port"): (
        "NAME is one that an app may refer to, PROTO tcp or udp, the first PORT that in the pod, "
        "IP and the last PORT those of the host."
    ),
    ("app sandbox", "on-failure"): (
        "With keep the pod runs on, with halt it ends as that of `run` does."
    ),
    ("gc", "grace-period"): "It begins when the pod is marked, by the first `gc` after its end.",
    ("gc", "mark-only"): "What was prepared and has expired is left alone as well.",
}


def more(command: str, option: str) -> str:
    """What there is to say of an option."""
    found = MORE.get((command, option), "")
    return found or (MORE.get(("run", option), "") if command in LIKE_RUN else "")
