"""Options of ``prepare``, ``run``, ``run-prepared`` and ``app add``, as data.

Each has the form of ``commandline/options.py``: ``(name, short, kind, value, help)``.  Options of
a pod may stand anywhere; those of an app belong to the image before them.
"""

from __future__ import annotations

Option = tuple[str, str, str, str, str]


# Pod options that take effect at prepare.
PREPARE_OPTIONS: tuple[Option, ...] = (
    ("port", "", "list", "NAME:[IP:]PORT", "publish a port of an image to the host"),
    ("volume", "", "list", "NAME,kind=host|empty,...", "define a volume that apps can mount"),
    ("mount", "", "list", "volume=NAME,target=DIR", ""),
    ("memory", "", "text", "SIZE", ""),
    ("cpu", "", "text", "CPUS", ""),
    ("cpu-shares", "", "text", "N", ""),
    ("pids", "", "text", "N", ""),
    ("no-overlay", "", "flag", "", "copy the images' files, do not use overlayfs"),
    ("set-env", "", "list", "NAME=VALUE", "set an environment variable in all apps"),
    ("set-env-file", "", "list", "FILE", "read environment variables for all apps"),
    ("inherit-env", "", "flag", "", "inherit variables that images do not set"),
    ("pod-manifest", "", "text", "FILE", "create the pod from a pod manifest"),
    ("private-users", "", "flag", "", "run the pod in a user namespace"),
    ("pull-policy", "", "choice", "new|update|never", "pull policy (default: new)"),
    ("flavor", "", "text", "NAME", "isolation: oci, fly (chroot only) or kvm"),
    ("kvm-kernel", "", "text", "FILE", "kernel of the virtual machine (kvm)"),
    ("stage1-name", "", "text", "NAME", ""),
    ("annotation", "", "list", "NAME=VALUE", ""),
    ("user-annotation", "", "list", "NAME=VALUE", ""),
    ("user-label", "", "list", "NAME=VALUE", ""),
    ("store-only", "", "flag", "", ""),
    ("no-store", "", "flag", "", ""),
)

# Pod options that take effect at run.
RUN_OPTIONS: tuple[Option, ...] = (
    ("net", "", "optional", "NAME[:K=V;K=V],...", "networks to join, none or host"),
    ("dns", "", "list", "IP", "set a DNS server; or host, none"),
    ("dns-search", "", "list", "DOMAIN", "set a DNS search domain"),
    ("dns-opt", "", "list", "OPTION", "set a resolver option"),
    ("dns-domain", "", "text", "DOMAIN", "set the DNS domain of the pod"),
    ("hosts-entry", "", "list", "IP=NAME,...", "add a line to /etc/hosts; or host"),
    ("hostname", "", "text", "NAME", "hostname of the pod"),
    ("ipc", "", "choice", "auto|private|parent", "IPC namespace (default: auto)"),
    ("shm-size", "", "text", "SIZE", "size of /dev/shm (default: 64M)"),
    ("interactive", "", "flag", "", "run the only app on this terminal"),
    ("mds-register", "", "flag", "", ""),
    ("detach", "", "flag", "", "run in the background and print the UUID"),
)

PREPARED_OPTIONS: tuple[Option, ...] = (("quiet", "", "flag", "", "print only the UUID"),)
SAVED_OPTIONS: tuple[Option, ...] = (
    ("uuid-file-save", "", "text", "FILE", "write the UUID to FILE"),
)

# App options; they apply to the image before them.
APP_OPTIONS: tuple[Option, ...] = (
    ("name", "", "text", "NAME", "name of the app (default: from the image)"),
    ("exec", "", "text", "PROGRAM", "override the command of the image"),
    ("working-dir", "", "text", "DIR", "working directory in the app"),
    ("user", "", "text", "USER", "UID, name, or path of a file with that owner"),
    ("group", "", "text", "GROUP", "GID, name, or path of a file with that group"),
    ("supplementary-gids", "", "text", "GID,...", "supplementary groups, as numbers"),
    ("mount", "", "list", "volume=NAME,target=DIR", "mount a volume (before IMAGE: in all apps)"),
    ("readonly-rootfs", "", "flag", "", "mount the root filesystem read-only"),
    ("environment", "", "list", "NAME=VALUE", "set an environment variable"),
    ("memory", "", "text", "SIZE", "memory limit (before IMAGE: of the pod)"),
    ("cpu", "", "text", "CPUS", "CPU limit: 500m, 1.5"),
    ("cpu-shares", "", "text", "N", "CPU shares (relative weight)"),
    ("pids", "", "text", "N", "maximum number of processes"),
    ("caps-retain", "", "list", "CAP,...", "keep only these capabilities"),
    ("caps-remove", "", "list", "CAP,...", "drop these default capabilities"),
    ("seccomp", "", "text", "mode=retain|remove,...", "allow or deny system calls"),
    ("no-new-privileges", "", "flag", "", "set no_new_privs (setuid programs gain nothing)"),
    ("oom-score-adj", "", "text", "N", "OOM score adjustment (-1000 to 1000)"),
    ("annotation", "", "list", "NAME=VALUE", "add an annotation to the manifest"),
    ("user-annotation", "", "list", "NAME=VALUE", "add a user annotation"),
    ("user-label", "", "list", "NAME=VALUE", "add a user label"),
    ("stdin", "", "choice", "null|stream|interactive|tty", "source of stdin (default: null)"),
    ("stdout", "", "choice", "log|null|stream|tty", "destination of stdout (default: log)"),
    ("stderr", "", "choice", "log|null|stream|tty", "destination of stderr (default: log)"),
    ("signature", "", "text", "FILE", ""),
)

# Options only for `app add`; the first combines --volume and --mount.
ADD_OPTIONS: tuple[Option, ...] = (
    ("mnt-volume", "", "list", "name=NAME,target=DIR,...", "define and mount a volume"),
    ("stop-signal", "", "text", "SIGNAL", "stop signal (default: the image's, or SIGTERM)"),
)

# Before the first image these apply to the pod: mounts to every app, limits to the whole pod.
ALSO_OF_POD = (
    *("mount", "annotation", "user-annotation", "user-label"),
    *("memory", "cpu", "cpu-shares", "pids"),
)

# Conflict with --pod-manifest, which contains these settings.
SAID_BY_MANIFEST = (
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
)
