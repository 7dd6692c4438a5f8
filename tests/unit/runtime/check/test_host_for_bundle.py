"""The checks that a host has what a config needs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ociruntime.runtime.check import check_host_for_bundle
from ociruntime.runtime.check.check_host_for_bundle import (
    PROFILES,
    agent,
    devices,
    executable,
    find_in_root,
    hooks,
    id_maps,
    limits,
    profile,
    program,
    sources,
)
from ociruntime.runtime.check.finding import Fault, Json
from tests.unit.runtime.check.made_up_host import MadeUp

HOST = MadeUp({})


def faults(
    check: check_host_for_bundle.Check, config: Json, rootfs: str = "", host: MadeUp = HOST
) -> list[Fault]:
    return list(check(config, "/bundle", rootfs, host))


def test_sources() -> None:
    """A relative source starts at the bundle; only bind mounts need one."""
    config = {
        "mounts": [
            {"destination": "/a", "type": "bind", "source": "data"},
            {"destination": "/b", "type": "bind", "source": "/srv"},
            {"destination": "/c", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/d", "options": ["rbind"], "source": "/gone"},
        ]
    }
    found = faults(sources, config, host=MadeUp({"/bundle/data": "", "/srv": ""}))
    assert [(each.where, each.message) for each in found] == [
        ("mounts[3].source", '"/gone" does not exist: no such file or directory')
    ]


def test_hooks(tmp_path: Path) -> None:
    """validate() refuses a relative path, and startContainer hooks run inside the container."""
    good, plain = tmp_path / "good", tmp_path / "plain"
    good.touch(mode=0o755)
    plain.touch(mode=0o644)
    paths = [good, plain, tmp_path, tmp_path / "gone", "relative"]
    config = {
        "hooks": {
            "createRuntime": [{"path": str(path)} for path in paths],
            "startContainer": [{"path": "/gone"}],
        }
    }
    found = faults(hooks, config)
    assert [(each.where, each.message.rpartition('" ')[2]) for each in found] == [
        ("hooks.createRuntime[1].path", "is not executable"),
        ("hooks.createRuntime[2].path", "is not executable"),
        ("hooks.createRuntime[3].path", "does not exist: no such file or directory"),
    ]
    assert found[0].hint == f"chmod +x {plain}"


def container(*args: str, **members: Json) -> Json:
    process = {"args": list(args), "cwd": "/work", "user": {"uid": 0, "gid": 0}}
    return {"process": process, **members}


@pytest.fixture
def rootfs(tmp_path: Path) -> str:
    for path in ("bin/sh", "work/tool"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).touch(mode=0o755)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (container("sh"), []),
        (container("/bin/sh"), []),
        (container("./tool"), []),
        (container("/bin/no"), ['"/bin/no" does not exist in the root filesystem']),
        (container("no"), ['"no": executable file not found in $PATH']),
        (container("/data/no", mounts=[{"destination": "/data"}]), []),
        (container("/data2/no", mounts=[{"destination": "/data"}]),
         ['"/data2/no" does not exist in the root filesystem']),
        ({}, []),
    ],
)  # fmt: skip
def test_program(rootfs: str, config: Json, expected: list[str]) -> None:
    assert [each.message for each in faults(program, config, rootfs)] == expected


def test_start_container_hooks(rootfs: str) -> None:
    config = {
        "mounts": [{"destination": "/data"}],
        "hooks": {
            "startContainer": [{"path": "/bin/sh"}, {"path": "/bin/no"}, {"path": "/data/hook"}]
        },
    }
    (found,) = faults(program, config, rootfs)
    assert found.where == "hooks.startContainer[1].path"
    assert found.message == '"/bin/no" does not exist in the root filesystem'


def test_no_root_filesystem(tmp_path: Path) -> None:
    """Its absence is a fault of its own: programs in it are not looked for."""
    assert faults(program, container("/bin/no"), "") == []
    assert find_in_root(str(tmp_path / "gone"), "/bin/sh") == ""


def capable(bits: str, **files: str) -> MadeUp:
    return MadeUp({"/proc/self/status": f"CapEff:\t{bits}\n", **files})


def test_lower_oom_score() -> None:
    """Lowering the score requires CAP_SYS_RESOURCE."""
    own = {"/proc/self/oom_score_adj": "100\n"}
    config = {"process": {"oomScoreAdj": 99}}
    (found,) = faults(limits, config, host=capable("0", **own))
    assert found.where == "process.oomScoreAdj"
    assert found.message == "99 is below the caller's own oom_score_adj 100"
    assert faults(limits, config, host=capable("1000000", **own)) == []
    assert faults(limits, {"process": {"oomScoreAdj": 100}}, host=capable("0", **own)) == []


def test_limits_in_a_user_namespace() -> None:
    """A capability in a user namespace does not count: the kernel asks the initial one."""
    host = capable("1000000", **{"/proc/self/oom_score_adj": "100\n"})
    host.rootless = True
    (found,) = faults(limits, {"process": {"oomScoreAdj": 0}}, host=host)
    assert found.where == "process.oomScoreAdj"


@pytest.mark.parametrize(
    ("name", "loaded", "expected"),
    [
        ("web", "web (enforce)\n", 0),
        ("a (b)", "a (b) (complain)\n", 0),
        ("web", "web2 (enforce)\n", 1),
        ("unconfined", "web (enforce)\n", 0),
        ("web", "", 0),
    ],
)
def test_profile(name: str, loaded: str, expected: int) -> None:
    """The profile must be in the kernel's list; without AppArmor the list is empty."""
    config = {"process": {"apparmorProfile": name}}
    found = faults(profile, config, host=MadeUp({PROFILES: loaded}))
    assert [each.message for each in found] == [
        f'AppArmor profile "{name}" is not loaded'
    ] * expected


