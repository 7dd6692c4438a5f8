"""The effect of each operation, as a program in the finished container sees it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import unpack_from

import pytest
from ociruntime._system_calls import lib

from ociruntime.base.linux import (
    CLONE_NEWNET,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_RDONLY,
    MS_PRIVATE,
    S_IFCHR,
    S_IFIFO,
)
from ociruntime.runtime.executor.protocol import Message, go
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Operation
from tests.support import executor, rootfs
from tests.support.executor import READY, Outcome, before, entered, plan_of, run, shell
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("nothing_left", "each_build", "each_kernel")

PROC = o.mount(
    fstype="proc", source="proc", target="/proc", options=[], attributes=0, propagation=0,
    flags=ops.MOUNT_REAL_DIRECTORY, id_map=ops.NO_SLOT, label="",
)  # fmt: skip

DEVPTS = o.mount(
    fstype="devpts", source="devpts", target="/dev/pts", options=["newinstance"], attributes=0,
    propagation=0, flags=0, id_map=ops.NO_SLOT, label="",
)  # fmt: skip

CONSOLE = o.console(rows=11, columns=33, uid=1000, flags=ops.CONSOLE_BIND | ops.CONSOLE_CONTROL)


@pytest.fixture
def root(work: Path, programs: dict[str, Path]) -> Path:
    path = work / "root"
    rootfs.build(path, programs)
    return path


def tmpfs(
    target: str, *options: str, attributes: int = 0, flags: int = 0, label: str = ""
) -> Operation:
    return o.mount(
        fstype="tmpfs", source="t", target=target, options=list(options), attributes=attributes,
        propagation=0, flags=flags, id_map=ops.NO_SLOT, label=label,
    )  # fmt: skip


def bind(source: Path, target: str, slot: int = ops.NO_SLOT, set_attributes: int = 0) -> Operation:
    return o.bind(
        slot=slot, source=str(source), target=target, recursive=1, set_attributes=set_attributes,
        clear_attributes=0, set_recursive=0, clear_recursive=0, propagation=0, flags=0,
        id_map=ops.NO_SLOT, id_map_recursive=0,
    )  # fmt: skip


def in_root(root: Path, script: str, *steps: Operation) -> Outcome:
    """Enter the root with these done before and run the script."""
    return run(plan_of(*entered(root, *steps), shell(script))).ok()


def test_mount(root: Path) -> None:
    (root / "tmp").chmod(0o1711)
    steps = (
        tmpfs("/tmp", "size=8k", attributes=MOUNT_ATTR_NOEXEC, flags=ops.MOUNT_INHERIT_MODE),
        tmpfs("/made/for/it", "mode=700"),
    )
    script = """
        stat -c %a /tmp /made /made/for/it
        df -k /tmp | tail -n 1 | awk '{print $2}'
        cp /bin/busybox /tmp/x 2>&1 | grep -o 'No space'
    """
    assert in_root(root, script, *steps, PROC).output == "1711\n755\n700\n8\nNo space\n"


def test_bind(root: Path, work: Path) -> None:
    (work / "tree").mkdir()
    (work / "tree" / "name").write_text("of the tree\n")
    (work / "file").write_text("of the file\n")
    steps = (
        bind(work / "tree", "/made/tree", set_attributes=MOUNT_ATTR_RDONLY),
        bind(work / "file", "/made/file"),
        bind(Path("/dev/null"), "/made/null"),
    )
    script = "cat /made/tree/name /made/file; echo x > /made/null; touch /made/tree/x || echo ro"
    output = in_root(root, script, *steps).output
    assert output.startswith("of the tree\nof the file\n")
    assert "Read-only" in output
    assert output.endswith("ro\n")


def test_bind_of_a_tree_opened_before(root: Path, work: Path) -> None:
    (work / "file").write_text("through the slot\n")
    last = ops.SLOTS - 1
    opened = o.open_tree(
        slot=last,
        source=str(work / "file"),
        follow=1,
        recursive=0,
        id_map=ops.NO_SLOT,
        id_map_recursive=0,
    )
    steps = [opened, *entered(root, bind(work / "file", "/file", slot=last))]
    assert run(plan_of(*steps, shell("cat /file"))).ok().output == "through the slot\n"


def test_set_attributes(root: Path) -> None:
    steps = (
        tmpfs("/tmp"),
        o.set_attributes(
            target="/tmp", set_attributes=MOUNT_ATTR_RDONLY, clear_attributes=0, recursive=0,
            propagation=MS_PRIVATE,
        ),
        o.set_attributes(
            target="/", set_attributes=MOUNT_ATTR_RDONLY, clear_attributes=0, recursive=0,
            propagation=0,
        ),
    )  # fmt: skip
    script = "for d in /tmp /; do touch $d/x 2>&1 | grep -o Read-only; done"
    assert in_root(root, script, *steps).output == "Read-only\nRead-only\n"


def test_reconfigure(root: Path) -> None:
    steps = (tmpfs("/tmp", "size=64k"), o.reconfigure(target="/tmp", options=["size=8m", "sync"]))
    script = "cat /bin/busybox > /tmp/x && echo fits"
    assert in_root(root, script, *steps).output == "fits\n"


def test_nodes_and_links(root: Path) -> None:
    (root / "dev" / "old").symlink_to("elsewhere")
    (root / "dev" / "kept").symlink_to("elsewhere")
    steps = (
        o.mkdir(target="/made/of/several", mode=0o711),
        _device("/dev/null", S_IFCHR | 0o666, 1000, 50),
        _device("/dev/null", S_IFCHR | 0o666, 1000, 50),
        _device("/made/fifo", S_IFIFO | 0o640, 0, 0),
        _link("/dev/old", "new", "", 1),
        _link("/dev/old", "new", "", 1),
        _link("/dev/kept", "new", "", 0),
        _link("/dev/conditional", "new", "/etc/passwd", 0),
        _link("/dev/never", "new", "/no/such", 0),
    )
    script = """
        stat -c '%a %u:%g %F %t:%T' /made/of/several /dev/null /made/fifo
        ls /dev
        for link in old kept conditional; do readlink /dev/$link; done
    """
    assert in_root(root, script, *steps).output.splitlines() == [
        "711 0:0 directory 0:0",
        "666 1000:50 character special file 1:3",
        "640 0:0 fifo 0:0",
        *("conditional", "kept", "null", "old"),
        *("new", "elsewhere", "new"),
    ]


def _device(target: str, mode: int, uid: int, gid: int) -> Operation:
    return o.device(target=target, mode=mode, major=1, minor=3, uid=uid, gid=gid, source="")


def _link(target: str, text: str, requires: str, replace: int) -> Operation:
    return o.symlink(target=target, text=text, requires=requires, replace=replace)


def test_mask_and_readonly(root: Path) -> None:
    (root / "secret").write_text("x")
    (root / "hidden").mkdir()
    (root / "hidden" / "name").touch()
    (root / "frozen").mkdir()
    names = ("secret", "hidden", "none", "secret/none")
    masks = [o.mask(target=f"/{name}", context="") for name in names]
    frozen = [o.readonly(target=f"/{name}") for name in ("frozen", "none", "secret/none")]
    script = """
        wc -c < /secret; ls -A /hidden
        for d in hidden frozen; do touch /$d/x 2>/dev/null || echo $d; done
    """
    assert in_root(root, script, *masks, *frozen).output == "0\nhidden\nfrozen\n"


def test_names_and_loopback(root: Path) -> None:
    steps = [
        *before(root, CLONE_NEWNET),
        PROC,
        o.pivot_root(),
        o.hostname(name="host"),
        o.domainname(name="domain"),
        o.loopback(),
        shell("cat /proc/sys/kernel/hostname /proc/sys/kernel/domainname; ip addr show lo"),
    ]
    output = run(plan_of(*steps)).ok().output
    assert output.startswith("host\ndomain\n")
    assert "LOOPBACK,UP" in output


def test_label_of_a_root(root: Path) -> None:
    """The label is an attribute, which a tmpfs keeps also without SELinux."""
    label = "system_u:object_r:container_file_t:s0:c1,c2"
    script = "import os, sys; print(os.getxattr(sys.argv[1], 'security.selinux').decode())"
    python = [sys.executable, "-c", f"{script}; sys.exit(3)", f"{root}/tmp"]
    look = o.hook(
        source=python[0],
        args=python,
        env=[],
        with_home=0,
        timeout=0,
        state_before="",
        state_after="",
    )
    said = run(plan_of(*before(root), tmpfs("/tmp", label=label), look)).failure
    assert said is not None
    assert said.detail == f"{label}\n"


@pytest.mark.skipif(Path("/sys/fs/selinux/enforce").exists(), reason="the host has SELinux")
def test_context_reaches_the_kernel(root: Path) -> None:
    """Which refuses it, without SELinux."""
    context = "system_u:object_r:container_file_t:s0:c1,c2"
    fact = run(plan_of(*before(root), o.mask(target="/tmp", context=context))).fact
    call, argument = (
        ("mount", "tmpfs") if executor.lacks("fsconfig") else ("fsconfig", f"context={context}")
    )
    assert fact == (3, call, errno.EINVAL, argument)
    tail = run(plan_of(*before(root), o.mask(target="/tmp", context="c" * 1024))).fact
    assert tail == (3, "mount", errno.ENAMETOOLONG, "context")


def test_move_root(root: Path) -> None:
    plan = plan_of(*before(root), o.move_root(uncovered=[]), shell("cat /etc/hostname"))
    assert run(plan).ok().output == "template\n"


@pytest.mark.needs_call("statx", reason="fdinfo has no unique ids")
def test_another_mount_with_the_id_of_one_that_was_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that shares the root removes a mount point: its mount goes, and its id is
    reused."""
    others = tuple(call for call in executor.refused if call != "statx")
    monkeypatch.setattr(executor, "refused", others)
    for name in ("gone", "kept"):
        (root / name).mkdir()

    def remove(message: Message, channel: socket.socket) -> None:
        if message.kind == ops.MESSAGE_STAGE:
            (root / "gone").rmdir()
            go(channel)

    steps = (
        *before(root),
        tmpfs("/gone"),
        o.sync(stage=ops.STAGE_HOOKS),
        tmpfs("/kept", attributes=MOUNT_ATTR_RDONLY),
        o.symlink(target="/gone", text="kept", requires="", replace=0),
        o.set_attributes(
            target="/gone", set_attributes=0, clear_attributes=MOUNT_ATTR_RDONLY, recursive=0,
            propagation=0,
        ),
    )  # fmt: skip
    plan = plan_of(*steps, o.pivot_root(), shell("true"))
    for _ in range(5):  # another process on this machine may take the id first
        assert run(plan, answer=remove).fact == (len(steps) - 1, "verify", errno.ESTALE, "/gone")
        (root / "gone").unlink()
        (root / "gone").mkdir()


