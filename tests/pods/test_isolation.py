"""An app's environment: variables, users, volumes, privileges, limits."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.support import cgroupfs, isolation, processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, lines, shell

# The usual 14 capabilities as a mask.
USUAL = "00000000a80425fb"


def test_who_wins_about_a_variable(ocipod: Ocipod, work: Path) -> None:
    """Precedence: caller, image, --set-env-file, --set-env, --environment, the last wins."""
    image = busybox(work, Env=["V1=image", "V2=image", "V3=image", "V4=image", "PATH=/bin"])
    file = work / "env"
    file.write_text("# five levels\n\n; one key each\nV2=file\nV3=file\nV4=file\n")
    caller = {f"V{level}": "caller" for level in range(5)}
    done = ocipod(
        *("run", "--net=none", "--inherit-env", f"--set-env-file={file}", "--set-env=V3=set"),
        *("--set-env=V4=set", image, "--environment=V4=app", *shell("env")),
        env=caller,
    ).ok()
    found = dict(line.split("=", 1) for line in lines(done))
    values = [found[f"V{level}"] for level in range(5)]
    assert values == ["caller", "image", "file", "set", "app"]
    assert (found["PATH"], found["AC_APP_NAME"]) == ("/bin", "busybox")
    noted = json.loads((ocipod.path(ocipod.pods()[0]) / "apps/busybox/env").read_text())
    own = {"PWD", "OLDPWD", "SHLVL", "_"}  # the shell's
    assert {name for name in noted if noted[name] != found.get(name)} <= own


def test_variables_that_are_always_there(ocipod: Ocipod, work: Path) -> None:
    done = ocipod("run", "--net=none", busybox(work), "--user=web", *shell("env")).ok()
    found = dict(line.split("=", 1) for line in lines(done))
    assert (found["USER"], found["LOGNAME"], found["HOME"]) == ("web", "web", "/srv")
    assert (found["SHELL"], found["container"]) == ("/bin/ash", "ocipod")


def test_a_variable_twice_in_a_file(ocipod: Ocipod, work: Path) -> None:
    file = work / "env"
    file.write_text("A=1\nB=2\nA=3\n")
    done = ocipod("run", "--net=none", f"--set-env-file={file}", busybox(work))
    done.failed(str(file), "line 3", '"A"')


@pytest.mark.parametrize(
    ("words", "who"),
    [
        ((), "0:0 0"),
        (("--user=web",), "33:34 34 90"),
        (("--user=33", "--group=extra"), "33:90 90"),
        (("--user=4000", "--supplementary-gids=7,8"), "4000:0 0 7 8"),
        (("--user=/data/seed", "--group=/data"), "0:34 34"),
    ],
)
def test_users(ocipod: Ocipod, work: Path, words: tuple[str, ...], who: str) -> None:
    check = shell("echo $(id -u):$(id -g) $(grep Groups: /proc/self/status | cut -f2)")
    done = ocipod("run", "--net=none", busybox(work), *words, *check).ok()
    (line,) = lines(done)
    ids, *groups = line.split()
    wanted, *known = who.split()
    assert ids == wanted
    assert set(groups) <= set(known)
    if len(known) > 1:
        assert set(known[1:]) <= set(groups)


def test_a_volume_of_the_host(ocipod: Ocipod, work: Path) -> None:
    """Below a link of the image, and read-only if requested."""
    shared = work / "shared, with: odd=name"
    shared.mkdir()
    (shared / "file").write_text("of the host\n")
    link = work / "shared"
    link.symlink_to(shared)
    done = ocipod(
        *("run", "--net=none", f"--volume=d,kind=host,source={link},readOnly=true"),
        *(busybox(work), "--mount=volume=d,target=/link"),
        *shell("cat /data/file", "touch /data/x", "mkdir -p /a/b", "readlink /link"),
    )
    assert "of the host" in lines(done)
    assert "/data" in lines(done)
    assert "Read-only file system" in done.err
    assert os.listdir(shared) == ["file"]


def test_an_empty_volume_is_shared_and_goes(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    wait = "while [ ! -e /v/told ]; do sleep 0.05; done"
    done = ocipod(
        *("run", "--net=none", "--volume=v,kind=empty,mode=0700,uid=7,gid=9"),
        *("--mount=volume=v,target=/v", image, "--name=a"),
        *shell("stat -c '%a %u %g' /v", "echo hello > /v/telling", "mv /v/telling /v/told"),
        *("---", image, "--name=b", *shell(wait, "cat /v/told")),
    ).ok()
    assert lines(done, "a") == ["700 7 9"]
    assert lines(done, "b") == ["hello"]
    (uuid,) = ocipod.pods()
    assert (ocipod.path(uuid) / "volumes/v/told").exists()
    ocipod("gc", "--grace-period=0s").ok()
    assert ocipod.pods() == []


def test_volumes_of_an_image(ocipod: Ocipod, work: Path) -> None:
    """Their initial content is the image's, and each app has its own."""
    image = busybox(work, Volumes={"/data": {}})
    check = shell(
        "stat -c '%a %u %g' /data", "cat /data/seed", "echo more > /data/more", "ls /data"
    )
    for _ in range(2):
        done = ocipod("run", "--net=none", image, *check).ok()
        assert lines(done) == ["750 33 34", "from the image", "more", "seed"]
        assert "given for /data" in done.err
    uuid = ocipod.pods()[0]
    assert (ocipod.path(uuid) / "volumes/busybox-volume-data/more").exists()


