"""Unprivileged users, and root of other user namespaces: what the kernel allows works."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import cgroupfs, ordinary_user
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.ordinary_user import SUBGID, SUBUID, UID, OrdinaryUser
from tests.support.plugin import TAG, MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api
from tests.support.runtime import Runtime, execute

pytestmark = pytest.mark.judge_by("ociruntime")
READ_ONLY_SYS = needs_mount_api("the host's /sys, read-only with all mounts below")

needs_helpers = pytest.mark.skipif(
    shutil.which("newuidmap") is None, reason="newuidmap is not installed"
)
Make = Callable[..., Container]


@pytest.fixture
def user(user_database: None, runtime: Runtime, work: Path, nothing_left: None) -> OrdinaryUser:
    home = work / "home"
    (home / "run").mkdir(parents=True)
    (home / "run").chmod(0o700)
    ordinary_user.give(home, UID)
    found = OrdinaryUser(runtime.path, home)
    if not found.may_run_it():
        pytest.skip(f"an ordinary user may not execute {runtime.path}")
    return found


@pytest.fixture
def make(user: OrdinaryUser) -> Iterator[Make]:
    """Create a container as that user, or with the user's runtime in another environment."""
    made: list[Container] = []

    def of(bundle: Bundle, runtime: Runtime = user) -> Container:
        made.append(Container(runtime, f"{TAG}u{len(made)}", bundle))
        return made[-1]

    yield of
    for one in reversed(made):
        one.finish()
        one.close()
    assert list(user.root.glob("[!.]*")) == [], "left in the state root"