@pytest.mark.parametrize("restriction", ["mask", "readonly"])
@pytest.mark.parametrize("target", ["/proc", "/proc/sys", "/proc/none"])
def test_what_was_mounted_is_restricted(root: Path, restriction: str, target: str) -> None:
    """Another container renames the mount point's directory: nothing is left uncovered."""
    step = o.mask(target=target, context="") if restriction == "mask" else o.readonly(target=target)

    def rename(message: Message, channel: socket.socket) -> None:
        if message.kind == ops.MESSAGE_STAGE:
            (root / "proc").rename(root / "moved")
            go(channel)

    steps = (*before(root), PROC, o.sync(stage=ops.STAGE_HOOKS), step)
    fact = run(plan_of(*steps, o.pivot_root(), shell("true")), answer=rename).fact
    assert fact == (len(steps) - 1, "open", errno.ESTALE, target)


def test_hook(root: Path) -> None:
    """The state around the pid; own group, nothing open, the usual umask, in / once inside."""
    script = "cat > /seen; umask >> /seen; pwd >> /seen; ls /proc/self/fd | wc -l >> /seen"
    steps = (
        o.hook(
            source="/bin/busybox", args=["sh", "-c", script], env=["PATH=/bin"],
            with_home=0, timeout=10,
            state_before="<", state_after=">\n",
        ),
        shell("cat /seen"),
    )  # fmt: skip
    lines = run(plan_of(*entered(root, PROC), *steps)).ok().output.splitlines()
    assert lines[0].strip("<>").isdigit()
    assert lines[1:] == ["0022", "/", "4"]


