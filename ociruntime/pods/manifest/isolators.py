"""Isolators, appc's form of limits and privileges: create them from options, check, read them.

An isolator is ``{"name": ..., "value": ...}``.  Memory is stored as a string of bytes
(``"134217728"``), CPU as a string of thousandths (``"750m"``).
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import PodError, UsageError
from ociruntime.commandline.parser import Arguments

Isolator = dict[str, Any]


MEMORY = "resource/memory"
CPU = "resource/cpu"
CPU_SHARES = "os/linux/cpu-shares"
PIDS = "resource/pids"
OOM_SCORE_ADJ = "os/linux/oom-score-adj"
RETAIN_CAPS = "os/linux/capabilities-retain-set"
REMOVE_CAPS = "os/linux/capabilities-remove-set"
RETAIN_SECCOMP = "os/linux/seccomp-retain-set"
REMOVE_SECCOMP = "os/linux/seccomp-remove-set"
NO_NEW_PRIVILEGES = "os/linux/no-new-privileges"

KNOWN = frozenset(
    (
        MEMORY,
        CPU,
        CPU_SHARES,
        PIDS,
        OOM_SCORE_ADJ,
        RETAIN_CAPS,
        REMOVE_CAPS,
        RETAIN_SECCOMP,
        REMOVE_SECCOMP,
        NO_NEW_PRIVILEGES,
    )
)
OF_PODS = (MEMORY, CPU, CPU_SHARES, PIDS)
# Isolators of a pair exclude each other.
EXCLUSIVE = ((RETAIN_CAPS, REMOVE_CAPS), (RETAIN_SECCOMP, REMOVE_SECCOMP))

# An example value of each, for error messages.
_FORMS = {
    MEMORY: '{"limit": "64M"}',
    CPU: '{"limit": "500m"}',
    CPU_SHARES: "512",
    PIDS: '{"limit": "100"}',
    OOM_SCORE_ADJ: "100",
    RETAIN_CAPS: '{"set": ["CAP_KILL"]}',
    REMOVE_CAPS: '{"set": ["CAP_KILL"]}',
    RETAIN_SECCOMP: '{"set": ["read", "write"]}',
    REMOVE_SECCOMP: '{"set": ["mkdir"]}',
    NO_NEW_PRIVILEGES: "true",
}
_LEAST_MEMORY = 4096
_SHARES = (2, 262144)
_PIDS = (1, 1 << 22)
_UNITS = "kmgtp"


def limits_from(values: Arguments) -> list[Isolator]:
    """Return isolators for --memory, --cpu, --cpu-shares and --pids.  Raises UsageError."""
    made: list[Isolator] = []
    if values.has("memory"):
        made.append({"name": MEMORY, "value": {"limit": str(size_option(values, "memory"))}})
    if values.has("cpu"):
        milli = milli_cpus(values.text("cpu"), "--cpu")
        made.append({"name": CPU, "value": {"limit": f"{milli}m"}})
    if values.has("cpu-shares"):
        made.append({"name": CPU_SHARES, "value": _number(values, "cpu-shares", *_SHARES)})
    if values.has("pids"):
        made.append({"name": PIDS, "value": {"limit": str(_number(values, "pids", *_PIDS))}})
    return made


def from_options(values: Arguments) -> list[Isolator]:
    """Return isolators for all options of an app.  Raises UsageError."""
    made = limits_from(values)
    if values.has("oom-score-adj"):
        made.append({"name": OOM_SCORE_ADJ, "value": _number(values, "oom-score-adj", -1000, 1000)})
    made += _capability_options(values)
    if values.has("seccomp"):
        made.append(_seccomp_option(values.text("seccomp")))
    if values.flag("no-new-privileges"):
        made.append({"name": NO_NEW_PRIVILEGES, "value": True})
    return made


def _capability_options(values: Arguments) -> list[Isolator]:
    if values.has("caps-retain") and values.has("caps-remove"):
        raise UsageError("--caps-retain and --caps-remove are mutually exclusive")
    made = []
    for option, name in (("caps-retain", RETAIN_CAPS), ("caps-remove", REMOVE_CAPS)):
        if values.has(option):
            words = [word for text in values.list(option) for word in text.split(",") if word]
            made.append({"name": name, "value": {"set": [capability(word) for word in words]}})
    return made


def capability(word: str) -> str:
    """Normalise ``net_raw`` or ``CAP_NET_RAW`` to ``CAP_NET_RAW``.  Raises UsageError."""
    from ociruntime.base.linux import CAPABILITIES

    name = word.upper() if word.upper().startswith("CAP_") else f"CAP_{word.upper()}"
    if name not in CAPABILITIES:
        raise UsageError(f'unknown capability "{word}"', "for example CAP_NET_RAW")
    return name


def _seccomp_option(text: str) -> Isolator:
    """Parse ``mode=retain|remove[,errno=NAME],SYSCALL|@SET,...``."""
    form = "mode=retain|remove[,errno=EPERM],NAME,..."
    mode, errno = "", ""
    names: list[str] = []
    for word in text.split(","):
        key, equals, value = word.partition("=")
        if not equals:
            names.append(word)
        elif key == "mode" and value in ("retain", "remove") and not mode:
            mode = value
        elif key == "errno" and not errno:
            errno = value
        else:
            raise UsageError(f'--seccomp {text}: invalid part "{word}"', form)
    if not mode or not all(names) or not names:
        raise UsageError(f"--seccomp {text}: requires a mode and names of system calls", form)
    value_: dict[str, Any] = {"set": names}
    if errno:
        import errno as numbers

        if not hasattr(numbers, errno):
            raise UsageError(
                f'--seccomp {text}: unknown errno "{errno}"', "for example EPERM, ENOSYS"
            )
        value_["errno"] = errno
    return {"name": RETAIN_SECCOMP if mode == "retain" else REMOVE_SECCOMP, "value": value_}


def value_of(isolators: list[Isolator], name: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of the last isolator ``name``, None if there is none."""
    values = [isolator.get("value") for isolator in isolators if isolator.get("name") == name]
    return values[-1] if values else None


