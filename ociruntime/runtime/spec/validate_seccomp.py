"""Rules of linux.seccomp."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.document import Seccomp

# An action with a number of its own -> the largest that the kernel passes on.
_NUMBERED = {"SCMP_ACT_ERRNO": 4095, "SCMP_ACT_TRACE": 65535}


def validate_seccomp(seccomp: Seccomp) -> None:
    """Check the rules; raises ConfigError."""
    where = "linux.seccomp"
    default = seccomp["defaultAction"]
    if "defaultErrnoRet" in seccomp:  # LNX-SECC-02
        _number(f"{where}.defaultErrnoRet", default, seccomp["defaultErrnoRet"])
    notified = f"{where}.defaultAction" if default == "SCMP_ACT_NOTIFY" else ""
    for index, rule in enumerate(seccomp.get("syscalls", [])):
        action = rule["action"]
        if "errnoRet" in rule:  # LNX-SECC-08
            _number(f"{where}.syscalls[{index}].errnoRet", action, rule["errnoRet"])
        if action == "SCMP_ACT_NOTIFY" and not notified:
            notified = f"{where}.syscalls[{index}].action"
    path = seccomp.get("listenerPath", "")
    if notified and not path:
        raise ConfigError(f"{where}.listenerPath", "is missing", f"{notified} is SCMP_ACT_NOTIFY")
    if notified and not path.startswith("/"):
        raise ConfigError(f"{where}.listenerPath", f'must be an absolute path, got "{path}"')
    if seccomp.get("listenerMetadata") and not path:  # LNX-SECN-08
        raise ConfigError(f"{where}.listenerMetadata", "goes only with listenerPath")


def _number(where: str, action: str, number: int) -> None:
    largest = _NUMBERED.get(action)
    if largest is None:
        raise ConfigError(where, f"{action} takes no number", f"only {' and '.join(_NUMBERED)} do")
    if number > largest:
        raise ConfigError(where, f"must be from 0 to {largest}, got {number}")