def edited(user: OrdinaryUser, place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((place / "config.json").read_text())
    config["process"]["terminal"] = False
    change(config)
    (place / "config.json").write_text(json.dumps(config))


@READ_ONLY_SYS
def test_two_commands(user: OrdinaryUser, bundle: MakeBundle) -> None:
    """``spec --rootless`` and ``run``: nothing else is needed, and nothing is left."""
    place = bundle().path
    ordinary_user.give(place, UID)
    user.do(str(user.path), "spec", "--rootless", cwd=place).silent()
    script = "id -u; cat /proc/self/uid_map; ls -d /sys/fs/cgroup /sys/kernel"
    edited(user, place, lambda config: config["process"].update(args=["sh", "-c", script]))
    result = user.do(str(user.path), "run", f"{TAG}two", cwd=place)
    assert result.status == 0, result
    assert result.out.split() == ["0", "0", str(UID), "1", "/sys/fs/cgroup", "/sys/kernel"]
    assert result.err == ""
    assert list(user.root.glob("[!.]*")) == []


@READ_ONLY_SYS
def test_whole_life(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    one = make(user.own(bundle("sleep", "1000"))).created()
    assert one.status == "created"
    assert (user.root.stat().st_uid, user.root.stat().st_mode & 0o7777) == (UID, 0o1700)
    one.start().silent()
    assert one.status == "running"
    assert os.stat(f"/proc/{one.pid}/root/bin").st_uid == UID
    one.kill("KILL").silent()
    assert one.wait() == 137
    assert one.status == "stopped"
    one.delete().silent()


def test_without_a_runtime_directory(user: OrdinaryUser, bundle: MakeBundle) -> None:
    """Like runc, it tries /run, and the error says what to do."""
    words = ["env", "-u", "XDG_RUNTIME_DIR", str(user.path), "create", "--bundle"]
    path = str(user.own(bundle()).save().path)
    roots = Path("/run/ociruntime")
    shutil.rmtree(roots, ignore_errors=True)  # root's tests may leave it
    for is_there in (False, True):
        if is_there:
            roots.mkdir()
        try:
            result = user.do(*words, path, "c1")
        finally:
            if is_there:
                roots.rmdir()
        result.failed(str(roots), "permission denied", "XDG_RUNTIME_DIR", "--root")


def test_the_containers_of_another_user(user: OrdinaryUser, container: MakeContainer) -> None:
    """Without permission it reports an error, neither "none" nor a deletion."""
    one = container().created()
    for words in (("state",), ("kill",), ("delete", "--force"), ("start",)):
        command = [str(user.path), "--root", str(one.runtime.root), *words, one.id]
        user.do(*command).failed(str(one.runtime.root), "permission denied")
    assert one.status == "created"


@needs_helpers
@READ_ONLY_SYS
def test_ranges(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """Newuidmap and newgidmap write maps that a user may not write."""
    script = "cat /proc/self/uid_map /proc/self/gid_map; id; touch /tmp/f; chown 5:6 /tmp/f"
    one = user.with_ranges(bundle()).mount("/tmp", "tmpfs", "tmpfs").capabilities("CAP_CHOWN")
    one.process["user"]["additionalGids"] = [7]
    result = make(one.shell(script)).run().ok()
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[:4] == [
        ["0", str(UID), "1"],
        ["1", str(SUBUID), "1000"],
        ["0", str(UID), "1"],
        ["1", str(SUBGID), "1000"],
    ]
    assert lines[4][-1].startswith("groups=7")


@needs_helpers
@pytest.mark.parametrize("kind", ["uid", "gid"])
def test_range_of_others(user: OrdinaryUser, make: Make, bundle: MakeBundle, kind: str) -> None:
    one = user.with_ranges(bundle())
    one.linux[f"{kind}Mappings"][1]["hostID"] = 5000
    make(one).create().failed(
        f"linux.{kind}Mappings[1]",
        f"{kind}s 5000 to 5999: user {ordinary_user.NAME} ",
        f"echo {ordinary_user.NAME}:5000:1000 >>/etc/sub{kind}",
    )


@needs_helpers
def test_helpers_without_privileges(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    one = make(user.with_ranges(bundle()), user.within("setpriv", "--no-new-privs"))
    one.create().failed("linux.gidMappings", "/newgidmap", "no_new_privs is set")


def test_supplementary_groups(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """The id map requires denying setgroups(2): such groups are refused, not ignored."""
    one = user.own(bundle())
    one.process["user"]["additionalGids"] = [0]
    make(one).create().failed("process.user.additionalGids", "setgroups(2)", "linux.gidMappings")


@READ_ONLY_SYS
def test_groups_are_kept_by_annotation(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """Podman's ``--group-add keep-groups``; unmapped groups are shown as nogroup."""
    one = user.own(bundle("id", "-G"))
    one.config["annotations"] = {"run.oci.keep_original_groups": "1"}
    words = user.command("run", "--bundle", str(one.save().path), f"{TAG}groups")
    words[words.index("--clear-groups")] = "--groups=60123"
    assert execute(words).ok().out.split() == ["0", "65534"]


@pytest.mark.parametrize("options", [["ro"], ["rbind", "ro"]])
@READ_ONLY_SYS
def test_sys_of_the_host(
    user: OrdinaryUser, make: Make, bundle: MakeBundle, options: list[str]
) -> None:
    """Without a network namespace it is the host's, and no cgroup in it is writable."""
    one = user.own(bundle())
    sysfs = next(mount for mount in one.config["mounts"] if mount["destination"] == "/sys")
    sysfs["options"] = ["nosuid", "noexec", "nodev", *options]
    sysfs["source"] = "/sys" if "rbind" in options else "sysfs"
    one.shell("grep ' /sys' /proc/self/mounts")
    result = make(one).run().ok()
    mounts = [line.split() for line in result.out.splitlines()]
    assert mounts[0][1:3] == ["/sys", "sysfs"]
    assert len(mounts) > 1
    # Of a bind mount only what is read-only goes all the way down.
    all_the_way = {"ro"} if "rbind" in options else {"ro", "nosuid", "nodev", "noexec"}
    for mount in mounts:
        assert all_the_way <= set(mount[3].split(",")), mount


@READ_ONLY_SYS
def test_proc_of_the_host(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """Without a pid namespace; masked paths are masked there, too."""
    one = user.own(bundle()).without_namespace("pid")
    one.shell("cat /proc/self/status | grep ^NSpid; wc -c </proc/keys; touch /proc/sys/x")
    result = make(one).run()
    name, pid, *more = result.out.split()
    assert (name, more) == ("NSpid:", ["0"])
    assert int(pid) > 1


def test_masked_proc_outside(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """The kernel's rule, and the option of the outer engine."""
    script = 'mount -t tmpfs tmpfs /proc/scsi 2>/dev/null || mount -t tmpfs tmpfs /proc/fs; "$@"'
    outside = user.within("unshare", "-Urm", "sh", "-ec", script, "sh")
    one = user.own(bundle())
    for kind in ("uidMappings", "gidMappings"):
        one.linux[kind][0]["hostID"] = 0
    result = make(one, outside).create()
    result.failed("mounts[0]", "mount proc on", "unmask")


LIMITS = [
    ("memory", {"memory": {"limit": 1 << 26}}, "linux.resources.memory.limit"),
    ("pids", {"pids": {"limit": 5}}, "linux.resources.pids.limit"),
]


@pytest.mark.parametrize(("controller", "resources", "where"), LIMITS)
def test_limits_without_delegation(
    user: OrdinaryUser,
    make: Make,
    bundle: MakeBundle,
    controller: str,
    resources: dict[str, Any],
    where: str,
) -> None:
    one = user.own(bundle())
    one.resources.update(resources)
    make(one).create().failed(where, "cgroup controller", controller, "is not available", "chown")


def test_a_single_device_denied(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """The usual rules only allow what is possible anyway; this one does not."""
    one = user.own(bundle())
    one.resources["devices"].append({"allow": False, "type": "c", "major": 1, "minor": 5})
    make(one).create().failed("linux.resources.devices[1]", "single device")


def test_joined_user_namespace(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """Like the second container of a pod: the first one's, and other namespaces that it owns."""
    first = make(user.own(bundle()).namespace("network")).started()
    second = user.own(bundle("sh", "-c", "cat /proc/self/uid_map; hostname inside; sleep 1000"))
    for kind, name in (("user", "user"), ("network", "net")):
        second.namespace(kind, f"/proc/{first.pid}/ns/{name}")
    for kind in ("uidMappings", "gidMappings"):
        del second.linux[kind]
    second.config["mounts"][2]["options"].remove("gid=5")
    joined = make(second).started()
    for name in ("user", "net"):
        assert os.readlink(f"/proc/{joined.pid}/ns/{name}") == os.readlink(
            f"/proc/{first.pid}/ns/{name}"
        )
    for name in ("mnt", "pid", "uts", "ipc"):
        assert os.readlink(f"/proc/{joined.pid}/ns/{name}") != os.readlink(
            f"/proc/{first.pid}/ns/{name}"
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"oomScoreAdj": -500}, ("process.oomScoreAdj", "CAP_SYS_RESOURCE", "lower")),
        (
            {"rlimits": [{"type": "RLIMIT_NOFILE", "soft": 10, "hard": 1 << 29}]},
            ("process.rlimits[0]", "CAP_SYS_RESOURCE"),
        ),
    ],
)
def test_beyond_an_ordinary_user(
    user: OrdinaryUser,
    make: Make,
    bundle: MakeBundle,
    change: dict[str, Any],
    words: tuple[str, ...],
) -> None:
    one = user.own(bundle())
    one.process.update(change)
    make(one).create().failed(*words)


@READ_ONLY_SYS
def test_higher_oom_score(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    one = user.own(bundle("cat", "/proc/self/oom_score_adj"))
    one.process["oomScoreAdj"] = 700
    assert make(one).run().ok().out == "700\n"


def test_without_a_user_namespace(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    one = user.own(bundle()).without_namespace("user")
    for kind in ("uidMappings", "gidMappings"):
        del one.linux[kind]
    make(one).create().failed("operation not permitted", "spec --rootless")


def test_no_user_namespaces_allowed(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    outside = user.within(
        *("unshare", "-Ur", "sh", "-ec", 'echo 0 >/proc/sys/user/max_user_namespaces; "$@"', "sh")
    )
    one = user.own(bundle())
    for kind in ("uidMappings", "gidMappings"):
        one.linux[kind][0]["hostID"] = 0
    make(one, outside).create().failed("user.max_user_namespaces", "sysctl -w")


def test_unmapped_ids_inside(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    one = user.own(bundle())
    for kind in ("uidMappings", "gidMappings"):
        one.linux[kind][0].update(hostID=0, size=2)
    made = make(one, user.within("unshare", "-Ur"))
    made.create().failed("linux.gidMappings[0]", "ids 0 to 1 are", "/proc/self/gid_map")


@pytest.mark.parametrize("flags", ["-Ur", "-Urm"])
@READ_ONLY_SYS
def test_in_another_user_namespace(
    user: OrdinaryUser, make: Make, bundle: MakeBundle, flags: str
) -> None:
    """It runs as root there, with and without a mount namespace; including bind mounts."""
    one = user.own(bundle()).bind("/etc/passwd", "/tmp/passwd", "ro")
    for kind in ("uidMappings", "gidMappings"):
        one.linux[kind][0]["hostID"] = 0
    one.shell("id -u; grep -c root: /tmp/passwd")
    assert make(one, user.within("unshare", flags)).run().ok().out == "0\n1\n"


@READ_ONLY_SYS
def test_without_a_new_one_in_another(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """Podman's containers share its own user namespace."""
    one = user.own(bundle()).without_namespace("user")
    for kind in ("uidMappings", "gidMappings"):
        del one.linux[kind]
    devpts = next(mount for mount in one.config["mounts"] if mount["type"] == "devpts")
    devpts["options"].remove("gid=5")
    one.shell("id -u; : >/dev/null; touch /dev/shm/x && echo made")
    assert make(one, user.within("unshare", "-Urm")).run().ok().out == "0\nmade\n"


@needs_mount_api("mount(2) does not name the option")
def test_group_of_a_terminal_not_mapped(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    one = user.own(bundle()).without_namespace("user")
    for kind in ("uidMappings", "gidMappings"):
        del one.linux[kind]
    made = make(one, user.within("unshare", "-Urm"))
    made.create().failed("mounts[2]", "gid=5", "not mapped")


@READ_ONLY_SYS
def test_nothing_in_cgroups(user: OrdinaryUser, make: Make, bundle: MakeBundle) -> None:
    """Without delegation, the container stays in its creator's cgroup."""
    if cgroupfs.is_v2():
        mine = Path("/proc/self/cgroup").read_text()
        one = make(user.own(bundle())).started()
        assert Path(f"/proc/{one.pid}/cgroup").read_text() == mine
    else:
        one = make(user.own(bundle())).started()
        assert TAG not in Path(f"/proc/{one.pid}/cgroup").read_text()
