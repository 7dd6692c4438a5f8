"""The container's configuration of an app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ociruntime.pods.bundle
from ociruntime.base.errors import PodError
from ociruntime.pods.bundle.app_config import AppFacts, app_config
from ociruntime.pods.bundle.default_confinement import DEFAULT_CAPABILITIES
from ociruntime.pods.manifest.flavours import FLAVOURS
from ociruntime.pods.manifest.oci_resources import skipped

UUID = "6733c088-a507-4694-aabf-5cd2e0b1f5b3"
SECCOMP = Path(ociruntime.pods.bundle.__file__).with_name("seccomp.json")


def manifest(**app: Any) -> dict[str, Any]:  # noqa: ANN401
    mounts, volumes = app.pop("mounts", []), app.pop("volumes", [])
    program = {"exec": ["/bin/true"], "user": "0", "workingDirectory": "/", **app}
    return {
        "apps": [{"name": "web", "image": {"id": "x"}, "app": program, "mounts": mounts}],
        "volumes": volumes,
    }


def facts() -> AppFacts:
    made = AppFacts(UUID, "/pod/rootfs")
    made.namespaces = {kind: f"/proc/9/ns/{kind}" for kind in ("pid", "network", "ipc", "uts")}
    made.environment = {"PATH": "/bin", "AC_APP_NAME": "web"}
    made.seccomp = json.loads(SECCOMP.read_text())
    return made


def config(where: AppFacts | None = None, **app: Any) -> dict[str, Any]:  # noqa: ANN401
    return app_config(manifest(**app), "web", {}, where or facts())


def test_the_usual() -> None:
    made = config()
    process, linux = made["process"], made["linux"]
    assert process["args"] == ["/bin/true"]
    assert process["env"] == ["PATH=/bin", "AC_APP_NAME=web"]
    assert len(DEFAULT_CAPABILITIES) == 14
    for kind in ("bounding", "permitted", "effective"):
        assert process["capabilities"][kind] == list(DEFAULT_CAPABILITIES)
    assert {(one["type"], one.get("path")) for one in linux["namespaces"]} == {
        ("pid", "/proc/9/ns/pid"),
        ("network", "/proc/9/ns/network"),
        ("ipc", "/proc/9/ns/ipc"),
        ("uts", "/proc/9/ns/uts"),
        ("mount", None),
        ("cgroup", None),
    }
    assert linux["cgroupsPath"] == f"/ocipod-{UUID}/web"
    assert linux["resources"]["devices"] == [{"allow": False, "access": "rwm"}]
    assert "/proc/kcore" in linux["maskedPaths"]
    assert "/proc/sysrq-trigger" in linux["readonlyPaths"]
    assert linux["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"


def test_nobody_but_root_holds_capabilities() -> None:
    where = facts()
    where.uid = 1000
    capabilities = config(where)["process"]["capabilities"]
    assert capabilities["effective"] == capabilities["permitted"] == []
    assert capabilities["bounding"] == list(DEFAULT_CAPABILITIES)


def test_capabilities() -> None:
    retain = {"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_KILL"]}}
    remove = {"name": "os/linux/capabilities-remove-set", "value": {"set": ["CAP_KILL"]}}
    bounding = config(isolators=[retain])["process"]["capabilities"]["bounding"]
    assert bounding == ["CAP_KILL"]
    bounding = config(isolators=[remove])["process"]["capabilities"]["bounding"]
    assert set(DEFAULT_CAPABILITIES) - set(bounding) == {"CAP_KILL"}


def test_checks_can_be_turned_off() -> None:
    where = facts()
    where.insecure = frozenset(("capabilities", "paths", "seccomp"))
    where.capabilities = ("CAP_SYS_ADMIN", "CAP_KILL")
    made = config(where)
    assert "seccomp" not in made["linux"]
    assert made["linux"]["maskedPaths"] == made["linux"]["readonlyPaths"] == []
    assert made["process"]["capabilities"]["bounding"] == ["CAP_KILL", "CAP_SYS_ADMIN"]


def test_limits() -> None:
    wanted: list[dict[str, Any]] = [
        {"name": "resource/memory", "value": {"limit": "64M"}},
        {"name": "resource/cpu", "value": {"limit": "500m"}},
        {"name": "os/linux/cpu-shares", "value": 512},
        {"name": "resource/pids", "value": {"limit": "9"}},
        {"name": "os/linux/oom-score-adj", "value": 7},
    ]
    made = config(isolators=wanted)
    resources = made["linux"]["resources"]
    assert resources["memory"] == {"limit": 64 << 20}
    assert resources["cpu"] == {"quota": 50000, "period": 100000, "shares": 512}
    assert resources["pids"] == {"limit": 9}
    assert made["process"]["oomScoreAdj"] == 7
    where = facts()
    where.controllers = frozenset(("memory",))
    resources = config(where, isolators=wanted)["linux"]["resources"]
    assert set(resources) == {"devices", "memory"}
    assert len(skipped(wanted, {"memory"})) == 3


PRIVILEGED = {"name": "ociruntime/privileged", "value": True}


def test_privileges() -> None:
    where = facts()
    where.capabilities = ("CAP_SYS_ADMIN", "CAP_KILL")
    remove = {"name": "os/linux/capabilities-remove-set", "value": {"set": ["CAP_KILL"]}}
    made = config(where, isolators=[PRIVILEGED, remove])
    assert made["process"]["capabilities"]["bounding"] == ["CAP_SYS_ADMIN"]
    filter = {"name": "os/linux/seccomp-remove-set", "value": {"set": ["mkdir"]}}
    assert "seccomp" in config(where, isolators=[PRIVILEGED, filter])["linux"]
    where.private_users = (131072, 65536)
    with pytest.raises(PodError, match="privileged app"):
        config(where, isolators=[PRIVILEGED])


def test_volumes() -> None:
    where = facts()
    where.volumes = {"a": "/host/a", "b": "/pod/volumes/b", "d": "/dev/loop7", "s": "/s"}
    where.devices = {"d": ("b", 7, 7)}
    where.binds = [("/pod/hosts", "/etc/hosts"), ("/pod/resolv.conf", "/etc/resolv.conf")]
    made = config(
        where,
        volumes=[
            {"name": "a", "kind": "host", "readOnly": True, "recursive": False},
            {"name": "b", "kind": "empty"},
            {"name": "d", "kind": "host", "readOnly": True},
            {"name": "s", "kind": "host", "propagation": "rslave"},
        ],
        mounts=[
            {"volume": "a", "path": "/srv/x/deep"},
            {"volume": "b", "path": "/srv"},
            {"volume": "b", "path": "/etc/hosts"},
            {"volume": "d", "path": "/dev/disk"},
            {"volume": "s", "path": "/a/slave"},
        ],
    )
    found = [(one["destination"], one["source"], one["options"]) for one in made["mounts"][7:]]
    assert found == [
        ("/etc/resolv.conf", "/pod/resolv.conf", ["bind", "rprivate"]),
        ("/srv", "/pod/volumes/b", ["rbind", "rprivate", "rw"]),
        ("/etc/hosts", "/pod/volumes/b", ["rbind", "rprivate", "rw"]),
        ("/dev/disk", "/dev/loop7", ["rbind", "rprivate", "ro"]),
        ("/a/slave", "/s", ["rbind", "rslave", "rw"]),
        ("/srv/x/deep", "/host/a", ["bind", "private", "ro"]),
    ]
    assert made["linux"]["resources"]["devices"][1:] == [
        {"allow": True, "type": "b", "major": 7, "minor": 7, "access": "r"}
    ]


def test_a_mount_of_no_volume() -> None:
    with pytest.raises(PodError, match=r'"web": mount .*"lost"'):
        config(mounts=[{"volume": "lost", "path": "/srv"}])


def test_fly_only_changes_the_root() -> None:
    where = facts()
    where.flavour = FLAVOURS["fly"]
    where.capabilities = ("CAP_SYS_ADMIN",)
    where.volumes = {"a": "/host/a"}
    volume = {"name": "a", "kind": "host"}
    made = config(where, volumes=[volume], mounts=[{"volume": "a", "path": "/a"}])
    assert made["linux"]["namespaces"] == [{"type": "mount"}]
    assert "seccomp" not in made["linux"]
    assert made["process"]["capabilities"]["effective"] == ["CAP_SYS_ADMIN"]
    assert {one["source"] for one in made["mounts"]} == {
        "/dev",
        "/proc",
        "/sys",
        "tmpfs",
        "/host/a",
    }
    assert made["mounts"][-1]["options"] == ["bind", "private", "rw"]


def seccomp(name: str, *words: str, errno: str = "", **changes: int) -> dict[str, Any] | None:
    value: dict[str, Any] = {"set": list(words)} | ({"errno": errno} if errno else {})
    where = facts()
    where.uid = changes.get("uid", 0)
    made = config(where, isolators=[{"name": f"os/linux/seccomp-{name}-set", "value": value}])
    assert made["process"]["noNewPrivileges"] == (where.uid != 0)
    found: dict[str, Any] | None = made["linux"].get("seccomp")
    return found


def test_seccomp_sets() -> None:
    assert seccomp("retain", "@appc.io/all") is None
    assert seccomp("remove", "@appc.io/empty") is None
    removed = seccomp("remove", "mkdir", errno="ENOSYS", uid=5)
    assert removed is not None
    assert removed["defaultAction"] == "SCMP_ACT_ALLOW"
    assert removed["syscalls"] == [{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]
    retained = seccomp("retain", "@docker/default-whitelist", "bpf")
    assert retained is not None
    assert retained["defaultAction"] == "SCMP_ACT_KILL_PROCESS"
    assert {"bpf", "read", "execve"} <= set(retained["syscalls"][0]["names"])
    with pytest.raises(Exception, match="unknown set"):
        seccomp("retain", "@systemd/clock")


def test_the_default_filter_follows_capabilities() -> None:
    filter = config()["linux"]["seccomp"]
    allowed = set(filter["syscalls"][0]["names"])
    assert {"chroot", "read", "clone3"} & allowed == {"chroot", "read"}
    assert not {"mount", "bpf", "unshare"} & allowed
    assert {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38} in filter["syscalls"]
    add = {"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_SYS_ADMIN"]}}
    filter = config(isolators=[add])["linux"]["seccomp"]
    assert {"mount", "clone3"} <= set(filter["syscalls"][0]["names"])
    assert all(rule["names"] != ["clone3"] for rule in filter["syscalls"])
