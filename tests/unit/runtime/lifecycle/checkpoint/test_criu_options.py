"""Translate the command line to criu_opts, and choose the external mounts for CRIU."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ContainerError, StepError, UsageError
from ociruntime.base.mountinfo import Mount, parse_mountinfo
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.runtime.cli.checkpoint_and_restore import checkpoint_options
from ociruntime.runtime.cli.help import PROGRAM
from ociruntime.runtime.cli.options import GLOBAL_OPTIONS
from ociruntime.runtime.host.criu_messages import encode
from ociruntime.runtime.lifecycle.checkpoint.criu_options import (
    CriuOptions,
    cgroup_roots,
    dump_options,
    restore_options,
)
from ociruntime.runtime.lifecycle.checkpoint.external_mounts import (
    check_restricted,
    find_source,
    from_host,
    name_mounts,
    shown_at,
    unmet,
    wanted_flags,
)
from ociruntime.runtime.lifecycle.checkpoint.restore import excess, thread_statuses


def given(verb: str, *argv: str) -> CriuOptions:
    command = PROGRAM.command(verb)
    arguments = Arguments()
    parse([*argv, "an-id"], (command.options, GLOBAL_OPTIONS), arguments)
    return checkpoint_options(arguments)


def dumped(*argv: str) -> dict[str, Any]:
    options = given("checkpoint", *argv)
    fields = dump_options(options, {}, pid=5, root="/r", freezer="/f", external=[])
    encode("criu_opts", fields)  # every name is one of rpc.proto
    return fields


def restored(*argv: str) -> dict[str, Any]:
    lists: dict[str, Any] = {"external": [], "cgroups": [], "inherited": [], "joined": []}
    fields = restore_options(given("restore", *argv), {}, root="/r", **lists)
    encode("criu_opts", fields)
    return fields


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--tcp-established", {"tcp_established": True}),
        ("--tcp-skip-in-flight", {"tcp_skip_in_flight": True}),
        ("--ext-unix-sk", {"ext_unix_sk": True}),
        ("--shell-job", {"shell_job": True}),
        ("--file-locks", {"file_locks": True}),
        ("--link-remap", {"link_remap": True}),
        ("--leave-running", {"leave_running": True}),
        ("--auto-dedup", {"auto_dedup": True}),
        ("--lazy-pages", {"lazy_pages": True}),
        ("--pre-dump", {"track_mem": True}),
        ("--parent-path=../first", {"parent_img": "../first"}),
        ("--status-fd=7", {"status_fd": 7}),
        ("--page-server=[::1]:27", {"ps": {"address": "::1", "port": 27}}),
        ("--empty-ns=network", {"empty_ns": 0x40000000}),
        ("--manage-cgroups-mode=strict", {"manage_cgroups_mode": 5}),
        ("--manage-cgroups-mode=ignore", {"manage_cgroups_mode": 0}),
        ("--network-lock=skip", {"network_lock": 3}),
    ],
)
def test_options_of_checkpoint(option: str, expected: dict[str, Any]) -> None:
    assert {k: v for k, v in dumped(option).items() if dumped().get(k) != v} == expected


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--tcp-close", {"tcp_close": True}),
        ("--lsm-profile=apparmor:x", {"lsm_profile": "apparmor:x"}),
        ("--lsm-mount-context=a:b", {"lsm_mount_context": "a:b"}),
        ("--lazy-pages", {"lazy_pages": True}),
        ("--network-lock=nftables", {"network_lock": 2}),
    ],
)
def test_options_of_restore(option: str, expected: dict[str, Any]) -> None:
    assert {k: v for k, v in restored(option).items() if restored().get(k) != v} == expected


def test_paths_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:  # noqa: ANN401
    monkeypatch.chdir(tmp_path)
    options = given("checkpoint")
    assert options.image_path == options.work_path == f"{tmp_path}/checkpoint"
    assert given("checkpoint", "--work-path", "w").work_path == f"{tmp_path}/w"


@pytest.mark.parametrize(
    "option", ["--page-server=here", "--page-server=:1", "--page-server=a:0", "--empty-ns=pid"]
)
def test_refused_values(option: str) -> None:
    with pytest.raises(UsageError):
        given("checkpoint", option)


def test_a_file_of_options_by_annotation() -> None:
    annotations = {"org.criu.config": "/etc/criu/mine.conf"}
    fields = dump_options(
        given("checkpoint"), annotations, pid=5, root="/r", freezer="", external=[]
    )
    assert fields["config_file"] == "/etc/criu/mine.conf"
    assert "freeze_cgroup" not in fields


def test_cgroups_of_all_hierarchies() -> None:
    text = "9:name=systemd:/a\n2:cpu,cpuacct:/b:c\n0::/d\n"
    assert cgroup_roots(text) == [
        {"path": "/d"},
        {"ctrl": "name=systemd", "path": "/a"},
        {"ctrl": "cpu,cpuacct", "path": "/b:c"},
    ]


MOUNTINFO = r"""
1 0 0:40 / / rw - overlay overlay rw
2 1 0:50 / /proc rw,nosuid - proc proc rw
3 2 0:50 /sys /proc/sys ro - proc proc rw
4 2 0:6 /null /proc/keys rw - devtmpfs devtmpfs rw
5 1 0:51 / /dev rw - tmpfs tmpfs rw
6 1 8:1 /srv/a\040b /data ro,nosuid - ext4 /dev/sda rw
7 1 0:30 / /dev/shm rw - tmpfs shm rw
8 1 0:22 / /sys ro - sysfs sysfs ro
9 1 0:40 /inner /again rw - overlay overlay rw
10 1 0:31 /x /sys/fs/cgroup rw - cgroup2 cgroup rw
"""
HOST = {"0:40", "0:6", "8:1", "0:30", "0:22", "0:31"}


def test_which_mounts_are_the_host_s() -> None:
    mounts = parse_mountinfo(MOUNTINFO)
    assert [each.root for each in mounts if each.target == "/data"] == ["/srv/a b"]
    assert from_host(mounts, HOST, True) == ["/proc/keys", "/data", "/dev/shm"]
    assert from_host(mounts, HOST, False)[-1] == "/sys/fs/cgroup"


@pytest.mark.parametrize("target", ["/a]:m1", "/a\nb", "/a]"])
def test_names_that_would_be_read_as_options(target: str) -> None:
    config: Any = {}
    with pytest.raises(ContainerError, match=r"the mount at .*CRIU"):
        name_mounts([target], 1, "/b", config)


def test_sources_come_from_the_new_configuration() -> None:
    config: Any = {
        "mounts": [
            {"destination": "/data", "source": "elsewhere", "options": ["rbind"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup"},
            {"destination": "/proc", "type": "proc", "source": "proc"},
        ],
        "linux": {"maskedPaths": ["/proc/keys"]},
    }
    cgroups = (("cpu,cpuacct", "/c/cpu"), ("name=systemd", "/c/systemd"), ("", "/c/unified"))
    for name, source in {
        "/data": "/b/elsewhere",
        "/proc/keys": "/dev/null",
        "/dev/null": "/dev/null",
        "/sys/fs/cgroup/cpu,cpuacct": "/c/cpu",
        "/sys/fs/cgroup/systemd": "/c/systemd",
    }.items():
        assert find_source(name, "/b", config, cgroups) == source
    for name in ("/etc", "/proc", "/data/..", "/data/x"):
        with pytest.raises(ContainerError, match=r"not in config\.json"):
            find_source(name, "/b", config, cgroups)


def test_flags_by_the_record_and_by_the_configuration() -> None:
    config: Any = {"mounts": [{"destination": "/a", "source": "/x", "options": ["bind", "ro"]}]}
    recorded = [["/a", "/a", "rw,relatime"], ["/b", "/b", "rw,nosuid,noexec"]]
    wanted = wanted_flags(recorded, config, {}, {}, set())
    assert wanted == {"/a": 1, "/b": 10}
    now = [Mount("", "", "/a", "", "ro"), Mount("", "", "/b", "", "rw,nodev,relatime")]
    assert unmet(now, wanted) == {"/b": 2 | 8}


def test_a_restricted_mount_is_one_that_mountinfo_shows_there() -> None:
    """A path can lead to another mount, for instance over a link in the mount that covers it."""
    shown = [Mount("", "", "/a/b", "", "", 7), Mount("", "", "/proc/sys", "", "", 9)]
    check_restricted("/a/b", 7, shown)
    with pytest.raises(StepError, match="another mount"):
        check_restricted("/a/b", 9, shown)


def test_what_is_mounted_at_a_target(tmp_path: Path) -> None:
    """A directory in the path that was replaced with a link must not reveal a file of the host."""
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    assert [mount.target for mount in mounts].count("/proc") == 1
    shown = shown_at(os.getpid(), mounts)
    proc = os.stat("/proc")
    assert shown["/proc"] == (proc.st_dev, proc.st_ino)
    (tmp_path / "link").symlink_to("/proc")
    exchanged = Mount("", "", f"{tmp_path}/link", "", "", 7)
    with pytest.raises(StepError, match="another mount"):
        shown_at(os.getpid(), [*mounts, exchanged])
    missing = Mount("", "", f"{tmp_path}/missing", "", "", 7)
    assert shown_at(os.getpid(), [missing]) == {missing.target: None}


X, Y = (1, 1), (1, 2)  # what stat(2) says of two directories


@pytest.mark.parametrize(
    ("recorded", "shown", "wanted"),
    [
        pytest.param([["/a", "/decoy", "rw"]], {"/a": X, "/": Y}, {"/a": 1}, id="another target"),
        pytest.param([], {"/a": X}, {"/a": 1}, id="none"),
        pytest.param([["/w", "/a", "rw"]], {"/a": X}, {"/a": 1}, id="named after another"),
        pytest.param([["/a", "/link", "rw"]], {"/link": X}, {"/link": 1}, id="over a link"),
        pytest.param([], {"/link": X}, {"/link": 1}, id="over a link, none"),
        pytest.param([["/same", "/s", "rw"]], {"/s": X}, {"/s": 0}, id="the writable one of two"),
        pytest.param([["/w", "/w", "rw"]], {"/w": Y, "/": X}, {"/w": 0}, id="writable"),
        pytest.param([], {"/tmp": None, "/run": (9, 9)}, {}, id="not from config.json"),
    ],
)
def test_a_mount_is_recognised_by_its_source(
    recorded: list[list[str]], shown: dict[str, tuple[int, int] | None], wanted: dict[str, int]
) -> None:
    """The record is untrusted: it cannot weaken the restrictions of config.json."""
    config: Any = {
        "mounts": [
            {"destination": "/a", "source": "/x", "options": ["bind", "ro"]},
            {"destination": "/same", "source": "/x", "options": ["bind"]},
            {"destination": "/w", "source": "/y", "options": ["bind"]},
        ]
    }
    found = wanted_flags(recorded, config, shown, {"/a": X, "/same": X, "/w": Y}, set())
    assert {target: found[target] for target in wanted} == wanted


def test_privileges_are_those_of_each_thread() -> None:
    ready, done = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    try:
        found = thread_statuses(os.getpid())
    finally:
        done.set()
        thread.join()
    pids = {line for text in found for line in text.splitlines() if line.startswith("Pid:")}
    assert {f"Pid:\t{os.getpid()}", f"Pid:\t{thread.native_id}"} <= pids
    with pytest.raises(FileNotFoundError):
        thread_statuses(-1)


STATUS = """\
State:\tS (sleeping)
CapInh:\t0000000000000000
CapPrm:\t0000000000000020
CapBnd:\t0000000000000020
NoNewPrivs:\t1
Seccomp:\t2
"""


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (STATUS, ""),
        (STATUS.replace("0020", "0000"), ""),
        (STATUS.replace("CapPrm:\t0000000000000020", "CapPrm:\t0000000000002020"), "CAP_NET_RAW"),
        (STATUS.replace("CapPrm:\t0000000000000020", "CapPrm:\t0000000400000020"), "CAP_SYSLOG"),
        (STATUS.replace("Privs:\t1", "Privs:\t0"), "noNewPrivileges"),
        (STATUS.replace("Seccomp:\t2", "Seccomp:\t0"), "linux.seccomp"),
        (STATUS.replace("Privs:\t1", "Privs:\t0").replace("S (", "Z ("), ""),
    ],
)
def test_privileges(status: str, expected: str) -> None:
    own = ["CAP_KILL"]
    config: Any = {
        "process": {
            "noNewPrivileges": True,
            "capabilities": {"bounding": [*own, "CAP_SYSLOG"], "permitted": own},
        },
        "linux": {"seccomp": {"defaultAction": "SCMP_ACT_ALLOW"}},
    }
    found = excess(status, config)
    assert expected in found
    assert bool(found) == bool(expected)


def test_nodes_of_the_host_become_read_only() -> None:
    """Masks and devices, whatever the images say; not a bind mount of config.json."""
    config: Any = {"mounts": [{"destination": "/w", "source": "/dev/zero", "options": ["bind"]}]}
    shown = {"/proc/keys": X, "/elsewhere": X, "/w": Y, "/data": (2, 2)}
    wanted = wanted_flags([["/proc/keys", "/", "rw,nosuid"]], config, shown, {"/w": Y}, {X, Y})
    assert wanted == {"/": 2, "/proc/keys": 1, "/elsewhere": 1, "/w": 0}