def check_pod(isolators: list[Isolator]) -> None:
    """Check the isolators of a whole pod, which can only be limits.  Raises PodError."""
    for isolator in isolators:
        if isolator["name"] not in OF_PODS:
            message = f"the isolator {isolator['name']} is not supported for pods, only for apps"
            raise PodError(message, f"supported for pods: {', '.join(OF_PODS)}")
    check(isolators, "the pod")


def check(isolators: list[Isolator], whose: str) -> None:
    """Check values and mutual exclusion; ``whose`` begins the message.  Raises PodError."""
    names = {isolator["name"] for isolator in isolators}
    for first, second in EXCLUSIVE:
        if first in names and second in names:
            raise PodError(f"{whose}: {first} and {second} are mutually exclusive")
    for isolator in isolators:
        name = isolator["name"]
        try:
            _check_value(isolator, name, isolator["value"])
        except UsageError as error:
            raise PodError(f"{whose}: {error.message}", error.hint) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            message = f"{whose}: invalid value of {name}"
            raise PodError(message, f"for example {_FORMS[name]}") from None


def _check_value(isolator: Isolator, name: str, value: Any) -> None:  # noqa: ANN401 - JSON
    """Check the value of one isolator.

    Raises UsageError if it is out of range, TypeError, KeyError or the like if it is malformed.
    """
    if value is None:
        raise TypeError
    for limit in (memory_limit, cpu_limit, cpu_shares, pids_limit):
        limit([isolator])
    if name == OOM_SCORE_ADJ:
        int(value)
    elif name in (RETAIN_CAPS, REMOVE_CAPS):
        [capability(word) for word in value["set"]]
    elif name in (RETAIN_SECCOMP, REMOVE_SECCOMP):
        "".join(value["set"])


def memory_limit(isolators: list[Isolator]) -> int | None:
    """Return the memory limit in bytes, None for no limit."""
    value = value_of(isolators, MEMORY)
    return None if value is None else byte_count(str(value["limit"]), MEMORY)


def cpu_limit(isolators: list[Isolator]) -> int | None:
    """Return the CPU limit in thousandths of a CPU, None for no limit."""
    value = value_of(isolators, CPU)
    return None if value is None else milli_cpus(str(value["limit"]), CPU)


def cpu_shares(isolators: list[Isolator]) -> int | None:
    """Return the CPU shares, where 1024 is the default weight; None if not set."""
    value = value_of(isolators, CPU_SHARES)
    return None if value is None else _within(int(value), *_SHARES, CPU_SHARES)


def pids_limit(isolators: list[Isolator]) -> int | None:
    """Return the maximum number of processes, None for no limit."""
    value = value_of(isolators, PIDS)
    return None if value is None else _within(int(value["limit"]), *_PIDS, PIDS)


def _within(number: int, least: int, most: int, what: str) -> int:
    if not least <= number <= most:
        raise UsageError(f"{what}: {number} is out of range", f"{least} to {most}")
    return number


def size_option(values: Arguments, option: str) -> int:
    """Return the value of a given ``option`` in bytes.  Raises UsageError."""
    text = values.text(option)
    size = byte_count(text, f"--{option}")
    if size < _LEAST_MEMORY:
        raise UsageError(f"--{option} {text}: too small", "4096 bytes or more")
    return size


def byte_count(text: str, what: str) -> int:
    """Parse ``512``, ``50M`` or ``1.5GiB`` (powers of 1024); return bytes.

    Raises UsageError; ``what`` (an option, an isolator) begins its message.
    """
    word = text.lower()
    number = word.rstrip("bikmgtp")
    unit = word[len(number) :]
    whole, point, fraction = number.partition(".")
    digits = whole + fraction
    known = unit in ("", "b") or (unit[0] in _UNITS and unit[1:] in ("", "b", "i", "ib"))
    if not known or not whole or not _is_decimal(digits) or (point and not fraction):
        raise UsageError(f'{what}: invalid size "{text}"', "for example 512, 50M, 1.5GiB")
    factor = 1024 ** (_UNITS.index(unit[0]) + 1) if unit and unit != "b" else 1
    size: int = int(digits) * factor // 10 ** len(fraction)
    if size >= 1 << 63:
        raise UsageError(f'{what}: size "{text}" is too large')
    return size


def milli_cpus(text: str, what: str) -> int:
    """Parse ``500m``, ``1.5`` or ``2``; return thousandths of a CPU.

    Raises UsageError; ``what`` (an option, an isolator) begins its message.
    """
    whole, _, fraction = text.partition(".")
    if text.endswith("m") and _is_decimal(text[:-1]):
        milli = int(text[:-1])
    elif _is_decimal(whole) and (not fraction or (_is_decimal(fraction) and len(fraction) < 4)):
        milli = int(whole) * 1000 + int(fraction.ljust(3, "0") or "0")
    else:
        raise UsageError(f'{what}: invalid number of CPUs "{text}"', "for example 500m, 1.5, 2")
    if not 10 <= milli <= 1000 * 4096:
        raise UsageError(f'{what}: "{text}" is out of range', "10m to 4096")
    return milli


def _number(values: Arguments, option: str, least: int, most: int) -> int:
    text = values.text(option)
    digits = text[1:] if text.startswith("-") else text
    if not _is_decimal(digits) or not least <= int(text) <= most:
        raise UsageError(f'--{option}: invalid value "{text}"', f"{least} to {most}")
    return int(text)


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