def test_two_apps_of_one_image(ocipod: Ocipod, work: Path) -> None:
    """Each has its own files, and neither sees the other's changes; the tree is unchanged."""
    image = busybox(work)
    done = ocipod(
        *("run", "--net=none", image, "--name=a", *shell("echo a > /etc/mine", "sleep 0.3")),
        *("---", image, "--name=b", *shell("sleep 0.2", "ls /etc/mine /bin/busybox")),
    )
    assert lines(done, "b") == ["/bin/busybox"]
    trees = [path for path in (ocipod.directory / "cas/tree").iterdir() if path.is_dir()]
    assert not any((tree / "rootfs/etc/mine").exists() for tree in trees)


def privileges(ocipod: Ocipod, work: Path, *words: str, user: str = "0") -> dict[str, str]:
    image = busybox(work)
    check = shell("cat /proc/self/status")
    done = ocipod("run", "--net=none", image, *words, f"--user={user}", *check).ok()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines(done))}


def test_privileges(ocipod: Ocipod, work: Path) -> None:
    usual = privileges(ocipod, work)
    assert usual["CapBnd"] == usual["CapEff"] == usual["CapPrm"] == USUAL
    assert usual["CapInh"] == usual["CapAmb"] == "0" * 16
    assert (usual["Seccomp"], usual["NoNewPrivs"]) == ("2", "0")
    other = privileges(ocipod, work, "--caps-retain=CAP_NET_RAW,kill", user="33")
    assert other["CapBnd"] == f"{1 << 13 | 1 << 5:016x}"
    assert other["CapEff"] == "0" * 16
    fewer = privileges(ocipod, work, "--caps-remove=CAP_MKNOD", "--no-new-privileges")
    assert int(fewer["CapBnd"], 16) == int(USUAL, 16) & ~(1 << 27)
    assert fewer["NoNewPrivs"] == "1"


def test_capabilities_cannot_be_retained_and_removed(ocipod: Ocipod, work: Path) -> None:
    words = ("--caps-retain=CAP_KILL", "--caps-remove=CAP_CHOWN")
    ocipod("run", "--net=none", busybox(work), *words).failed("are mutually exclusive")


