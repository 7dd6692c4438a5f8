"""The options of ``prepare``, ``run``, ``run-prepared`` and ``app add``, as data.

In the form of ``cli/options.py``: ``(name, short, kind, value, help)``.  Options of a pod may stand
anywhere; those of an app belong to the image before them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Option = tuple[str, str, str, str, str]

# Of the pod, told when it is prepared.
PREPARE_OPTIONS: tuple[Option, ...] = (
    ("port", "", "list", "NAME:[IP:]PORT", "forward a port of the host to one of an image"),
    ("volume", "", "list", "NAME,kind=host|empty,...", "a directory that apps can mount"),
    ("mount", "", "list", "volume=NAME,target=DIR", ""),
    ("memory", "", "text", "SIZE", ""),
    ("cpu", "", "text", "CPUS", ""),
    ("cpu-shares", "", "text", "N", ""),
    ("pids", "", "text", "N", ""),
    ("no-overlay", "", "flag", "", "copy the images' files instead of an overlay"),
    ("set-env", "", "list", "NAME=VALUE", "a variable for every app"),
    ("set-env-file", "", "list", "FILE", "variables for every app, one a line"),
    ("inherit-env", "", "flag", "", "pass on variables of the caller that images do not set"),
    ("pod-manifest", "", "text", "FILE", "the whole pod from a manifest, instead of images"),
    ("private-users", "", "flag", "", "give the pod user ids that nobody on the host has"),
    ("pull-policy", "", "choice", "new|update|never", "when to ask the registry (new)"),
    ("flavor", "", "text", "NAME", "oci, fly (chroot only) or kvm"),
    ("kvm-kernel", "", "text", "FILE", "kernel of the virtual machine of flavour kvm"),
    ("stage1-name", "", "text", "NAME", ""),
    ("annotation", "", "list", "NAME=VALUE", ""),
    ("user-annotation", "", "list", "NAME=VALUE", ""),
    ("user-label", "", "list", "NAME=VALUE", ""),
    ("store-only", "", "flag", "", ""),
    ("no-store", "", "flag", "", ""),
)

# Of the pod, told when it is run.
RUN_OPTIONS: tuple[Option, ...] = (
    ("net", "", "optional", "NAME[:K=V;K=V],...", "networks, none or host (default)"),
    ("dns", "", "list", "IP", "name server; or host, none"),
    ("dns-search", "", "list", "DOMAIN", "search this domain"),
    ("dns-opt", "", "list", "OPTION", "option of the resolver"),
    ("dns-domain", "", "text", "DOMAIN", "the pod's own domain"),
    ("hosts-entry", "", "list", "IP=NAME,...", "a line of /etc/hosts; or host"),
    ("hostname", "", "text", "NAME", "the pod's host name"),
    ("ipc", "", "choice", "auto|private|parent", "whose shared memory and queues"),
    ("shm-size", "", "text", "SIZE", "room in the apps' /dev/shm (64M)"),
    ("interactive", "", "flag", "", "give the only app this terminal"),
    ("mds-register", "", "flag", "", ""),
    ("detach", "", "flag", "", "return when the pod is ready, and print its UUID"),
)

PREPARED_OPTIONS: tuple[Option, ...] = (("quiet", "", "flag", "", "print nothing but the UUID"),)
SAVED_OPTIONS: tuple[Option, ...] = (
    ("uuid-file-save", "", "text", "FILE", "write the UUID to FILE"),
)

# Of the app before them.
APP_OPTIONS: tuple[Option, ...] = (
    ("name", "", "text", "NAME", "the app's name (from the image's)"),
    ("exec", "", "text", "PROGRAM", "run this instead of what the image says"),
    ("working-dir", "", "text", "DIR", "where the program begins"),
    ("user", "", "text", "USER", "number, name, or path of a file whose owner is meant"),
    ("group", "", "text", "GROUP", "the same for the group"),
    ("supplementary-gids", "", "text", "GID,...", "further groups, as numbers"),
    ("mount", "", "list", "volume=NAME,target=DIR", "mount a volume; before IMAGE in all apps"),
    ("readonly-rootfs", "", "flag", "", "let the app not change its files"),
    ("environment", "", "list", "NAME=VALUE", "a variable for this app"),
    ("memory", "", "text", "SIZE", "most memory; before IMAGE of the pod"),
    ("cpu", "", "text", "CPUS", "most CPU time: 500m, 1.5"),
    ("cpu-shares", "", "text", "N", "share of CPU time when it is scarce"),
    ("pids", "", "text", "N", "most processes"),
    ("caps-retain", "", "list", "CAP,...", "these capabilities alone"),
    ("caps-remove", "", "list", "CAP,...", "the usual capabilities without these"),
    ("seccomp", "", "text", "mode=retain|remove,...", "system calls"),
    ("no-new-privileges", "", "flag", "", "no way to privileges by set-uid programs"),
    ("oom-score-adj", "", "text", "N", "who goes first when memory is out"),
    ("annotation", "", "list", "NAME=VALUE", "note in the manifest"),
    ("user-annotation", "", "list", "NAME=VALUE", "note of the user's"),
    ("user-label", "", "list", "NAME=VALUE", "label of the user's"),
    ("stdin", "", "choice", "null|stream|interactive|tty", "where input is from (null)"),
    ("stdout", "", "choice", "log|null|stream|tty", "where output goes (log)"),
    ("stderr", "", "choice", "log|null|stream|tty", "where errors go (log)"),
    ("signature", "", "text", "FILE", ""),
)

# Of `app add` alone; the first is a volume and where the app has it, in one.
ADD_OPTIONS: tuple[Option, ...] = (
    ("mnt-volume", "", "list", "name=NAME,target=DIR,...", "a new volume and its place"),
    ("stop-signal", "", "text", "SIGNAL", "what asks it to end (the image's, or SIGTERM)"),
)

# Before any image, a mount is every app's; notes are the pod's, and limits of its apps together.
ALSO_OF_POD = (
    *("mount", "annotation", "user-annotation", "user-label"),
    *("memory", "cpu", "cpu-shares", "pids"),
)

# With --pod-manifest the manifest says all of this.
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
