"""A simple model of the meaning of device rules, and of a v1 kernel's behaviour."""

from __future__ import annotations

from hypothesis import strategies as st

from ociruntime.runtime.cgroups.device_policy import ANY, DevicePolicy, DeviceRule

Request = tuple[str, int, int, int]  # kind, major, minor, access

# So few that rules meet each other and the request often.
_numbers = st.sampled_from([0, 4095])
_numbers_or_any = st.sampled_from([ANY, 0, 4095])
_access = st.integers(min_value=1, max_value=7)

rules = st.builds(
    DeviceRule,
    st.booleans(),
    st.sampled_from("bc"),
    _numbers_or_any,
    _numbers_or_any,
    _access,
    st.just("rule"),
)
policies = st.builds(DevicePolicy, st.booleans(), st.lists(rules, max_size=12))
requests = st.tuples(st.sampled_from("bc"), _numbers, _numbers, _access)


def allowed(policy: DevicePolicy, request: Request) -> bool:
    """Check each kind of access separately: the last rule that matches it decides."""
    kind, major, minor, access = request
    for bit in (1, 2, 4):
        if not access & bit:
            continue
        verdict = policy.allow_rest
        for rule in policy.rules:
            applies = rule.kind == kind and rule.access & bit
            if applies and rule.major in (ANY, major) and rule.minor in (ANY, minor):
                verdict = rule.allow
        if not verdict:
            return False
    return True


class V1List:
    """devices.allow, devices.deny and the check of security/device_cgroup.c."""

    def __init__(self) -> None:
        self.allow_rest = True
        self.exceptions: dict[tuple[str, str, str], set[str]] = {}

    def write(self, file: str, line: str) -> None:
        allow = file == "devices.allow"
        if line == "a":
            self.allow_rest = allow
            self.exceptions = {}
            return
        kind, numbers, letters = line.split(" ")
        major, minor = numbers.split(":")
        present = self.exceptions.setdefault((kind, major, minor), set())
        if allow != self.allow_rest:
            present |= set(letters)
        else:
            present -= set(letters)

    def allows(self, request: Request) -> bool:
        kind, major, minor, access = request
        wanted = {letter for letter, bit in (("m", 1), ("r", 2), ("w", 4)) if access & bit}
        matching = [
            letters
            for (kind_, major_, minor_), letters in self.exceptions.items()
            if kind_ == kind and major_ in ("*", str(major)) and minor_ in ("*", str(minor))
        ]
        if self.allow_rest:
            return not any(wanted & letters for letters in matching)
        return any(wanted <= letters for letters in matching)
