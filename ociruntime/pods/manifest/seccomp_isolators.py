"""Convert a manifest's seccomp isolators to ``linux.seccomp`` of an OCI config.

An isolator lists system calls and sets of system calls.  The set ``@appc.io/all`` contains every
call, ``@appc.io/empty`` none; ``@docker/...`` and ``@rkt/...`` are Docker's default lists.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import PodError
from ociruntime.pods.manifest.isolators import REMOVE_SECCOMP, RETAIN_SECCOMP, value_of

Profile = dict[str, Any]


# Machine name of uname(2) -> seccomp architectures of the programs that its kernel can execute.
ARCHITECTURES = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
    "riscv64": ("SCMP_ARCH_RISCV64",),
    "ppc64le": ("SCMP_ARCH_PPC64LE",),
    "s390x": ("SCMP_ARCH_S390X", "SCMP_ARCH_S390"),
}
ALL, EMPTY = "@appc.io/all", "@appc.io/empty"
DEFAULT_ALLOWED = ("@docker/default-whitelist", "@rkt/default-whitelist")
DEFAULT_DENIED = ("@docker/default-blacklist", "@rkt/default-blacklist")
SETS = (ALL, EMPTY, *DEFAULT_ALLOWED, *DEFAULT_DENIED)
# Calls that the runtime itself makes after loading the filter, and that every program needs.
NEEDED = ("execve", "exit", "exit_group", "rt_sigreturn")


def profile(
    isolators: list[dict[str, Any]], default: Profile, machine: str, capabilities: list[str]
) -> Profile | None:
    """Return ``linux.seccomp`` of an app's OCI config, or None for no filter.

    ``isolators`` are the app's isolators, ``capabilities`` the app's capabilities.  ``machine`` is
    the field ``machine`` of uname(2).  ``default`` is the default profile.  Its members are
    ``allowed`` and ``denied`` (names of system calls), ``capabilities`` ({CAP_X: system calls
    allowed with CAP_X}) and ``rules`` (conditions on arguments, as in ``linux.seccomp.syscalls``).
    Raises PodError for an unknown set of system calls.
    """
    for name in (RETAIN_SECCOMP, REMOVE_SECCOMP):
        value = value_of(isolators, name)
        if value is not None:
            check(isolators)
            return _of_set(value, name == RETAIN_SECCOMP, default, machine)
    allowed = [*default["allowed"]]
    for name, calls in default["capabilities"].items():
        if name in capabilities:
            allowed += calls
    rules = [
        {key: value for key, value in rule.items() if key != "without"}
        for rule in default["rules"]
        if rule.get("without") not in capabilities
    ]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        **_architectures(machine),
        "syscalls": [{"names": sorted(set(allowed)), "action": "SCMP_ACT_ALLOW"}, *rules],
    }


def check(isolators: list[dict[str, Any]]) -> None:
    """Check that the seccomp isolators contain no unknown sets of system calls (``@...``).

    Raises PodError for an unknown set.
    """
    for name in (RETAIN_SECCOMP, REMOVE_SECCOMP):
        for call in (value_of(isolators, name) or {"set": ()})["set"]:
            if call.startswith("@") and call not in SETS:
                raise PodError(
                    f'seccomp: unknown set of system calls "{call}"',
                    f"supported: {', '.join(SETS)}",
                )


def _of_set(value: Any, retain: bool, default: Profile, machine: str) -> Profile | None:  # noqa: ANN401
    names: set[str] = set()
    conditional = False
    for name in value["set"]:
        if name == ALL:
            return None if retain else _deny_all(value, machine)
        if name in DEFAULT_ALLOWED:
            names.update(default["allowed"])
            conditional = True
        elif name in DEFAULT_DENIED:
            names.update(default["denied"])
        elif name != EMPTY:
            names.add(name)
    refuse, number = _deny_action(value)
    if not retain:
        if not names:
            return None
        rule = {"names": sorted(names), "action": refuse, **number}
        return {
            "defaultAction": "SCMP_ACT_ALLOW",
            **_architectures(machine),
            "syscalls": [rule],
        }
    allow = {"names": sorted({*names, *NEEDED}), "action": "SCMP_ACT_ALLOW"}
    rules = [{k: v for k, v in rule.items() if k != "without"} for rule in default["rules"]]
    return {
        "defaultAction": refuse,
        **({"defaultErrnoRet": number["errnoRet"]} if number else {}),
        **_architectures(machine),
        "syscalls": [allow, *(rules if conditional else [])],
    }


def _deny_all(value: Any, machine: str) -> Profile:  # noqa: ANN401 - JSON
    refuse, number = _deny_action(value)
    return {
        "defaultAction": refuse,
        **({"defaultErrnoRet": number["errnoRet"]} if number else {}),
        **_architectures(machine),
        "syscalls": [{"names": list(NEEDED), "action": "SCMP_ACT_ALLOW"}],
    }


def _deny_action(value: Any) -> tuple[str, dict[str, int]]:  # noqa: ANN401 - JSON
    """Return (seccomp action for denied system calls, {"errnoRet": number} or {}).

    ``value`` is the value of a seccomp isolator.  If it has the member ``errno``, denied calls fail
    with that error; otherwise the process is killed.
    """
    name = value.get("errno")
    if not name:
        return "SCMP_ACT_KILL_PROCESS", {}
    import errno

    return "SCMP_ACT_ERRNO", {"errnoRet": getattr(errno, name, errno.EPERM)}


def _architectures(machine: str) -> dict[str, list[str]]:
    architectures = ARCHITECTURES.get(machine)
    return {"architectures": list(architectures)} if architectures else {}
