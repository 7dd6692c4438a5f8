"""The results of the probes on fake hosts."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.runtime.check import environment_probes, kernel_probes
from ociruntime.runtime.check.finding import (
    LIMITED,
    MISSING,
    OK,
    Answer,
    Probe,
    can_run,
    run_probes,
)
from ociruntime.runtime.cli.check import TABLES, coloured, host_text, host_values, uncoloured
from tests.unit.runtime.check.made_up_host import MadeUp


def row(table: tuple[Probe, ...], name: str) -> Probe:
    return next(each for each in table if each.name == name)


def status(**lines: str) -> dict[str, str]:
    return {"/proc/self/status": "".join(f"{key}:\t{value}\n" for key, value in lines.items())}


def apparmor(label: str) -> MadeUp:
    """Return a host with two AppArmor profiles, on which ``label`` is this process's label."""
    return MadeUp(
        {
            "/sys/module/apparmor/parameters/enabled": "Y\n",
            "/proc/self/attr/apparmor/current": label,
            "/sys/kernel/security/apparmor/profiles": "a (enforce)\nb (complain)\n",
        }
    )


def selinux(enforce: str) -> MadeUp:
    return MadeUp({"/sys/fs/selinux/enforce": enforce, "/proc/self/attr/current": "a_t\0"})


WITHOUT_RESOURCE = ((1 << 41) - 1) & ~(1 << CAPABILITIES.index("CAP_SYS_RESOURCE"))
SYSCTL = "/proc/sys/kernel/"
CASES: list[tuple[str, tuple[Probe, ...], MadeUp, str, str]] = [
    ("clone3", kernel_probes.KERNEL, MadeUp({}, refusal=errno.ENOSYS), MISSING, "this kernel"),
    ("clone3", kernel_probes.KERNEL, MadeUp({}, refusal=errno.EPERM), MISSING, "filter"),
    ("openat2", kernel_probes.KERNEL, MadeUp({}, refusal=errno.ENOSYS), LIMITED, "this kernel"),
    ("openat2", kernel_probes.KERNEL, MadeUp({}), OK, "available"),
    (
        "clone into cgroup",
        kernel_probes.KERNEL,
        MadeUp({}, refusal=errno.E2BIG),
        LIMITED,
        "this kernel",
    ),
    ("clone into cgroup", kernel_probes.KERNEL, MadeUp({}, refusal=errno.EBADF), OK, "available"),
    ("id-mapped mounts", kernel_probes.KERNEL, MadeUp({}, rootless=True), LIMITED, "root"),
    ("namespaces", kernel_probes.KERNEL, MadeUp({}), OK, "all 8"),
    ("seccomp", kernel_probes.KERNEL, MadeUp({}), LIMITED, "this kernel"),
    ("seccomp", kernel_probes.KERNEL, MadeUp(status(Seccomp="0")), LIMITED, "notifications"),
    ("overlayfs", kernel_probes.KERNEL, MadeUp({"/proc/filesystems": "nodev\toverlay\n"}), OK, ""),
    (
        "filesystems",
        kernel_probes.KERNEL,
        MadeUp({"/proc/filesystems": "nodev\ttmpfs\n"}),
        MISSING,
        "proc",
    ),
    (
        "programs in memory",
        kernel_probes.KERNEL,
        MadeUp({"/proc/sys/vm/memfd_noexec": "2\n"}),
        MISSING,
        "memfd_noexec",
    ),
    (
        "/proc",
        kernel_probes.KERNEL,
        MadeUp({"/proc/self/mountinfo": "1 2 0:3 / /proc/acpi ro - tmpfs t ro\n"}),
        LIMITED,
        "/proc/acpi",
    ),
    (
        "user namespaces",
        environment_probes.USERS,
        MadeUp({f"{SYSCTL}unprivileged_userns_clone": "0\n"}, rootless=True, uid=1000),
        MISSING,
        "unprivileged_userns_clone",
    ),
    (
        "user namespaces",
        environment_probes.USERS,
        MadeUp({f"{SYSCTL}apparmor_restrict_unprivileged_userns": "1\n"}),
        LIMITED,
        "apparmor",
    ),
    (
        "user namespaces",
        environment_probes.USERS,
        MadeUp({"/proc/sys/user/max_user_namespaces": "0\n"}, rootless=True),
        MISSING,
        "not allowed",
    ),
    (
        "subordinate ids",
        environment_probes.USERS,
        MadeUp({"/etc/subuid": "4321:100000:65536\n"}, rootless=True, uid=4321),
        LIMITED,
        "none for",
    ),
    (
        "capabilities",
        environment_probes.PRIVILEGES,
        MadeUp(status(CapEff=f"{WITHOUT_RESOURCE:x}")),
        LIMITED,
        "CAP_SYS_RESOURCE",
    ),
    (
        "capabilities",
        environment_probes.PRIVILEGES,
        MadeUp(status(CapEff="0")),
        MISSING,
        "CAP_SYS_ADMIN",
    ),
    ("no_new_privs", environment_probes.PRIVILEGES, MadeUp(status(NoNewPrivs="1")), LIMITED, "set"),
    ("outer filter", environment_probes.PRIVILEGES, MadeUp(status(Seccomp="2")), LIMITED, "force"),
    (
        "state directory",
        environment_probes.INSTALLATION,
        MadeUp({}),
        MISSING,
        '"/" is not writable',
    ),
    ("state directory", environment_probes.INSTALLATION, MadeUp({}, writes=("/",)), OK, "/run"),
    ("criu", environment_probes.INSTALLATION, MadeUp({}), LIMITED, "not installed"),
    (
        "id-mapped mounts",
        kernel_probes.KERNEL,
        MadeUp({}, refusal=errno.ENOSYS),
        LIMITED,
        "mount_setattr",
    ),
    ("overlayfs", kernel_probes.KERNEL, MadeUp({}), LIMITED, "not loaded"),
    (
        "namespaces",
        kernel_probes.KERNEL,
        MadeUp({}, absent=("/proc/self/ns/time",)),
        LIMITED,
        "missing: time",
    ),
    (
        "namespaces",
        kernel_probes.KERNEL,
        MadeUp({}, absent=("/proc/self/ns/pid", "/proc/self/ns/time")),
        MISSING,
        "missing: pid, time",
    ),
    (
        "subordinate ids",
        environment_probes.USERS,
        MadeUp(
            {"/etc/subuid": "4321:100000:65536\n", "/etc/subgid": "4321:200000:7\n"},
            rootless=True,
            uid=4321,
        ),
        OK,
        "65536 uids, 7 gids for 4321",
    ),
    (
        "capabilities",
        environment_probes.PRIVILEGES,
        MadeUp(status(CapEff="0"), uid=1000),
        OK,
        "unprivileged user",
    ),
    (
        "capabilities",
        environment_probes.PRIVILEGES,
        MadeUp(status(CapEff="1ffffffffff")),
        OK,
        "all capabilities",
    ),
    ("AppArmor", environment_probes.PRIVILEGES, apparmor("unconfined\n"), OK, "2 profiles"),
    ("AppArmor", environment_probes.PRIVILEGES, apparmor("web (unconfined)"), OK, "process web"),
    (
        "AppArmor",
        environment_probes.PRIVILEGES,
        apparmor("web (enforce)"),
        LIMITED,
        "web (enforce)",
    ),
    ("AppArmor", environment_probes.PRIVILEGES, apparmor(""), LIMITED, "process unknown"),
    ("SELinux", environment_probes.PRIVILEGES, selinux("1"), OK, "enforcing, this process a_t"),
    ("SELinux", environment_probes.PRIVILEGES, selinux("0\n"), OK, "permissive, this process a_t"),
    ("systemd", environment_probes.CGROUPS, MadeUp({}), LIMITED, "not running"),
]


