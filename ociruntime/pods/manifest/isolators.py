"""Check and read isolators: the limits and privileges of apps and pods in a pod's manifest.

As in the appc specification, an isolator is ``{"name": ..., "value": ...}``.  Memory limits are in
bytes (``"134217728"``), CPU limits in thousandths of a CPU (``"750m"``); both are strings.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, PodError, UsageError
from ociruntime.commandline.sizes import milli_cpus, parse_size
from ociruntime.pods.manifest import kernel_settings

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
SYSCTL = "os/linux/sysctl"
# Isolators of our own, which the appc specification lacks.
ULIMITS = "ociruntime/ulimits"  # {"set": [{"name", "soft", "hard"}]}
MEMORY_SWAP = "ociruntime/memory-swap"  # {"limit": bytes of memory and swap, "-1" without limit}
MEMORY_RESERVATION = "ociruntime/memory-reservation"
CPU_QUOTA = "ociruntime/cpu-quota"  # {"quota", "period"} in microseconds, either optional
CPUSET_CPUS = "ociruntime/cpuset-cpus"
CPUSET_MEMS = "ociruntime/cpuset-mems"
PRIVILEGED = "ociruntime/privileged"

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
        SYSCTL,
        ULIMITS,
        MEMORY_SWAP,
        MEMORY_RESERVATION,
        CPU_QUOTA,
        CPUSET_CPUS,
        CPUSET_MEMS,
        PRIVILEGED,
    )
)
# Isolators that can be changed while the app runs (``ocictl update``).
LIMITS = (
    *(MEMORY, MEMORY_SWAP, MEMORY_RESERVATION, CPU, CPU_QUOTA, CPU_SHARES, CPUSET_CPUS),
    *(CPUSET_MEMS, PIDS),
)
OF_PODS = (MEMORY, CPU, CPU_SHARES, PIDS, SYSCTL)
# Pairs of isolators that are mutually exclusive.
EXCLUSIVE = (
    (RETAIN_CAPS, REMOVE_CAPS),
    (RETAIN_SECCOMP, REMOVE_SECCOMP),
    (CPU, CPU_QUOTA),
)

# An example value of each isolator, for error messages.
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
    SYSCTL: '{"net.core.somaxconn": "1024"}',
    ULIMITS: '{"set": [{"name": "nofile", "soft": 1024, "hard": 2048}]}',
    MEMORY_SWAP: '{"limit": "128M"}',
    MEMORY_RESERVATION: '{"limit": "64M"}',
    CPU_QUOTA: '{"quota": 50000, "period": 100000}',
    CPUSET_CPUS: '"0-2,7"',
    CPUSET_MEMS: '"0"',
    PRIVILEGED: "true",
}
LEAST_MEMORY = 4096
SHARES_RANGE = (2, 262144)
PIDS_RANGE = (1, 1 << 22)
QUOTA_RANGE = (1000, 1 << 40)  # microseconds
PERIOD_RANGE = (1000, 1_000_000)


def capability(word: str) -> str:
    """Return the full name of the capability ``word``: CAP_NET_RAW for ``net_raw``.

    Raises UsageError for an unknown capability.
    """
    from ociruntime.base.capabilities import CAPABILITIES

    name = word.upper() if word.upper().startswith("CAP_") else f"CAP_{word.upper()}"
    if name not in CAPABILITIES:
        raise UsageError(f'unknown capability "{word}"', "use a name such as CAP_NET_RAW")
    return name


def value_of(isolators: list[Isolator], name: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of the last isolator with the name ``name``; None if there is none."""
    values = [isolator.get("value") for isolator in isolators if isolator.get("name") == name]
    return values[-1] if values else None


def check_pod(isolators: list[Isolator]) -> None:
    """Check the isolators of a whole pod: only limits and kernel parameters are supported.

    Raises PodError for any other isolator, or for an invalid value.
    """
    for isolator in isolators:
        if isolator["name"] not in OF_PODS:
            raise PodError(
                f'the pod: the isolator "{isolator["name"]}" is supported for apps only',
                f"supported for pods: {', '.join(OF_PODS)}",
            )
    check(isolators, "the pod")


def check_sysctls(manifest: dict[str, Any], settings: dict[str, Any]) -> None:
    """Check that none of a pod's kernel parameters (sysctls) would change the host.

    A kernel parameter changes the host if the pod shares the parameter's namespace with the host.
    Raises UsageError for such a parameter.  ``settings`` is the pod's runtime-config, which shows
    which namespaces are shared.
    """
    shared = {}
    if any(name == "host" for name, _ in settings["net"]):
        shared["network"] = "--net=host"
    if settings["ipc"] == "parent":
        shared["ipc"] = "--ipc=parent"
    kernel_settings.check_owned(sysctls(manifest["isolators"]), shared, "--sysctl")


def check_app(isolators: list[Isolator], owner: str) -> None:
    """Check that an app's isolators have valid values and are supported for apps.

    If not, raises PodError.  Its message begins with ``owner``, such as 'app "web"'.
    """
    if any(isolator["name"] == SYSCTL for isolator in isolators):
        raise PodError(f'{owner}: the isolator "{SYSCTL}" is supported for pods only')
    check(isolators, owner)


