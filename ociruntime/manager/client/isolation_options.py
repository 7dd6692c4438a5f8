"""The options of ``run`` and ``create`` for namespaces, devices, privileges and kernel settings."""

from __future__ import annotations

from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError
from ociruntime.commandline import container_values
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments

Spec: TypeAlias = dict[str, Any]

ISOLATION_OPTIONS = (
    Option("pid", "PID namespace", "private|host", completed=False),
    Option("uts", "UTS namespace", "private|host", completed=False),
    Option("ipc", "IPC namespace", "private|host", kind="choice"),
    Option("domainname", "NIS domain name of the container", "NAME"),
    Option("platform", "platform of the image (default: the host's)", "linux/ARCH"),
    # Accepted for compatibility with docker, but only with docker's default value.
    Option("cgroupns", value="private", completed=False),
    Option("userns", value="host", completed=False),
    Option("log-driver", value="json-file", completed=False),
    Option(
        "device",
        "add a host device to the container",
        "HOST[:PATH[:rwm]]",
        kind="list",
        details=(
            "PATH is the path in the container (default: HOST). rwm is the access: read, write, "
            "mknod. If HOST is a directory, all devices in it are added."
        ),
    ),
    Option("cap-add", "add a capability", "CAP", kind="list"),
    Option("cap-drop", "drop a capability", "CAP", kind="list"),
    Option(
        "security-opt",
        "no-new-privileges or seccomp=unconfined",
        "OPTION",
        kind="list",
    ),
    Option(
        "privileged",
        "grant all privileges of the host's root",
        details=(
            "All capabilities and devices, no seccomp filter, nothing masked, /sys and its "
            "cgroups writable: the container can take over the host."
        ),
    ),
    Option(
        "init",
        "reap orphans (always done)",
        details=(
            "Accepted for compatibility with docker. Process 1 of a container is always a small "
            "init, which starts the program, reaps orphans and forwards signals to the program."
        ),
    ),
    Option(
        "sysctl",
        "set a kernel parameter of the container",
        "NAME=VALUE",
        kind="list",
        details=(
            "Only parameters of the container's namespaces: net.* without --network=host, and "
            "fs.mqueue.*, kernel.msg*, kernel.sem and kernel.shm* without --ipc=host."
        ),
    ),
)


def isolation_of(arguments: Arguments) -> Spec:
    """Return the members of a create request that ``ISOLATION_OPTIONS`` set.

    Raises UsageError for an invalid value.
    """
    spec: Spec = {"privileged": arguments.flag("privileged")}
    spec["devices"] = [container_values.device(one, "--device") for one in arguments.list("device")]
    pairs = [container_values.pair(text, "--sysctl") for text in arguments.list("sysctl")]
    spec["sysctls"] = dict(pairs)
    for option in ("domainname", "platform", "ipc"):
        spec[option] = arguments.text(option)
    for option in ("cap-add", "cap-drop"):
        spec[option.replace("-", "_")] = arguments.list(option)
    for text in arguments.list("security-opt"):
        spec.update(security(text))
    for option in _POSSIBLE:
        value = _one_of(arguments, option)
        if option not in _FIXED:
            spec[option] = value
    # Docker treats an option that is an empty string as not set.
    return {member: value for member, value in spec.items() if value}


# Value of --security-opt -> members of the create request; {} for a value without effect.
_SECURITY: dict[str, dict[str, Any]] = {
    "no-new-privileges": {"no_new_privileges": True},
    "no-new-privileges=true": {"no_new_privileges": True},
    "seccomp=unconfined": {"seccomp": "unconfined"},
    "apparmor=unconfined": {},
    "label=disable": {},
}


def security(text: str) -> dict[str, Any]:
    """Return the members of a create request for ``text``, a value of ``--security-opt``.

    Raises UsageError for an unsupported value.
    """
    known = _SECURITY.get(text.replace(":", "="))
    if known is None:
        hint = f"supported: {', '.join(_SECURITY)}"
        raise UsageError(f'--security-opt: unsupported option "{text}"', hint)
    return known


def _one_of(arguments: Arguments, option: str) -> str:
    """Return the value of ``option``, which must be in ``_POSSIBLE``; "" if it is not given.

    Raises UsageError for any other value.  If docker supports that value, the error's hint says why
    ocictl does not, or what to use instead.
    """
    value = arguments.text(option)
    if value and value not in _POSSIBLE[option]:
        kind = value.partition(":")[0]
        reason = _REASONS.get((option, kind), f"supported: {', '.join(_POSSIBLE[option])}")
        raise UsageError(f"--{option}={value} is not supported", reason)
    return value


# Option -> its supported values.
_POSSIBLE = {
    "pid": ("private", "host"),
    "uts": ("private", "host"),
    "cgroupns": ("private",),
    "userns": ("host",),
    "log-driver": ("json-file",),
}
_FIXED = ("cgroupns", "userns", "log-driver")  # only the default is possible
_REASONS = {
    ("pid", "container"): "use exec to run a program in the container, or --pid=host",
    ("cgroupns", "host"): "each container has a private cgroup namespace",
    ("userns", "private"): "containers share the host's user namespace; see ocipod --private-users",
    ("log-driver", "none"): "the output is always logged; redirect it to /dev/null instead",
    ("log-driver", "local"): "logs are files; see ocictl logs",
    ("log-driver", "journald"): "logs are files; see ocictl logs",
    ("log-driver", "syslog"): "logs are files; see ocictl logs",
}
