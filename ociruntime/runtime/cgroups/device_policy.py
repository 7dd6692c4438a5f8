"""The device policy (which devices a container may use or create), and its translation to v1.

The rules apply in this order (config-linux.md, allowed device list); a later one overrides an
earlier one:

1. Nothing is allowed.  The policy always begins that way, even if config.json has no rules:
   otherwise a list of ``allow`` rules would restrict nothing.
2. The devices that the specification promises to every container are allowed, and so is mknod(2)
   of any device, because a device node alone gives no access to the device.
3. The rules of config.json follow.  A rule for all devices starts over: ``allow`` allows
   everything, and ``deny`` goes back to 1 and 2.  Thus /dev/null remains usable after the "deny
   all" at the beginning of an engine's rules.  A ``deny`` of a particular device overrides 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import DEFAULT_DEVICES

Devices: TypeAlias = tuple[str, int, int]  # kind, major and minor

MKNOD, READ, WRITE = 1, 2, 4  # BPF_DEVCG_ACC_*
EVERY_ACCESS = MKNOD | READ | WRITE
_LETTERS = (("r", READ), ("w", WRITE), ("m", MKNOD))
ANY = -1
_LARGEST_MAJOR = (1 << 12) - 1  # the kernel's dev_t: 12 + 20 bits
_LARGEST_MINOR = (1 << 20) - 1


class DeviceRule:
    """A device rule: allow or deny access to character or block devices.

    ``kind`` is ``c`` or ``b``; ``major`` and ``minor`` may be ANY; ``access`` is a mask of
    MKNOD, READ and WRITE; ``where`` is the rule's JSON path, "" for a built-in rule.
    """

    __slots__ = ("access", "allow", "kind", "major", "minor", "where")

    def __init__(
        self, allow: bool, kind: str, major: int, minor: int, access: int, where: str = ""
    ) -> None:
        self.allow = allow
        self.kind = kind
        self.major = major
        self.minor = minor
        self.access = access
        self.where = where

    def covers(self, other: DeviceRule) -> bool:
        """Return whether this rule matches every device that the rule ``other`` matches."""
        return (
            self.kind == other.kind
            and self.major in (ANY, other.major)
            and self.minor in (ANY, other.minor)
        )

    def meets(self, other: DeviceRule) -> bool:
        """Return whether at least one device matches both this rule and the rule ``other``."""
        return (
            self.kind == other.kind
            and (ANY in (self.major, other.major) or self.major == other.major)
            and (ANY in (self.minor, other.minor) or self.minor == other.minor)
        )

    def line(self) -> str:
        """Return the rule as a line for devices.allow or devices.deny, such as ``c 136:* rwm``."""
        major = "*" if self.major == ANY else str(self.major)
        minor = "*" if self.minor == ANY else str(self.minor)
        letters = "".join(letter for letter, bit in _LETTERS if self.access & bit)
        return f"{self.kind} {major}:{minor} {letters}"


class DevicePolicy:
    """A list of device rules: the last matching rule decides whether an access is allowed.

    If no rule matches, ``allow_rest`` decides.
    """

    __slots__ = ("allow_rest", "rules")

    def __init__(self, allow_rest: bool, rules: list[DeviceRule]) -> None:
        self.allow_rest = allow_rest
        self.rules = rules


_DEFAULT_RULES: tuple[tuple[str, int, int, int], ...] = (
    ("c", ANY, ANY, MKNOD),
    ("b", ANY, ANY, MKNOD),
    *(("c", major, minor, EVERY_ACCESS) for major, minor in DEFAULT_DEVICES.values()),
    # Not 5:1, the system's console: a container's own /dev/console is a terminal of devpts.
    ("c", 5, 2, EVERY_ACCESS),  # ptmx
    ("c", 136, ANY, EVERY_ACCESS),  # pts/*
)


def default_rules() -> list[DeviceRule]:
    """Return the built-in rules: allow the default devices, ptys, and mknod(2) of any device."""
    return [DeviceRule(True, *fields) for fields in _DEFAULT_RULES]


def policy(entries: Sequence[dict[str, Any]], where: str) -> DevicePolicy:
    """Return the device policy for ``entries``, the rules in ``linux.resources.devices``.

    ``where`` is the JSON path of the rules.  Raises ConfigError for an invalid rule.
    """
    result = DevicePolicy(False, default_rules())
    for index, entry in enumerate(entries):
        path = f"{where}[{index}]"
        kind = entry.get("type", "a")
        if kind not in ("a", "b", "c"):
            raise ConfigError(
                f"{path}.type",
                f'"{kind}" is not a device type',
                "use a (all), b (block) or c (char)",
            )
        if "allow" not in entry:
            raise ConfigError(f"{path}.allow", "is required (true or false)")
        allow = entry["allow"]
        access = _access(entry.get("access", "rwm"), f"{path}.access")
        major = _number(entry.get("major"), _LARGEST_MAJOR, f"{path}.major")
        minor = _number(entry.get("minor"), _LARGEST_MINOR, f"{path}.minor")
        if kind == "a" and major == minor == ANY and access == EVERY_ACCESS:
            result = DevicePolicy(allow, [] if allow else default_rules())
            continue
        if allow and ANY not in (major, minor):
            access |= MKNOD  # docker denies fuse first; --device may then allow r only
        for each in "cb" if kind == "a" else kind:
            result.rules.append(DeviceRule(allow, each, major, minor, access, path))
    return result


def _access(letters: str, where: str) -> int:
    mask = 0
    for letter in letters:
        for known, bit in _LETTERS:
            if letter == known:
                mask |= bit
                break
        else:
            raise ConfigError(
                where,
                f'"{letters}" is not a valid device access',
                "use the letters r (read), w (write) and m (mknod)",
            )
    return mask or EVERY_ACCESS


def _number(value: int | None, largest: int, where: str) -> int:
    if value is None or value == ANY:
        return ANY
    if not 0 <= value <= largest:
        raise ConfigError(where, f"device number {value} is out of range (0 to {largest})")
    return value


def lines_v1(device_policy: DevicePolicy) -> list[tuple[str, str, str]]:
    """Convert a policy to a list of cgroup v1 commands: (control file, line, the rule's JSON path).

    On v1, the kernel keeps a default verdict and an unordered set of exceptions to it.  The first
    command sets the default and clears the exceptions; each of the others adds an exception.

    A later rule may override an exception for only some of its devices.  v1 cannot express that.
    An exception from a built-in rule is then dropped; for any other, raises ConfigError.
    """
    by_device: dict[Devices, DeviceRule] = {}
    for rule in device_policy.rules:
        if rule.allow != device_policy.allow_rest:
            _add(by_device, rule)
        else:
            by_device = _subtract(by_device, rule)
    exceptions = list(by_device.values())
    # The exceptions name different devices: only a wildcard can cover others.
    wildcards = [rule for rule in exceptions if ANY in (rule.major, rule.minor)]
    # The kernel looks for one exception that covers the whole access: "c *:* r" and
    # "c 1:3 w" together would not allow opening 1:3 for both.
    for narrow in exceptions:
        for wide in wildcards:
            if wide.covers(narrow):
                narrow.access |= wide.access
    reset_file, exception_file = (
        ("allow", "deny") if device_policy.allow_rest else ("deny", "allow")
    )
    lines = [(f"devices.{reset_file}", "a", "")]
    lines += [
        (f"devices.{exception_file}", exception.line(), exception.where) for exception in exceptions
    ]
    return lines


def _add(exceptions: dict[Devices, DeviceRule], rule: DeviceRule) -> None:
    devices = (rule.kind, rule.major, rule.minor)
    present = exceptions.get(devices)
    if present is not None:
        present.access |= rule.access
        present.where = present.where or rule.where
        return
    exceptions[devices] = DeviceRule(rule.allow, *devices, rule.access, rule.where)


def _subtract(exceptions: dict[Devices, DeviceRule], rule: DeviceRule) -> dict[Devices, DeviceRule]:
    remaining = {}
    for devices, present in exceptions.items():
        if present.meets(rule) and present.access & rule.access:
            if not rule.covers(present) and present.where:
                verb, opposite = ("allow", "denies") if rule.allow else ("deny", "allows")
                raise ConfigError(
                    rule.where,
                    f"cgroup v1 cannot {verb} only some of the devices that {present.where}"
                    f" {opposite}",
                    f"make {present.where} narrower",
                )
            present.access &= ~rule.access
        if present.access:
            remaining[devices] = present
    return remaining