def check(isolators: list[Isolator], owner: str) -> None:
    """Check that ``isolators`` have valid values, and that no two of them are mutually exclusive.

    If not, raises PodError.  Its message begins with ``owner``, such as 'app "web"' or "the pod".
    """
    names = {isolator["name"] for isolator in isolators}
    for first, second in EXCLUSIVE:
        if first in names and second in names:
            raise PodError(f"{owner}: {first} and {second} are mutually exclusive")
    for isolator in isolators:
        name = isolator["name"]
        try:
            _check_value(isolator, name, isolator["value"])
        except (UsageError, BadRequest) as error:
            raise PodError(f"{owner}: {error.message}", error.hint) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise PodError(
                f'{owner}: invalid value of the isolator "{name}"', f"for example {_FORMS[name]}"
            ) from None


def _check_value(isolator: Isolator, name: str, value: Any) -> None:  # noqa: ANN401 - JSON
    """Check that ``value`` is valid for the isolator ``name``.

    Raises UsageError or BadRequest if the value is out of range; TypeError, KeyError, ValueError,
    AttributeError or OverflowError if it is malformed.
    """
    if value is None:
        raise TypeError
    for limit in (memory_limit, memory_reservation, cpu_limit, cpu_quota, cpu_shares, pids_limit):
        limit([isolator])
    if name == MEMORY_SWAP:
        memory_swap([isolator])
    elif name in (CPUSET_CPUS, CPUSET_MEMS):
        if not isinstance(value, str):
            raise TypeError
        kernel_settings.check_cpu_list(name, value)
    elif name == OOM_SCORE_ADJ:
        int(value)
    elif name in (RETAIN_CAPS, REMOVE_CAPS):
        [capability(word) for word in value["set"]]
    elif name in (RETAIN_SECCOMP, REMOVE_SECCOMP):
        "".join(value["set"])
    elif name == PRIVILEGED and value is not True:
        raise TypeError
    elif name == SYSCTL:
        kernel_settings.check_sysctls(SYSCTL, value)
    elif name == ULIMITS:
        checks.list_of(kernel_settings.check_ulimit)(ULIMITS, value["set"])


def memory_limit(isolators: list[Isolator]) -> int | None:
    """Return the memory limit in ``isolators`` in bytes; None without a limit."""
    value = value_of(isolators, MEMORY)
    return None if value is None else byte_count(str(value["limit"]), MEMORY)


def memory_reservation(isolators: list[Isolator]) -> int | None:
    """Return the memory reservation (soft limit) in ``isolators`` in bytes; None if not set.

    When the host is short of memory, the kernel first reclaims memory above this limit.
    """
    value = value_of(isolators, MEMORY_RESERVATION)
    return None if value is None else byte_count(str(value["limit"]), MEMORY_RESERVATION)


def memory_swap(isolators: list[Isolator]) -> int | None:
    """Return the limit of memory plus swap in bytes: -1 if unlimited, None if not set."""
    value = value_of(isolators, MEMORY_SWAP)
    if value is None:
        return None
    text = str(value["limit"])
    return -1 if text == "-1" else byte_count(text, MEMORY_SWAP)


def cpu_quota(isolators: list[Isolator]) -> dict[str, int]:
    """Return the CPU quota as ``{"quota", "period"}`` in microseconds, without unset members.

    Raises UsageError for a number out of range, KeyError if the isolator contains neither member.
    """
    value = value_of(isolators, CPU_QUOTA)
    if value is None:
        return {}
    ranges = {"quota": QUOTA_RANGE, "period": PERIOD_RANGE}
    times = {name: int(value[name]) for name in ranges if name in value}
    for name, number in times.items():
        _within(number, *ranges[name], f"{CPU_QUOTA}: {name}")
    if not times:
        raise KeyError(CPU_QUOTA)
    return times


def cpu_limit(isolators: list[Isolator]) -> int | None:
    """Return the CPU limit in thousandths of a CPU; None without a limit."""
    value = value_of(isolators, CPU)
    return None if value is None else milli_cpus(str(value["limit"]), CPU)


def cpu_shares(isolators: list[Isolator]) -> int | None:
    """Return the CPU shares, where 1024 is the default weight; None if not set."""
    value = value_of(isolators, CPU_SHARES)
    return None if value is None else _within(int(value), *SHARES_RANGE, CPU_SHARES)


def pids_limit(isolators: list[Isolator]) -> int | None:
    """Return the maximum number of processes; None without a limit."""
    value = value_of(isolators, PIDS)
    return None if value is None else _within(int(value["limit"]), *PIDS_RANGE, PIDS)


def sysctls(isolators: list[Isolator]) -> dict[str, str]:
    """Return a pod's kernel parameters (sysctls) as {name: value}; {} if none is set."""
    return value_of(isolators, SYSCTL) or {}


def _within(number: int, least: int, most: int, where: str) -> int:
    if not least <= number <= most:
        raise UsageError(f"{where}: {number} is out of range", f"must be {least} to {most}")
    return number


def byte_count(text: str, where: str) -> int:
    """Convert ``text``, a size such as 50M or 1.5GiB, to bytes.

    ``where`` is the name of the option or isolator, for error messages.  Raises UsageError if
    ``text`` is invalid.
    """
    try:
        return parse_size(text)
    except ValueError:
        hint = "for example 512, 50M, 1.5GiB"
        raise UsageError(f'{where}: invalid size "{text}"', hint) from None