@pytest.mark.parametrize(
    ("name", "table", "host", "state", "word"), CASES, ids=[f"{c[0]} {c[3]} {c[4]}" for c in CASES]
)
def test_probe(name: str, table: tuple[Probe, ...], host: MadeUp, state: str, word: str) -> None:
    answer = row(table, name).look(host)
    assert answer.state == state
    assert word in answer.found


def test_every_limit_is_explained() -> None:
    """What is not ok says what that means; the user namespaces' remedy is the sysctl."""
    for name, table, host, state, _ in CASES:
        (found,) = run_probes(host, [("x", (row(table, name),))])
        assert bool(found.meaning) == (state != OK), name
        assert bool(found.remedy) == (state != OK), name
    (found,) = run_probes(CASES[14][2], [("x", environment_probes.USERS[:1])])
    assert "sysctl -w kernel.unprivileged_userns_clone=1" in found.remedy


def test_names_are_distinct() -> None:
    names = [(subject, probe.name) for subject, table in TABLES for probe in table]
    assert len(names) == len(set(names)) >= 30


def probe(state: str, essential: bool) -> Probe:
    look: Callable[[Any], Answer] = lambda _: Answer(state, "found")  # noqa: E731
    return Probe(f"{state} {essential}", look, "meaning", "remedy", essential)


@pytest.mark.parametrize(
    ("state", "essential", "able"),
    [
        (OK, True, True),
        (LIMITED, True, True),
        (MISSING, False, True),
        (MISSING, True, False),
    ],
)
def test_verdict(state: str, essential: bool, able: bool) -> None:
    found = run_probes(MadeUp({}), [("part", (probe(OK, True), probe(state, essential)))])
    assert can_run(found) == able
    assert host_values(found)["canRun"] == able
    text = host_text(found, 80, uncoloured)
    assert ("cannot" in text) == (not able)
    assert ("meaning" in text) == (state != OK)
    assert "\x1b[" not in text
    assert "\x1b[32m" in host_text(found, 80, coloured)


def test_text_keeps_to_the_width() -> None:
    long = Probe("long", lambda _: Answer(LIMITED, "found " * 30), "means " * 30, "mend " * 30)
    text = host_text(run_probes(MadeUp({}), [("part", (long,))]), 60, uncoloured)
    assert max(map(len, text.splitlines())) <= 60
