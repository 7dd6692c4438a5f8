"""`features`: print the Features Structure (runtime-spec features.md, features-linux.md).

Engines depend on it: containerd refuses user namespaces without ``mountExtensions.idmap``, and
docker requires ``rro``.  Each list comes from the table that the runtime itself uses.  A feature
that is not supported is reported as such, never as ``null`` ("unknown").  Only ``linux.seccomp``
depends on software outside this package: on libseccomp and, for the supported flags, on the kernel.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import ConfigError, CriuError
from ociruntime.base.linux import MEMORY_POLICIES, MEMORY_POLICY_FLAGS, NAMESPACES
from ociruntime.base.seccomp_actions import SECCOMP_ACTIONS, SECCOMP_FILTER_FLAGS
from ociruntime.runtime.host.criu import find_criu, obstacle
from ociruntime.runtime.host.seccomp import ARCHITECTURES, OPERATORS, compile_filter
from ociruntime.runtime.plan.mount_options import option_names
from ociruntime.runtime.spec import schema
from ociruntime.runtime.spec.annotations import unsafe
from ociruntime.runtime.spec.state_document import SPEC_VERSION

# Since runtime-spec 1.0.0 every version has been a superset of the previous one.
OLDEST_SPEC_VERSION = "1.0.0"

ALLOW = "SCMP_ACT_ALLOW"


def features(criu: str = "") -> dict[str, object]:
    """Return the Features Structure, with its members in the specification's order.

    ``criu`` is the value of ``--criu``; "" means the installed criu.
    """
    return {
        "ociVersionMin": OLDEST_SPEC_VERSION,
        "ociVersionMax": SPEC_VERSION,
        "hooks": [kind for kind, *_ in schema.HOOKS],
        "mountOptions": option_names(),
        "linux": {
            "namespaces": sorted(NAMESPACES),
            "capabilities": list(CAPABILITIES),
            "cgroup": {
                "v1": True,
                "v2": True,
                "systemd": True,
                "systemdUser": True,
                "rdma": True,
            },
            "seccomp": _seccomp(),
            "apparmor": {"enabled": True},
            "selinux": {"enabled": True},
            "intelRdt": {"enabled": True, "schemata": True, "monitoring": True},
            "memoryPolicy": {
                "modes": sorted(MEMORY_POLICIES),
                "flags": sorted(MEMORY_POLICY_FLAGS),
            },
            "mountExtensions": {"idmap": {"enabled": True}},
            "netDevices": {"enabled": True},
        },
        "annotations": _annotations(criu),
        "potentiallyUnsafeConfigAnnotations": unsafe(),
    }


def _seccomp() -> dict[str, object]:
    """Return the member ``seccomp``, with the actions, architectures and flags that work here."""
    try:
        enabled = _takes({"defaultAction": ALLOW})
    except ImportError:
        enabled = False  # the extension module is not built without libseccomp
    if not enabled:
        return {
            "enabled": False,
            "actions": [],
            "operators": [],
            "archs": [],
            "knownFlags": [],
            "supportedFlags": [],
        }
    actions = [name for name in SECCOMP_ACTIONS if _takes(_with_rule(name))]
    archs = [name for name in ARCHITECTURES if _takes(_with(architectures=[name]))]
    flags = [name for name in SECCOMP_FILTER_FLAGS if _takes(_with(flags=[name]))]
    return {
        "enabled": True,
        "actions": sorted(actions),
        "operators": sorted(OPERATORS),
        "archs": sorted(archs),
        "knownFlags": sorted(SECCOMP_FILTER_FLAGS),
        "supportedFlags": sorted(flags),
    }


def _with(**settings: list[str]) -> dict[str, object]:
    return {"defaultAction": ALLOW, **settings}


def _with_rule(action: str) -> dict[str, object]:
    """Return a seccomp profile whose only rule has the given action."""
    # libseccomp skips a rule whose action is the default action.
    default = ALLOW if action != ALLOW else "SCMP_ACT_ERRNO"
    return {"defaultAction": default, "syscalls": [{"names": ["getpid"], "action": action}]}


def _takes(profile: Any) -> bool:  # noqa: ANN401 - a linux.seccomp object
    """Return whether libseccomp can compile ``profile``."""
    try:
        compile_filter(profile)
    except ConfigError:
        return False
    return True


def libseccomp_version() -> str:
    """Return the version of libseccomp, such as ``2.5.4``, or "" if it is not installed."""
    try:
        from ociruntime.runtime.host.seccomp import library_version

        return library_version()
    except ImportError:
        return ""


def _annotations(criu: str) -> dict[str, str]:
    # Podman and CRI-O look up runc's annotation names for every runtime.
    enabled = "true" if _can_checkpoint(criu) else "false"
    annotations = {"org.opencontainers.runc.checkpoint.enabled": enabled}
    version = libseccomp_version()
    if version:
        annotations["io.github.seccomp.libseccomp.version"] = version
    return annotations


def _can_checkpoint(criu: str) -> bool:
    """Return whether CRIU is installed and works on this kernel."""
    try:
        return not obstacle(find_criu(criu))
    except CriuError:
        return False