def test_checks_turned_off(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    words = ("--insecure-options=image,capabilities,paths,seccomp", "run", "--net=none", image)
    done = ocipod(*words, *shell("grep -E 'CapEff|Seccomp:' /proc/self/status; mount")).ok()
    found = lines(done)
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    ours = int(
        next(
            line.split()[1]
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("CapBnd")
        ),
        16,
    )
    assert int(found[0].split()[1], 16) == ((1 << last + 1) - 1) & ours
    assert found[1].split() == ["Seccomp:", "0"]
    assert not any(" on /proc/kcore " in line or " on /proc/sys " in line for line in found)


def test_limits_are_shown_inside(ocipod: Ocipod, work: Path) -> None:
    """A program that sizes itself by its limit finds it, and cannot change it."""
    name = "memory/memory.limit_in_bytes" if not cgroupfs.is_v2() else "memory.max"
    check = shell(f"cat /sys/fs/cgroup/{name}", f"echo 1 > /sys/fs/cgroup/{name}")
    done = ocipod("run", "--net=none", busybox(work), "--memory=64M", *check)
    assert lines(done) == [str(64 << 20)]
    assert "Read-only file system" in done.err


def test_hidden_and_fixed_paths(ocipod: Ocipod, work: Path) -> None:
    check = shell(
        "wc -c < /proc/kallsyms",
        "ls /sys/firmware /sys/fs/ext4 /sys/module | grep -v : | grep -c .",
        "echo 1 > /proc/sys/kernel/core_pattern",
        "echo 1 > /proc/sys/vm/panic_on_oom",
        "mknod /dev/disk b 254 0 && cat /dev/disk",
    )
    done = ocipod("run", "--net=none", busybox(work), *check)
    assert lines(done) == ["0", "0"]
    assert done.err.count("Read-only file system") == 2
    assert "Operation not permitted" in done.err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--seccomp=mode=remove,errno=ENOSYS,mkdir,mkdirat",), "Function not implemented"),
        (("--seccomp=mode=remove,mkdir,mkdirat",), ""),
        (("--seccomp=mode=retain,@appc.io/all",), "made"),
        (("--seccomp=mode=retain,errno=EPERM,@docker/default-whitelist",), "made"),
    ],
)
def test_system_calls(ocipod: Ocipod, work: Path, words: tuple[str, ...], answer: str) -> None:
    done = ocipod("run", "--net=none", busybox(work), *words, *shell("mkdir /m && echo made"))
    assert answer in done.out + done.err
    if not answer:
        assert done.status == 128 + 31, done


def test_limits(ocipod: Ocipod, work: Path) -> None:
    limits = ("--memory=64M", "--cpu=500m", "--pids=9", "--oom-score-adj=500")
    words = ("run", "--detach", "--net=none", busybox(work), *limits)
    uuid = ocipod(*words, *shell("cat /proc/self/oom_score_adj", "sleep 60")).ok().out.strip()
    found = {}
    for top in set(cgroupfs.hierarchies().values()):
        place = top / f"ocipod-{uuid}" / "busybox"
        for name in ("memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us"):
            if (place / name).exists():
                found[name] = (place / name).read_text().strip()
    assert found.get("memory.limit_in_bytes", found.get("memory.max")) == str(64 << 20)
    assert found["pids.max"] == "9"
    assert found.get("cpu.cfs_quota_us", "50000") == "50000"
    log = ocipod.path(uuid) / "logs/busybox.log"
    assert processes.until(lambda: log.read_text().rstrip().endswith("stdout F 500"))
    ocipod("stop", "--force", uuid).ok()


def test_a_read_only_root(ocipod: Ocipod, work: Path) -> None:
    words = ("--readonly-rootfs", "--working-dir=/data/../tmp")
    check = shell("pwd", "touch /x", "echo > /dev/null", "echo > /dev/shm/x && echo shm")
    done = ocipod("run", "--net=none", busybox(work), *words, *check).ok()
    assert lines(done) == ["/tmp", "shm"]
    assert done.err.count("Read-only file system") == 1


def test_names_and_addresses(ocipod: Ocipod, work: Path) -> None:
    done = ocipod(
        *("run", "--net=none", "--hostname=box", "--dns=9.9.9.9", "--dns-search=example.org"),
        *("--hosts-entry=10.0.0.9=db", busybox(work)),
        *shell(
            "hostname",
            "cat /etc/hostname /etc/resolv.conf",
            "grep -c db /etc/hosts",
            "readlink /etc/mtab",
        ),
    ).ok()
    assert lines(done) == [
        "box",
        "box",
        "nameserver 9.9.9.9",
        "search example.org",
        "1",
        "../proc/self/mounts",
    ]