def test_console(root: Path) -> None:
    """/dev/console is the terminal; the host gets its master."""
    masters: list[int] = []

    def answer(message: Message, channel: socket.socket) -> None:
        if message.kind == ops.MESSAGE_CONSOLE:
            masters.append(message.fd)
        elif message.kind == ops.MESSAGE_STAGE:
            go(channel)

    steps = (
        *entered(root, DEVPTS, CONSOLE),
        shell("tty; stty size; stat -c %u /dev/pts/0; test -c /dev/console && echo console"),
    )
    outcome = run(plan_of(*steps), answer=answer).ok()
    terminal = Terminal(masters.pop())
    assert terminal.read_all().split() == ["/dev/pts/0", "11", "33", "1000", "console"]
    terminal.close()
    assert outcome.output == ""


IN_OPEN, IN_ISDIR = 0x20, 0x40000000


@contextmanager
def opens(directory: Path) -> Iterator[Callable[[], list[str]]]:
    """Watch a directory: the function returns the files in it that were opened since."""
    watch = lib.oci_inotify()
    assert watch >= 0
    assert lib.oci_watch(watch, os.fsencode(directory), IN_OPEN) >= 0

    def opened() -> list[str]:
        names = []
        try:
            events = os.read(watch, 1 << 14)
        except BlockingIOError:
            events = b""
        while events:
            _, mask, _, length = unpack_from("=iIII", events)
            if not mask & IN_ISDIR:
                names.append(events[16 : 16 + length].rstrip(b"\0").decode())
            events = events[16 + length :]
        return names

    yield opened
    os.close(watch)


