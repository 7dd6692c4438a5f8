"""Seccomp filters, from one rule to the profile of an ordinary engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundle import Bundle
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer, Probe
from tests.support.runtime import Runtime

PROFILE = Path(__file__).resolve().parent.parent / "data" / "seccomp_profile.json"
EPERM = 1
ENOSPC = 28


def with_filter(bundle: Bundle, *rules: dict[str, Any], **more: Any) -> Bundle:  # noqa: ANN401
    """Return a filter that allows everything except the rules."""
    bundle.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": list(rules), **more}
    return bundle


def rule(*names: str, action: str = "SCMP_ACT_ERRNO", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"names": list(names), "action": action, **more}


@pytest.mark.parametrize("no_new_privileges", [True, False])
def test_filter_is_in_force(probe: Probe, bundle: MakeBundle, no_new_privileges: bool) -> None:
    """With and without no_new_privs, which determines when it can be loaded (A-80)."""
    one = with_filter(bundle(), rule("mkdir", "mkdirat"))
    one.process["noNewPrivileges"] = no_new_privileges
    assert probe(one)["seccomp"] == 2


@pytest.mark.parametrize("uid", [0, 1000])
def test_refused_call(container: MakeContainer, bundle: MakeBundle, uid: int) -> None:
    one = with_filter(bundle().shell("mkdir /tmp/new"), rule("mkdir", "mkdirat"))
    one.process["user"] = {"uid": uid, "gid": uid}
    result = container(one).run()
    assert result.status == 1
    assert "not permitted" in result.err


def test_error_number(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().shell("mkdir /tmp/new")
    with_filter(one, rule("mkdir", "mkdirat", errnoRet=ENOSPC))
    assert "No space left" in container(one).run().err


def test_argument_is_compared(container: MakeContainer, bundle: MakeBundle) -> None:
    """kill(2) with signal 12 is refused, with 10 it is not."""
    condition = {"index": 1, "value": 12, "op": "SCMP_CMP_EQ"}
    one = bundle().shell("trap 'echo got' USR1; kill -10 $$; kill -12 $$ || echo refused")
    with_filter(one, rule("kill", args=[condition]))
    assert container(one).run().ok().out == "got\nrefused\n"


def test_killing_action(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().shell("mkdir /tmp/new; echo still here")
    with_filter(one, rule("mkdir", "mkdirat", action="SCMP_ACT_KILL_PROCESS"))
    result = container(one).run()
    assert "still here" in result.out
    assert not (one.rootfs / "tmp" / "new").exists()


def test_refusing_what_the_set_up_itself_needs(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """The filter is loaded last: mount, capset and setuid are done before."""
    names = ("mount", "umount2", "setns", "capset", "setuid", "setgroups", "mknod", "pivot_root")
    one = with_filter(bundle("echo", "runs"), rule(*names))
    one.process["user"] = {"uid": 1000, "gid": 1000}
    assert container(one).run().ok().out == "runs\n"


def test_profile_of_an_engine(container: MakeContainer, bundle: MakeBundle) -> None:
    """A complete default profile: ordinary programs work, mount and unshare fail."""
    one = bundle()
    one.linux["seccomp"] = json.loads(PROFILE.read_text())
    one.shell("ls / >/dev/null && sleep 0.01 && echo works; unshare -m true || echo refused")
    one.capabilities("CAP_CHOWN")
    assert container(one).run().ok().out == "works\nrefused\n"


def test_unknown_call_is_ignored(container: MakeContainer, bundle: MakeBundle) -> None:
    """A-73: profiles contain calls of newer kernels."""
    one = with_filter(bundle("echo", "runs"), rule("call_of_the_future"))
    assert container(one).run().ok().out == "runs\n"


@pytest.mark.parametrize(
    "change",
    [
        {"defaultAction": "SCMP_ACT_BOGUS"},
        {"architectures": ["SCMP_ARCH_BOGUS"]},
        {"syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_BOGUS"}]},
        {"flags": ["SECCOMP_FILTER_FLAG_BOGUS"]},
    ],
)
@deviates(crun="takes unknown architectures")
def test_bad_filter(container: MakeContainer, bundle: MakeBundle, change: dict[str, Any]) -> None:
    one = with_filter(bundle())
    one.linux["seccomp"].update(change)
    result = container(one).create()
    result.failed()
    if container().runtime.kind == "ociruntime":
        assert "linux.seccomp." + next(iter(change)) in result.err


def test_foreign_architecture_may_be_listed(container: MakeContainer, bundle: MakeBundle) -> None:
    architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    one = with_filter(
        bundle().shell("mkdir /tmp/x"), rule("mkdir", "mkdirat"), architectures=architectures
    )
    assert container(one).run().status == 1


@pytest.mark.judge_by("ociruntime")
def test_kept_filters(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """A cached filter works like a new one; a damaged one weakens no container."""
    one = with_filter(bundle().shell("mkdir /tmp/new || exit 7"), rule("mkdir", errnoRet=ENOSPC))
    box = container(one)
    box.runtime = Runtime(box.runtime.path, work / "root")
    assert [box.run().status for _ in range(2)] == [7, 7]
    (kept,) = (work / "root" / ".seccomp").iterdir()
    data = kept.read_bytes()
    for damage in (b"", data[:-8], data[:-1] + b"?"):
        kept.write_bytes(damage)
        assert box.run().status == 7
        assert kept.read_bytes() == data
    assert box.runtime("list", "--quiet").ok().out == ""


@pytest.mark.judge_by("ociruntime")
def test_plan_keeps_nothing(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    one = with_filter(bundle(), rule("mkdir")).save()
    box = container(one)
    (work / "root").mkdir(mode=0o700)
    runtime = Runtime(box.runtime.path, work / "root")
    runtime("plan", "--bundle", str(one.path)).ok()
    assert list((work / "root").iterdir()) == []
