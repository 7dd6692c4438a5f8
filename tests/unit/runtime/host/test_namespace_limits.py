"""The causes of a refused user namespace, and how they are distinguished."""

from __future__ import annotations

import errno

import pytest

from ociruntime.runtime.host.namespaces import CHROOT, DEPTH, FILTER, NONE_ALLOWED, obstacle

USER = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nSeccomp:\t0\n"
ROOT = "Name:\tx\nUid:\t0\t0\t0\t0\nSeccomp:\t0\n"
PLAIN = {
    "self/status": USER,
    "self/uid_map": "0 0 4294967295\n",
    "self/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n",
}


def found(error: int, **files: str) -> str:
    known = {**PLAIN, **{name.replace("__", "/"): text for name, text in files.items()}}
    return obstacle(error, lambda name: known.get(name, ""))


def test_no_cause_to_be_seen() -> None:
    assert found(errno.EPERM) == ""
    assert found(errno.EINVAL, self__mountinfo="") == ""


def test_switches() -> None:
    assert "kernel.unprivileged_userns_clone=1" in found(
        errno.EPERM, sys__kernel__unprivileged_userns_clone="0\n"
    )
    assert found(errno.EPERM, sys__kernel__unprivileged_userns_clone="1\n") == ""
    name = "sys__kernel__apparmor_restrict_unprivileged_userns"
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in found(errno.EPERM, **{name: "1\n"})
    assert found(errno.EPERM, **{name: "0\n"}) == ""


def test_switches_do_not_hold_root() -> None:
    assert found(errno.EPERM, sys__kernel__unprivileged_userns_clone="0", self__status=ROOT) == ""
    nested = found(
        errno.EPERM,
        sys__kernel__unprivileged_userns_clone="0",
        self__status=ROOT,
        self__uid_map="0 1000 1\n",
    )
    assert "unprivileged_userns_clone" in nested


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EUSERS])
def test_limits(error: int) -> None:
    assert found(error, sys__user__max_user_namespaces="0\n") == NONE_ALLOWED
    assert found(error, sys__user__max_user_namespaces="100\n") == DEPTH


def test_chroot() -> None:
    assert found(errno.EPERM, self__mountinfo="30 27 0:1 / /proc rw - proc proc rw\n") == CHROOT


def test_filter_around() -> None:
    assert found(errno.EPERM, self__status=USER.replace("Seccomp:\t0", "Seccomp:\t2")) == FILTER