@pytest.mark.parametrize("kind", ["file", "fifo", "device", "link", "directory"])
def test_no_terminal_of_the_image(root: Path, kind: str) -> None:
    """CVE-2025-52565: what lies at the place of devpts's ptmx is not opened as one."""
    place = root / "dev" / "pts" / "ptmx"
    place.parent.mkdir()
    if kind == "file":
        place.touch()
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(5, 2))
    elif kind == "link":
        place.symlink_to("/dev/ptmx")
    else:
        place.mkdir()
    with opens(place.parent) as opened:
        fact = run(plan_of(*before(root), o.console(rows=0, columns=0, uid=0, flags=0))).fact
        assert opened() == []  # a device may act when it is opened
    assert fact is not None
    assert fact[0] == 3
    assert fact[1] in {"open", "verify"}
    assert fact[3] == "/dev/pts/ptmx"


def test_born_by_clone_init(root: Path) -> None:
    """The container's init in its own pid namespace, which the host knows by another pid."""
    steps = [
        o.unshare(flags=CLONE_NEWTIME),
        o.write_proc(path="self/timens_offsets", data="boottime 86400000 0\n"),
        o.clone_init(flags=CLONE_NEWPID),
        *entered(root, PROC),
        READY,
        o.wait_start(),
        shell("echo $$; readlink /proc/self; cut -d. -f1 /proc/uptime"),
    ]
    outcome = run(plan_of(*steps)).ok()
    pid, seen, uptime = map(int, outcome.output.split())
    assert (pid, seen) == (1, 2)
    assert uptime > 86400000
    assert outcome.messages[0].kind == ops.MESSAGE_INIT_PID


def test_executor_ends_with_its_creator(root: Path) -> None:
    """Before it is ready nothing knows of the container: it must not stay."""

    def hang_up(message: Message, channel: socket.socket) -> None:
        channel.shutdown(socket.SHUT_RDWR)

    stage = o.sync(stage=ops.STAGE_HOOKS)
    outcome = run(plan_of(*before(root), stage, shell("echo ran")), answer=hang_up)
    assert (outcome.status, outcome.output) == (1, "")
