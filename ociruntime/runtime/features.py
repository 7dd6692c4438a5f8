"""The Features Structure (runtime-spec features.md, features-linux.md).

Engines decide by it: containerd refuses user namespaces without ``mountExtensions.idmap``,
docker asks for ``rro``.  So each list comes from the table that the code itself works with,
and what no code honours is said to be off.  ``null`` would mean "unknown": nothing is null.
Only ``seccomp.supportedFlags`` asks the kernel; everything else is fixed when the package
is built.
"""

from __future__ import annotations

from ociruntime.errors import ConfigError
from ociruntime.linux import (
    CAPABILITIES,
    MEMORY_POLICIES,
    MEMORY_POLICY_FLAGS,
    NAMESPACES,
    SECCOMP_ACTIONS,
    SECCOMP_FILTER_FLAGS,
)
from ociruntime.plan.mount_options import option_names
from ociruntime.spec.state import SPEC_VERSION

# From runtime-spec 1.0.0 on every version has been a superset of the one before.
OLDEST_SPEC_VERSION = "1.0.0"

HOOKS = (
    "prestart",
    "createRuntime",
    "createContainer",
    "startContainer",
    "poststart",
    "poststop",
)

# Tokens of the tables that the code refuses for now.
_REFUSED_ACTIONS = ("SCMP_ACT_NOTIFY",)


def features() -> dict[str, object]:
    """The structure, its keys in the order of the specification."""
    seccomp = _seccomp()
    return {
        "ociVersionMin": OLDEST_SPEC_VERSION,
        "ociVersionMax": SPEC_VERSION,
        "hooks": list(HOOKS),
        "mountOptions": option_names(),
        "linux": {
            "namespaces": sorted(NAMESPACES),
            "capabilities": list(CAPABILITIES),
            "cgroup": {
                "v1": True,
                "v2": True,
                "systemd": False,
                "systemdUser": False,
                "rdma": True,
            },
            "seccomp": seccomp,
            "apparmor": {"enabled": True},
            "selinux": {"enabled": True},
            "intelRdt": {"enabled": False, "schemata": False, "monitoring": False},
            "memoryPolicy": {
                "modes": sorted(MEMORY_POLICIES),
                "flags": sorted(MEMORY_POLICY_FLAGS),
            },
            "mountExtensions": {"idmap": {"enabled": False}},
            "netDevices": {"enabled": False},
        },
        "annotations": _annotations(enabled=seccomp["enabled"] is True),
        "potentiallyUnsafeConfigAnnotations": [],
    }


def _seccomp() -> dict[str, object]:
    from ociruntime.host.seccomp import ARCHITECTURES, OPERATORS

    try:
        supported = [name for name in SECCOMP_FILTER_FLAGS if _is_supported(name)]
    except ImportError:
        # The extension module is left out where libseccomp does not exist.
        return {
            "enabled": False,
            "actions": [],
            "operators": [],
            "archs": [],
            "knownFlags": [],
            "supportedFlags": [],
        }
    return {
        "enabled": True,
        "actions": sorted(set(SECCOMP_ACTIONS).difference(_REFUSED_ACTIONS)),
        "operators": sorted(OPERATORS),
        "archs": sorted(ARCHITECTURES),
        "knownFlags": sorted(SECCOMP_FILTER_FLAGS),
        "supportedFlags": sorted(supported),
    }


def _is_supported(flag: str) -> bool:
    from ociruntime.host.seccomp import filter_flags

    try:
        filter_flags([flag])
    except ConfigError:
        return False
    return True


def _annotations(*, enabled: bool) -> dict[str, str]:
    # The name that podman and cri-o ask for, whichever runtime answers.
    annotations = {"org.opencontainers.runc.checkpoint.enabled": "false"}
    if enabled:
        from ociruntime.host.seccomp import library_version

        annotations["io.github.seccomp.libseccomp.version"] = library_version()
    return annotations
