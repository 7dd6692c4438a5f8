"""The securityContext of containers, as the kubelet translates it; runc is the reference."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import Both
from tests.engines.cri.observe import facts, mounts
from tests.engines.cri.pod import POD, Pod
from tests.support import cgroupfs

RUNTIME_DEFAULT, UNCONFINED, LOCALHOST = 0, 1, 2
CHOWN, NET_RAW, SYS_TIME, NET_BIND_SERVICE = 0, 13, 25, 10
# What the kubelet sends for procMount: Default.
MASKED = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
CAPABILITY_SETS = ("effective", "permitted", "bounding")


def value(number: int) -> dict[str, int]:
    """Return an Int64Value."""
    return {"value": number}


def usual_mounts(pod: Pod, container: str) -> dict[str, str]:
    """Return the mounts, without the known differences."""
    found = mounts(pod, container)
    if not cgroupfs.is_v2():
        # runc leaves the tmpfs with the mount points of read-only v1 hierarchies writable.
        assert found.pop("/sys/fs/cgroup").startswith("tmpfs ")
    # Beside v1 hierarchies runc does not mount the v2 one.
    found.pop("/sys/fs/cgroup/unified", None)
    # A bind with "rw": recent runcs clear the source's other flags, runc 1.1 and we keep them
    # (docs/spec-decisions.md, A-49).
    shm = found["/dev/shm"].split()
    assert set(shm[1].split(",")) >= {"rw", "relatime"}
    if pod.handler == "ociruntime":
        assert set(shm[1].split(",")) >= {"nosuid", "nodev", "noexec"}
    found["/dev/shm"] = shm[0]
    return found


def test_seccomp_runtime_default(both: Both) -> None:
    security = {"seccomp": {"profile_type": RUNTIME_DEFAULT}}
    seen = both(lambda pod: facts(pod, security=security))
    assert (seen["seccomp"], seen["fixed_addresses"]) == (2, errno.EPERM)


def test_seccomp_unconfined(both: Both) -> None:
    security = {"seccomp": {"profile_type": UNCONFINED}}
    seen = both(lambda pod: facts(pod, security=security))
    assert (seen["seccomp"], seen["fixed_addresses"]) == (0, 0)


def test_seccomp_localhost(both: Both, work: Path) -> None:
    """A profile of the node also applies to exec processes."""
    profile = work / "profile.json"
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EXDEV}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    security = {"seccomp": {"profile_type": LOCALHOST, "localhost_ref": str(profile)}}

    def look(pod: Pod) -> tuple[int, str, str]:
        one = pod.run("one", "sleep", "1000", security=security)
        return pod.execute(one, "mkdir", "/new")

    status, _, err = both(look)
    assert status == 1
    assert "link" in err  # the words for EXDEV


def test_capabilities(both: Both) -> None:
    """Drop removes default capabilities; added ones stay even if ALL is dropped."""

    def look(pod: Pod) -> list[dict[str, int]]:
        found = []
        for number, (add, drop) in enumerate(
            (([], []), (["SYS_TIME"], ["CHOWN"]), (["NET_BIND_SERVICE"], ["ALL"]), (["ALL"], []))
        ):
            context = {"capabilities": {"add_capabilities": add, "drop_capabilities": drop}}
            found.append(facts(pod, f"number-{number}", security=context)["capabilities"])
        return found

    usual, changed, one, everything = both(look)
    for kind in CAPABILITY_SETS:
        assert changed[kind] == (usual[kind] | 1 << SYS_TIME) & ~(1 << CHOWN)
        assert one[kind] == 1 << NET_BIND_SERVICE
        assert everything[kind].bit_count() > usual[kind].bit_count() + 20


def test_capabilities_of_a_user(both: Both) -> None:
    """Ordinary users get ambient capabilities only where they are requested."""

    def look(pod: Pod) -> list[dict[str, Any]]:
        without = {"run_as_user": value(1000)}
        capabilities = {"add_ambient_capabilities": ["NET_RAW"]}
        asked = {"run_as_user": value(1000), "capabilities": capabilities}
        return [
            facts(pod, "without", security=without),
            facts(pod, "asked", security=asked),
        ]

    without, _ = both(look)
    assert (without["uid"], without["capabilities"]["effective"]) == (1000, 0)
    assert without["capabilities"]["bounding"] & 1 << NET_RAW


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ({"supplemental_groups": [7, 4000]}, {"uid": 0, "gid": 0, "groups": [0, 7, 4000]}),
        (
            {"run_as_user": value(1000), "supplemental_groups": [4000]},
            {"uid": 1000, "gid": 1000, "groups": [50, 1000, 4000]},
        ),
        pytest.param(
            {"run_as_user": value(4321), "run_as_group": value(8765)},
            {"uid": 4321, "gid": 8765, "groups": [8765]},
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"run_as_username": "user"}, {"uid": 1000, "gid": 1000}, marks=pytest.mark.long
        ),
    ],
    ids=["root", "user of the image", "unknown ids", "name"],
)
def test_users_and_groups(both: Both, security: dict[str, Any], expected: dict[str, Any]) -> None:
    """The groups of fsGroup and supplementalGroups are added to those of the image."""

    def look(pod: Pod) -> dict[str, Any]:
        one = pod.run("one", "sleep", "1000", security=security)
        found = facts(pod, security=security)
        found["id"] = pod.shell(one, "id")
        found["groups"].sort()
        return found

    seen = both(look)
    assert {name: seen[name] for name in expected} == expected


def test_no_new_privileges(both: Both) -> None:
    """allowPrivilegeEscalation: false."""
    seen = both(lambda pod: facts(pod, security={"no_new_privs": True}))
    assert seen["no_new_privs"] == 1


def test_read_only_root(both: Both) -> None:
    def look(pod: Pod) -> tuple[list[tuple[int, str, str]], dict[str, str]]:
        one = pod.run("one", "sleep", "1000", security={"readonly_rootfs": True})
        places = ("/file", "/etc/file", "/dev/shm/file", "/tmp/file")
        return [pod.execute(one, "touch", place) for place in places], usual_mounts(pod, one)

    (*written, _), table = both(look)
    assert [status for status, _, _ in written] == [1, 1, 0]
    assert "Read-only" in written[0][2]
    assert table["/"].split()[1].startswith("ro,")


def test_masked_and_read_only_paths(both: Both) -> None:
    """procMount: Default, also for an exec process."""
    security = {"masked_paths": MASKED, "readonly_paths": READ_ONLY}

    def look(pod: Pod) -> dict[str, Any]:
        one = pod.run("one", "sleep", "1000", security=security)
        found: dict[str, Any] = {}
        for path in MASKED:
            script = f"[ -e {path} ] || exit 9; [ -d {path} ] && ls {path} || cat {path}"
            found[path] = pod.execute(one, "sh", "-c", script)
        for path in READ_ONLY:
            write = f"if [ -d {path} ]; then touch {path}/x; else echo >{path}; fi"
            script = f"[ -e {path} ] || exit 9; {write}"
            status, _, err = pod.execute(one, "sh", "-c", script)
            found[path] = status, err.rpartition(": ")[2]
        return found

    seen = both(look)
    assert {seen[path] for path in MASKED} <= {(0, "", ""), (9, "", "")}
    assert seen["/proc/keys"] == (0, "", "")
    assert seen["/proc/sys"][0] == 1
    assert seen["/proc/sysrq-trigger"] in ((1, "Read-only file system\n"), (9, ""))


def test_unmasked(both: Both) -> None:
    """procMount: Unmasked: no path is masked."""

    def look(pod: Pod) -> bool:
        one = pod.run("one", "sleep", "1000", security={"masked_paths": [], "readonly_paths": []})
        return bool(pod.shell(one, "cat /proc/timer_list | head -n 1"))

    assert both(look)


def test_privileged(both: Both) -> None:
    """All capabilities, all devices of the node, and /sys is writable."""

    def look(pod: Pod) -> dict[str, Any]:
        found = facts(pod, security={"privileged": True})
        one = pod.run("one", "sleep", "1000", security={"privileged": True})
        found["mounts"] = usual_mounts(pod, one)
        return found

    seen = both(look, privileged=True)
    assert seen["capabilities"]["effective"] & 1 << SYS_TIME
    assert seen["mounts"]["/sys"].split()[1].startswith("rw,")


def test_mounts_of_a_container(both: Both) -> None:
    """Filesystems, options and propagation in a container without any settings."""

    def look(pod: Pod) -> dict[str, str]:
        return usual_mounts(pod, pod.run("one", "sleep", "1000"))

    seen = both(look, namespaces={"network": POD})
    assert {"/", "/proc", "/dev", "/dev/pts", "/dev/shm", "/sys"} <= seen.keys()


def test_programs_that_do_not_start(cri_host: Cri, both: Both) -> None:
    """The kubelet shows the reason, in words that people search for."""

    def look(pod: Pod) -> list[str]:
        found = []
        words = {
            "no-such-program": "executable file not found in $PATH",
            "/no/such/program": "no such file or directory",
            "/etc/plain": "permission denied",
        }
        for program, reason in words.items():
            one = pod.create(program.replace("/", "-"), program)
            with pytest.raises(cri_host.Error):
                cri_host.StartContainer(container_id=one)
            status = pod.status(one)
            assert reason in status.message
            found.append(f"{status.exit_code} {status.reason}")
        return found

    assert both(look) == ["128 StartError"] * 3
