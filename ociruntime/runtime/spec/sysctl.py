"""Check linux.sysctl: find the namespace that each kernel parameter belongs to.

A parameter may be set only if it belongs to one of the container's own namespaces, because any
other parameter would change the host (LNX-SYSCTL-01).
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

# (parameter, or directory with a final "/", below /proc/sys; the namespace that owns it)
_OWNERS: tuple[tuple[str, str], ...] = (
    ("net/", "network"),
    ("fs/mqueue/", "ipc"),
    ("kernel/msgmax", "ipc"),
    ("kernel/msgmnb", "ipc"),
    ("kernel/msgmni", "ipc"),
    ("kernel/msg_next_id", "ipc"),
    ("kernel/auto_msgmni", "ipc"),
    ("kernel/sem", "ipc"),
    ("kernel/sem_next_id", "ipc"),
    ("kernel/shmall", "ipc"),
    ("kernel/shmmax", "ipc"),
    ("kernel/shmmni", "ipc"),
    ("kernel/shm_next_id", "ipc"),
    ("kernel/shm_rmid_forced", "ipc"),
    # kernel.pid_max is missing: before Linux 6.14 it is not per pid namespace.
    ("kernel/ns_last_pid", "pid"),
    ("kernel/domainname", "uts"),
    ("user/", "user"),
)
_SETTABLE = (
    "net.*, fs.mqueue.*, kernel.msg*, kernel.sem*, kernel.shm*, kernel.ns_last_pid,"
    " kernel.domainname, user.*"
)


def sysctl_path(key: str) -> str:
    """Return the path below /proc/sys for a key of linux.sysctl.

    As in sysctl(8), the first "." or "/" in the key becomes the separator of directories, and the
    other of the two characters is part of a name.  Thus ``net.ipv4.conf.eth0/1.mtu`` and
    ``net/ipv4/conf/eth0.1/mtu`` are the same parameter.
    """
    dot, slash = key.find("."), key.find("/")
    if dot >= 0 and (slash < 0 or dot < slash):
        return key.translate({ord("."): "/", ord("/"): "."})
    return key


def owner(path: str) -> str:
    """Return the type of the namespace that the parameter at ``path`` belongs to.

    ``path`` is relative to /proc/sys.  Returns "" for a parameter of the whole host.
    """
    for owned, namespace in _OWNERS:
        if path == owned or (owned.endswith("/") and path.startswith(owned)):
            return namespace
    return ""


def validate_sysctl(sysctl: dict[str, str], namespaces: dict[str, str]) -> None:
    """Check the keys and values of linux.sysctl against the container's namespaces.

    ``namespaces``: {type: path} of ``linux.namespaces``.  Raises ConfigError for a parameter that
    belongs to none of these namespaces, and for an invalid value.
    """
    for key, value in sysctl.items():
        where = f'linux.sysctl["{key}"]'
        path = sysctl_path(key)
        if any(part in ("", ".", "..") for part in path.split("/")):
            raise ConfigError(where, "is not the name of a kernel parameter")
        if path == "kernel/hostname":
            raise ConfigError(where, "cannot be set by linux.sysctl", 'set "hostname" instead')
        namespace = owner(path)
        if not namespace:
            message = "does not belong to a namespace: setting it would change the host"
            raise ConfigError(where, message, f"supported: {_SETTABLE}")
        if namespace not in namespaces:
            hint = (
                f'add {{"type": "{namespace}"}} to linux.namespaces;'
                " without it, the parameter is the host's"
            )
            raise ConfigError(where, f"needs a {namespace} namespace", hint)
        if "\n" in value:
            raise ConfigError(where, "the value must be a single line")
