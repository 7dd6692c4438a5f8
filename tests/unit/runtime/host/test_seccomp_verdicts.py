from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from ociruntime.runtime.host.seccomp import compile_filter
from ociruntime.runtime.host.seccomp_verdicts import CALLS, allowed_calls
from ociruntime.runtime.plan import seccomp_timing

if TYPE_CHECKING:
    from ociruntime.runtime.spec.config_types import Seccomp


def allowed(*rules: dict[str, Any], default: str = "SCMP_ACT_ALLOW") -> frozenset[str]:
    profile = {"defaultAction": default, "syscalls": list(rules)}
    return allowed_calls(compile_filter(cast("Seccomp", profile))[0])


def rule(*names: str, action: str = "SCMP_ACT_ERRNO", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"names": list(names), "action": action, **more}


def test_plans_ask_for_nothing_else() -> None:
    asked = (
        seccomp_timing.ALWAYS
        | seccomp_timing.WAITING
        | seccomp_timing.FORKING
        | seccomp_timing.HOOKS
    )
    assert asked | {"capset", "ioctl", "getpid", "prlimit64"} <= CALLS.keys()


def test_all_but_one() -> None:
    assert allowed(rule("capset")) == CALLS.keys() - {"capset"}
    assert allowed(rule("mkdir")) == CALLS.keys()


@pytest.mark.parametrize("action", ["KILL", "KILL_PROCESS", "TRAP", "TRACE", "NOTIFY", "ERRNO"])
def test_what_does_not_let_through(action: str) -> None:
    assert "capset" not in allowed(rule("capset", action=f"SCMP_ACT_{action}"))


def test_log_lets_through() -> None:
    assert "capset" in allowed(rule("capset", action="SCMP_ACT_LOG"))


def test_list_of_what_is_allowed() -> None:
    names = ("capset", "sendmsg", *(f"call{index}" for index in range(20)))
    found = allowed(rule(*names, action="SCMP_ACT_ALLOW"), default="SCMP_ACT_ERRNO")
    assert found == {"capset", "sendmsg"}


def condition(index: int, value: int, operator: str, second: int = 0) -> dict[str, Any]:
    return {"index": index, "value": value, "valueTwo": second, "op": f"SCMP_CMP_{operator}"}


@pytest.mark.parametrize(
    ("args", "names"),
    [
        # The profile of engines: no new namespaces.
        ([condition(0, 0x7E020000, "MASKED_EQ", 0)], {"clone", "fork"}),
        ([condition(0, 0x8000, "MASKED_EQ", 0x8000)], {"clone"}),
        ([condition(0, 17, "EQ")], {"fork"}),
        ([condition(0, 1 << 40, "LT")], {"clone", "fork"}),
        ([condition(0, 1 << 40, "GE")], set()),
        # Not known beforehand: nothing to rely on.
        ([condition(0, 17, "EQ"), condition(1, 0, "EQ")], set()),
    ],
)
def test_conditions(args: list[dict[str, Any]], names: set[str]) -> None:
    only = rule("clone", action="SCMP_ACT_ALLOW", args=args)
    assert allowed(only, default="SCMP_ACT_ERRNO") == names


def test_condition_on_what_is_not_known() -> None:
    """Refused for some descriptors is refused."""
    assert "close" not in allowed(rule("close", args=[condition(0, 7, "EQ")]))


def test_program_that_it_does_not_understand() -> None:
    """A load of the instruction pointer's kind is fine, arithmetic is not."""
    multiply = (0x24).to_bytes(2, "little") + bytes(6)
    returns = (0x06).to_bytes(2, "little") + bytes(2) + (0x7FFF0000).to_bytes(4, "little")
    assert allowed_calls(returns) == CALLS.keys()
    assert allowed_calls(multiply + returns) == frozenset()