def mapping(host_id: int, size: int) -> dict[str, int]:
    return {"containerID": 0, "hostID": host_id, "size": size}


def test_id_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may map their own id and the ranges granted to them, root may map all."""
    monkeypatch.setattr(os, "getegid", lambda: 77)
    monkeypatch.setattr(check_host_for_bundle, "user_name", lambda uid: "ann")
    files = {"/etc/subuid": "ann:100000:10\nbob:500000:10\n", "/etc/subgid": "ann:100000:10\n"}
    config = {
        "linux": {
            "uidMappings": [mapping(1000, 1), mapping(100000, 10), mapping(500000, 10)],
            "gidMappings": [mapping(77, 1)],
        }
    }
    (found,) = faults(id_maps, config, host=MadeUp(files, uid=1000))
    assert found.where == "linux.uidMappings[2]"
    assert "uids 500000 to 500009: user ann" in found.message
    assert found.hint.startswith("/etc/subuid grants ann 100000:10; as root: echo ann:500000:10")
    assert faults(id_maps, config, host=MadeUp(files, uid=0)) == []


def test_agent(tmp_path: Path) -> None:
    def check(path: str) -> list[Fault]:
        return faults(agent, {"linux": {"seccomp": {"listenerPath": path}}})

    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/socket")
        assert check(f"{tmp_path}/socket") == []
    (plain,) = check(f"{tmp_path}/file")
    assert plain.message == f'"{tmp_path}/file" is not a socket'
    (absent,) = check(f"{tmp_path}/gone")
    assert absent.where == "linux.seccomp.listenerPath"
    assert absent.hint == "start the agent first"
    assert check("") == []


def test_devices() -> None:
    config: Json = {"linux": {"netDevices": {"eth0": {}, "eth1": {}, "../lo": {}, "": {}}}}
    (found,) = faults(devices, config, host=MadeUp({"/sys/class/net/eth0": ""}))
    assert found.where == 'linux.netDevices["eth1"]'
    assert 'no network device "eth1"' in found.message


UIDS = [{"containerID": 0, "hostID": 100000, "size": 1000}]
LINUX = {"uidMappings": UIDS, "gidMappings": UIDS}


@pytest.mark.parametrize(
    ("mode", "owner", "user", "linux", "able"),
    [
        (0o700, (5, 6), {"uid": 5, "gid": 9}, {}, True),
        (0o077, (5, 6), {"uid": 5, "gid": 6}, {}, False),
        (0o070, (5, 6), {"uid": 4, "gid": 6}, {}, True),
        (0o707, (5, 6), {"uid": 4, "gid": 6}, {}, False),
        (0o070, (5, 6), {"uid": 4, "gid": 7, "additionalGids": [6]}, {}, True),
        (0o700, (100005, 100006), {"uid": 5, "gid": 9}, LINUX, True),
        (0o070, (100005, 100006), {"uid": 4, "gid": 6}, LINUX, True),
        (0o770, (5, 6), {"uid": 5, "gid": 6}, LINUX, False),
        (0o770, (1005, 1006), {"uid": 1005, "gid": 1006}, LINUX, False),
    ],
)
def test_class_of_the_mode(
    tmp_path: Path,
    mode: int,
    owner: tuple[int, int],
    user: Json,
    linux: Json,
    able: bool,
) -> None:
    """Only one class of the mode counts: the owner's, the group's, or the others'."""
    if os.geteuid() != 0:
        pytest.skip("gives a file to another user")
    file = tmp_path / "program"
    file.touch()
    os.chown(file, *owner)
    file.chmod(mode)
    assert executable(str(file), user, linux) is able


def test_directory_is_not_executable(tmp_path: Path) -> None:
    assert not executable(str(tmp_path), {"uid": 0, "gid": 0}, {})