@pytest.mark.parametrize("network", ["none", "host"])
def test_names_as_on_the_host(ocipod: Ocipod, work: Path, network: str) -> None:
    """Without options, names are resolved as on the host, except by servers on its loopback."""
    settings = work / "resolv.conf"
    settings.write_text("nameserver 127.0.0.53\nnameserver 192.0.2.53\nsearch lan\n")
    isolation.mount(str(settings), "/etc/resolv.conf", "", isolation.MS_BIND)
    try:
        show = shell("cat /etc/resolv.conf")
        found = lines(ocipod("run", f"--net={network}", busybox(work), *show).ok())
        own = ocipod("run", f"--net={network}", "--dns=none", busybox(work), *show)
    finally:
        isolation.unmount("/etc/resolv.conf")
    loopback = ["nameserver 127.0.0.53"] if network == "host" else []
    assert found == [*loopback, "nameserver 192.0.2.53", "search lan"]
    assert "No such file" in own.err


def test_a_device_as_a_volume(ocipod: Ocipod, work: Path) -> None:
    if not stat.S_ISCHR(os.stat("/dev/kmsg").st_mode):
        pytest.skip("no /dev/kmsg")
    volume = "--volume=k,kind=host,source=/dev/kmsg"
    mount = "--mount=volume=k,target=/dev/kmsg"
    check = shell("exec 3</dev/kmsg && echo opened")
    image = busybox(work)
    done = ocipod("run", "--net=none", volume, mount, image, "--caps-retain=CAP_SYSLOG", *check)
    assert lines(done) == ["opened"], done


def test_kernel_settings(ocipod: Ocipod, work: Path) -> None:
    done = ocipod(
        *("run", "--net=none", "--sysctl=net.core.somaxconn=77", busybox(work)),
        *("--ulimit=nofile=64:128", "--tmpfs=/link:size=64k", "--tmpfs=/new"),
        *shell(
            "cat /proc/sys/net/core/somaxconn",
            "ulimit -n",
            "ls -A /data",
            "cut -d' ' -f2,3,4 /proc/self/mounts | grep size=64k",
        ),
    ).ok()
    somaxconn, files, mount = lines(done)
    assert (somaxconn, files) == ("77", "64")
    assert mount.startswith("/data tmpfs rw,nosuid,nodev,noexec")


def test_kernel_parameters_of_the_host(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    ocipod("run", "--net=host", "--sysctl=net.core.somaxconn=77", image).failed("--net=host")
    words = ("run", "--net=none", "--ipc=parent", "--sysctl=kernel.shmmax=65536", image)
    ocipod(*words).failed('"kernel.shmmax"', "--ipc=parent")
    ocipod("run", "--net=none", "--sysctl=vm.swappiness=1", image).failed("would change")
    uuid = ocipod("prepare", "--sysctl=net.core.somaxconn=77", image).ok().out.strip()
    ocipod("run-prepared", "--net=host", uuid).failed("--net=host")
    words = ("app", "sandbox", "--detach", "--net=host", "--sysctl=net.core.somaxconn=77")
    ocipod(*words).failed("--net=host")


def test_devices_and_users(ocipod: Ocipod, work: Path) -> None:
    """A device in a pod with a user namespace; such an app cannot be privileged."""
    words = ("run", "--net=none", "--private-users", busybox(work))
    script = shell("head -c1 /dev/mine/full | wc -c", ": >/dev/mine/full && echo written")
    done = ocipod(*words, "--device=/dev/full:/dev/mine/full", *script).ok()
    assert lines(done) == ["1", "written"]
    done = ocipod(*words, "--privileged", *shell("echo started"))
    assert done.status != 0
    assert "a privileged app" in done.err
    uuid = ocipod("prepare", "--private-users", busybox(work)).ok().out.strip()
    ocipod("run-prepared", "--pid=parent", uuid).failed("--private-users and --pid=parent are")
    assert "started" not in done.out
