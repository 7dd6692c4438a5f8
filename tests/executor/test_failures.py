"""Every operation that can fail reports its name, the call, the errno and the object."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ociruntime.base.linux import CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUSER, S_IFCHR, S_IFIFO
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan.operation_table import MOUNT_REAL_DIRECTORY, NO_SLOT, OPERATIONS, SLOTS
from ociruntime.runtime.plan.plan import Operation
from tests.support import rootfs
from tests.support.executor import before, entered, plan_of, run
from tests.support.refusal import GROUPS, needs_mount_api

pytestmark = pytest.mark.usefixtures("nothing_left", "each_build")

Steps = Callable[[Path], list[Operation]]
LONG = "n" * 256
NOBODY = 0xFFFFFFFF


def mount(
    fstype: str, target: str, *options: str, flags: int = 0, propagation: int = 0, label: str = ""
) -> Steps:
    """A new filesystem in the root."""
    return lambda root: [
        *before(root),
        o.mount(
            fstype=fstype, source="x", target=target, options=list(options),
            attributes=0, propagation=propagation, flags=flags, id_map=NO_SLOT, label=label,
        ),
    ]  # fmt: skip


def bind(source: str, target: str, slot: int = NO_SLOT, flags: int = 0) -> Steps:
    """A path of the host in the root; {root} stands for it."""
    return lambda root: [
        *before(root),
        o.bind(
            slot=slot, source=source.format(root=root), target=target, recursive=1,
            set_attributes=0, clear_attributes=0, set_recursive=0, clear_recursive=0,
            propagation=0, flags=flags, id_map=NO_SLOT, id_map_recursive=0,
        ),
    ]  # fmt: skip


def inside(*steps: Operation) -> Steps:
    """Before the root is entered."""
    return lambda root: [*before(root), *steps]


def after(*steps: Operation) -> Steps:
    """In the root."""
    return lambda root: [*entered(root), *steps]


def alone(*steps: Operation) -> Steps:
    """Without a root."""
    return lambda root: list(steps)


def attributes(target: str, propagation: int = 0) -> Operation:
    return o.set_attributes(
        target=target, set_attributes=1, clear_attributes=0, recursive=0, propagation=propagation
    )


def again(target: str, *options: str) -> Operation:
    return o.reconfigure(target=target, options=list(options))


def device(target: str, kind: int = S_IFCHR, major: int = 1, minor: int = 3) -> Operation:
    return o.device(
        target=target, mode=kind | 0o666, major=major, minor=minor, uid=0, gid=0, source=""
    )


def link(target: str, replace: int = 0, text: str = "x") -> Operation:
    return o.symlink(target=target, text=text, requires="", replace=replace)


def tree(source: str, slot: int = 0, id_map: int = NO_SLOT, follow: int = 1) -> Operation:
    return o.open_tree(
        slot=slot, source=source, follow=follow, recursive=0, id_map=id_map, id_map_recursive=0
    )


def id_map(lines: str, slot: int = 0) -> Operation:
    return o.id_map(slot=slot, uid_map=lines, gid_map=lines)


def hook(source: str, *args: str, timeout: int = 0) -> Operation:
    return o.hook(
        source=source, args=[source, *args], env=[], with_home=0, timeout=timeout,
        state_before="", state_after="",
    )  # fmt: skip


def capabilities(effective: int = 0, permitted: int = 0, ambient: int = 0) -> Operation:
    return o.capabilities(effective=effective, permitted=permitted, inheritable=0, ambient=ambient)


def user(uid: int, gid: int, *groups: int, set_groups: int = 0) -> Operation:
    return o.user(uid=uid, gid=gid, groups=list(groups), set_groups=set_groups)


def scheduler(policy: int) -> Operation:
    return o.scheduler(policy=policy, flags=0, nice=0, priority=0, runtime=0, deadline=0, period=0)


def find(file: str, path: str = "/etc:/bin") -> Operation:
    return o.find_executable(file=file, path=path)


def namespace(source: str, kind: int) -> list[Operation]:
    return [o.open_namespace(slot=0, source=source), o.join_namespace(slot=0, kind=kind)]


def filter_of(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("=HBBI", *one) for one in instructions)


ALLOW = filter_of((0x06, 0, 0, 0x7FFF0000))

# name: (steps, of which the last one fails; call, errno, argument)
CASES: dict[str, tuple[Steps, str, int, str]] = {
    "namespace-missing": (
        alone(o.open_namespace(slot=0, source="/no/such")), "open", errno.ENOENT, "/no/such"),
    "namespace-slot": (
        alone(o.open_namespace(slot=SLOTS, source="/proc/self/ns/uts")),
        "read", errno.EBADSLT, "slot"),
    "namespace-of-another-type": (
        alone(*namespace("/proc/self/ns/uts", CLONE_NEWNET)), "setns", errno.EINVAL, ""),
    "namespace-is-a-file": (
        alone(*namespace("/etc/passwd", CLONE_NEWNET)), "setns", errno.EINVAL, ""),
    "namespace-is-a-fifo": (
        lambda root: namespace(f"{root}/fifo", CLONE_NEWNET), "setns", errno.EINVAL, ""),
    "namespace-not-opened": (
        alone(o.join_namespace(slot=3, kind=0)), "setns", errno.EBADF, ""),
    "unshare-nonsense": (alone(o.unshare(flags=1)), "unshare", errno.EINVAL, ""),
    "become-root-unmapped": (
        alone(o.unshare(flags=CLONE_NEWUSER), o.become_root()), "setresgid", errno.EINVAL, "0"),
    "clone-init-nonsense": (
        alone(o.clone_init(flags=0x200 | CLONE_NEWNS)), "clone3", errno.EINVAL, ""),
    "proc-missing": (
        alone(o.write_proc(path="sys/no/such", data="x")), "open", errno.ENOENT, "sys/no/such"),
    "proc-refuses-value": (
        alone(o.write_proc(path="self/oom_score_adj", data="5000")),
        "write", errno.EINVAL, "self/oom_score_adj"),
    "proc-way-out": (
        alone(o.write_proc(path="self/root/etc/hostname", data="x")),
        "open", errno.ELOOP, "self/root/etc/hostname"),
    "proc-dots": (
        alone(o.write_proc(path="../etc/hostname", data="x")),
        "open", errno.EXDEV, "../etc/hostname"),
    "propagation-nonsense": (
        inside(o.propagation(flags=(1 << 18) | (1 << 19))), "mount", errno.EINVAL, "/"),
    "tree-missing": (
        alone(tree("/no/such")),
        "open_tree", errno.ENOENT, "/no/such"),
    "tree-behind-a-link": (
        alone(o.shared_root(source="/"), tree("/proc/self/fd", follow=0)),
        "open_tree", errno.ELOOP, "/proc/self/fd"),
    "tree-slot": (
        alone(tree("/", slot=SLOTS)), "read", errno.EBADSLT, "slot"),
    "id-map-slot": (alone(id_map("0 0 1\n", slot=SLOTS)), "read", errno.EBADSLT, "slot"),
    "id-map-nonsense": (alone(id_map("0 0 0\n")), "write", errno.EINVAL, "/uid_map"),
    "id-map-missing": (
        alone(tree("/etc", id_map=3)), "read", errno.EBADSLT, "slot"),
    "id-map-on-a-filesystem-without": (
        alone(id_map("0 1000 1\n"), tree("/proc", slot=1, id_map=0)),
        "mount_setattr id map", errno.EINVAL, "/proc"),
    "root-missing": (alone(o.root(source="/no/such")), "open", errno.ENOENT, "/no/such"),
    "root-is-a-file": (
        alone(o.root(source="/etc/passwd")), "open", errno.ENOTDIR, "/etc/passwd"),
    "shared-root-missing": (
        alone(o.shared_root(source="/no/such")), "open", errno.ENOENT, "/no/such"),
    "recorded-root-missing": (
        alone(o.recorded_root(source="/no/such")), "open", errno.ENOENT, "/no/such"),
    "shared-root-is-a-file": (
        alone(o.shared_root(source="/etc/passwd")), "open", errno.ENOTDIR, "/etc/passwd"),
    "mount-type": (mount("nosuchfs", "/tmp"), "fsopen", errno.ENODEV, "nosuchfs"),
    "mount-option": (mount("tmpfs", "/tmp", "sise=4k"), "fsconfig", errno.EINVAL, "sise=4k"),
    "mount-value": (mount("tmpfs", "/tmp", "size=much"), "fsconfig", errno.EINVAL, "size=much"),
    "mount-value-length": (
        mount("tmpfs", "/tmp", f"size={LONG}"), "mount", errno.EINVAL, "tmpfs"),
    "mount-option-length": (
        mount("tmpfs", "/tmp", f"{LONG}=1"), "mount", errno.EINVAL, "tmpfs"),
    "mount-page-of-options": (
        mount("tmpfs", "/tmp", f"size={LONG * 16}"), "mount", errno.ENAMETOOLONG, "options"),
    "mount-create": (mount("ext4", "/tmp"), "fsconfig", errno.ENOENT, "create"),
    "mount-on-a-file": (mount("tmpfs", "/etc/passwd"), "open", errno.ENOTDIR, "/etc/passwd"),
    "mount-on-a-link": (
        mount("tmpfs", "/link", flags=MOUNT_REAL_DIRECTORY), "open", errno.ELOOP, "/link"),
    "mount-propagation": (
        mount("tmpfs", "/tmp", propagation=3 << 18), "mount_setattr", errno.EINVAL, "/tmp"),
    "mount-label": (
        mount("proc", "/tmp", label="a:b:c:s0"), "fsetxattr", errno.EOPNOTSUPP, "a:b:c:s0"),
    "bind-missing": (bind("/no/such", "/tmp"), "open_tree", errno.ENOENT, "/no/such"),
    "bind-file-on-directory": (
        bind("/etc/passwd", "/tmp"), "open", errno.EISDIR, "/tmp"),
    "bind-directory-on-file": (
        bind("/etc", "/etc/passwd"), "open", errno.ENOTDIR, "/etc/passwd"),
    "bind-slot": (bind("", "/tmp", slot=SLOTS), "read", errno.EBADSLT, "slot"),
    "bind-empty-slot": (bind("", "/tmp", slot=5), "read", errno.EBADSLT, "slot"),
    "attributes-missing": (inside(attributes("/no/such")), "open", errno.ENOENT, "/no/such"),
    "attributes-no-mount": (inside(attributes("/tmp")), "mount_setattr", errno.EINVAL, "/tmp"),
    "attributes-of-another-mount": (
        lambda root: [
            *mount("tmpfs", "/tmp")(root), link("/swap", text="tmp"),
            *mount("tmpfs", "/swap/x")(root)[3:], *mount("tmpfs", "/etc/x")(root)[3:],
            link("/swap", 1, "etc"), attributes("/swap/x"),
        ],
        "verify", errno.ESTALE, "/swap/x"),
    "reconfigure-missing": (inside(again("/no/such")), "open", errno.ENOENT, "/no/such"),
    "reconfigure-no-mount": (inside(again("/tmp")), "fspick", errno.EINVAL, "/tmp"),
    "reconfigure-option": (
        lambda root: [*mount("tmpfs", "/tmp")(root), again("/tmp", "nonsense")],
        "fsconfig", errno.EINVAL, "nonsense"),
    "mkdir-below-a-file": (
        inside(o.mkdir(target="/etc/passwd/x", mode=0o755)),
        "mkdir", errno.ENOTDIR, "/etc/passwd/x"),
    "device-on-a-file": (inside(device("/etc/passwd")), "mknod", errno.EEXIST, "/etc/passwd"),
    "device-on-another": (
        inside(device("/dev/x"), device("/dev/x", minor=5)), "mknod", errno.EEXIST, "/dev/x"),
    "device-of-another-type": (
        inside(device("/dev/x"), device("/dev/x", S_IFIFO)), "mknod", errno.EEXIST, "/dev/x"),
    "device-on-a-link": (inside(device("/link")), "mknod", errno.EEXIST, "/link"),
    "symlink-on-a-directory": (
        inside(link("/tmp", replace=1)), "symlink", errno.EISDIR, "/tmp"),
    "join-something-else": (
        alone(o.join_process(flags=CLONE_NEWNS, root_of=0)), "setns", errno.EINVAL, ""),
    "terminal-that-is-none": (
        alone(o.clone_process(terminal=1)), "ioctl", errno.ENOTTY, "TIOCSCTTY"),
    "no-such-cpu": (alone(o.affinity(cpus=bytes(8))), "sched_setaffinity", errno.EINVAL, ""),
    "console-without-devpts": (
        inside(o.console(rows=0, columns=0, uid=0, flags=0)),
        "open", errno.ENOENT, "/dev/pts/ptmx"),
    "unmount-missing": (
        inside(o.unmount(target="/nothing", follow=1)), "open", errno.ENOENT, "/nothing"),
    "unmount-no-mount": (
        inside(o.unmount(target="/tmp", follow=0)), "umount2", errno.EINVAL, "/tmp"),
    "unmount-link": (inside(o.unmount(target="/link", follow=0)), "open", errno.ELOOP, "/link"),
    "restrict-missing": (
        inside(o.restrict(target="/nothing", set_attributes=1)), "open", errno.ENOENT, "/nothing"),
    "mask-loop": (inside(o.mask(target="/loop", context="")), "open", errno.ELOOP, "/loop"),
    "readonly-loop": (inside(o.readonly(target="/loop")), "open", errno.ELOOP, "/loop"),
    "hook-missing": (inside(hook("/no/hook")), "execve", errno.ENOENT, "/no/hook"),
    "hook-status": (inside(hook("/bin/sh", "-c", "exit 3")), "hook", 3 << 8, "/bin/sh"),
    "hook-signal": (inside(hook("/bin/sh", "-c", "kill -9 $$")), "hook", 9, "/bin/sh"),
    "hook-timeout": (
        inside(hook("/bin/sh", "-c", "sleep 60 & sleep 60", timeout=1)),
        "hook timeout", 1, "/bin/sh"),
    "null-streams-without-privilege": (
        lambda root: [
            o.shared_root(source=str(root)), capabilities(), o.null_streams(root_of=0)],
        "open_tree", errno.EPERM, "/dev/null"),
    "pivot-without-root": (alone(o.pivot_root()), "fchdir", errno.EBADF, "root"),
    "move-without-root": (alone(o.move_root(uncovered=[])), "fchdir", errno.EBADF, "root"),
    "chroot-without-root": (alone(o.chroot()), "fchdir", errno.EBADF, "root"),
    "chroot-without-privilege": (
        lambda root: [o.shared_root(source=str(root)), capabilities(), o.chroot()],
        "chroot", errno.EPERM, "root"),
    "hostname-length": (
        inside(o.hostname(name="h" * 65)), "sethostname", errno.EINVAL, "h" * 65),
    "domainname-length": (
        inside(o.domainname(name="d" * 65)), "setdomainname", errno.EINVAL, "d" * 65),
    "rlimit-order": (alone(o.rlimit(resource=7, soft=9, hard=8)), "prlimit", errno.EINVAL, ""),
    "rlimit-unknown": (alone(o.rlimit(resource=99, soft=1, hard=1)), "prlimit", errno.EINVAL, ""),
    "rlimit-raised": (
        alone(
            o.rlimit(resource=4, soft=64, hard=64),
            capabilities(),
            o.rlimit(resource=4, soft=64, hard=65),
        ),
        "prlimit", errno.EPERM, ""),
    "rlimit-of-files-raised": (
        alone(capabilities(), o.rlimit(resource=7, soft=64, hard=1 << 62)),
        "prlimit", errno.EPERM, ""),
    "io-priority-class": (alone(o.io_priority(value=7 << 13)), "ioprio_set", errno.EINVAL, ""),
    "scheduler-policy": (alone(scheduler(99)), "sched_setattr", errno.EINVAL, ""),
    "memory-policy-mode": (
        alone(o.memory_policy(mode=99, nodes=b"")), "set_mempolicy", errno.EINVAL, ""),
    "chdir-missing": (after(o.chdir(path="/no/such", optional=1)),
        "chdir", errno.ENOENT, "/no/such"),
    "chdir-on-a-file": (after(o.chdir(path="/etc/passwd", optional=0)),
        "chdir", errno.ENOTDIR, "/etc/passwd"),
    "bounding-without-privilege": (
        alone(capabilities(), o.bounding(keep=0)), "prctl", errno.EPERM, "PR_CAPBSET_DROP"),
    "user-unmapped": (
        alone(o.unshare(flags=CLONE_NEWUSER), user(0, 5)), "setresgid", errno.EINVAL, ""),
    "user-groups-denied": (
        alone(o.unshare(flags=CLONE_NEWUSER), user(0, 0, 5, set_groups=1)),
        "setgroups", errno.EPERM, ""),
    "user-without-privilege": (
        alone(capabilities(), user(5, 0)), "setresuid", errno.EPERM, ""),
    "user-that-changes-nothing": (alone(user(NOBODY, 5)), "verify", errno.EINVAL, ""),
    "group-that-changes-nothing": (alone(user(5, NOBODY)), "verify", errno.EINVAL, ""),
    "capabilities-not-permitted": (
        alone(capabilities(effective=1)), "capset", errno.EPERM, ""),
    "drop-extra-not-permitted": (
        alone(o.drop_extra(effective=1, permitted=0, inheritable=0)), "capset", errno.EPERM, ""),
    "capabilities-ambient": (
        alone(capabilities(1, 1, ambient=1)), "prctl", errno.EPERM, "PR_CAP_AMBIENT_RAISE"),
    "find-missing": (after(find("nosuch")), "search", errno.ENOENT, "nosuch"),
    "find-not-executable": (after(find("passwd")), "search", errno.EACCES, "passwd"),
    "find-path-missing": (after(find("/bin/nosuch")), "find", errno.ENOENT, "/bin/nosuch"),
    "find-path-not-executable": (
        after(find("/etc/passwd")), "find", errno.EACCES, "/etc/passwd"),
    "find-path-directory": (after(find("/bin")), "find", errno.EISDIR, "/bin"),
    "find-path-fifo": (after(find("/fifo")), "find", errno.EACCES, "/fifo"),
    "find-path-below-a-file": (
        after(find("/bin/busybox/x")), "find", errno.ENOTDIR, "/bin/busybox/x"),
    "find-path-length": (
        after(find("/" + "n/" * 2100)), "find", errno.ENAMETOOLONG, "/" + "n/" * 255),
    "seccomp-nonsense": (
        alone(o.seccomp(flags=0, last=1, filter=filter_of((0xFFFF, 0, 0, 0)))),
        "seccomp", errno.EINVAL, ""),
    "seccomp-cut": (
        alone(o.seccomp(flags=0, last=1, filter=ALLOW + b"1234")), "seccomp", errno.EINVAL, ""),
    "seccomp-length": (
        alone(o.seccomp(flags=0, last=1, filter=ALLOW * 4097)), "seccomp", errno.EINVAL, ""),
    "seccomp-without-privilege": (
        alone(capabilities(), o.seccomp(flags=0, last=1, filter=ALLOW)),
        "seccomp", errno.EACCES, ""),
    "seccomp-listener-without-privilege": (
        alone(capabilities(), o.seccomp(flags=8, last=1, filter=ALLOW)),
        "seccomp", errno.EACCES, ""),
    "exec-missing-behind-a-listener": (
        after(o.seccomp(flags=8, last=1, filter=ALLOW), o.exec(args=["/no/such"], env=[])),
        "execve", errno.ENOENT, "/no/such"),
    "exec-nothing": (after(o.exec(args=[], env=[])), "execve", errno.EINVAL, ""),
    "exec-missing": (
        after(o.exec(args=["/no/such"], env=[])), "execve", errno.ENOENT, "/no/such"),
    "exec-script-without-interpreter": (
        after(o.exec(args=["/script"], env=[])), "execve", errno.ENOENT, "/script"),
    "exec-text": (after(o.exec(args=["/text"], env=[])), "execve", errno.ENOEXEC, "/text"),
    "exec-arguments": (
        after(o.exec(args=["/bin/true", "a" * (1 << 18)], env=[])),
        "execve", errno.E2BIG, "/bin/true"),
}  # fmt: skip

# What is in a slot is looked at later, or never, without the mount API.
OF_MOUNTS = {"bind-empty-slot", "id-map-missing"}

# These have nothing that could go wrong, or nothing that a test could make go wrong.
CANNOT_FAIL = {
    "sync", "loopback", "personality", "stdio_owner", "no_new_privs", "umask", "close_host",
    "home", "listen_pid", "wait_start", "keyring",
}  # fmt: skip


@pytest.fixture
def root(work: Path, programs: dict[str, Path]) -> Path:
    """A root filesystem with the oddities that the cases are about."""
    path = work / "root"
    rootfs.build(path, programs)
    os.mkfifo(path / "fifo", 0o755)
    (path / "link").symlink_to("tmp")
    (path / "loop").symlink_to("loop")
    for name, text in (("script", "#!/no/interpreter\n"), ("text", "echo\n")):
        (path / name).write_text(text)
        (path / name).chmod(0o755)
    return path


def cases() -> list[object]:
    """The names of all cases; some need the mount API."""
    called = {*GROUPS["mount-api"], "mount_setattr id map"}
    mount = needs_mount_api("another call fails without the mount API")
    walk = pytest.mark.needs_call("openat2", reason="such a path is not there without it")
    marks = {
        **{name: mount for name, case in CASES.items() if case[1] in called or name in OF_MOUNTS},
        "proc-way-out": walk,
        "proc-dots": walk,
    }
    return [pytest.param(name, marks=marks.get(name, ())) for name in CASES]


@pytest.mark.parametrize("name", cases())
def test_record(root: Path, name: str) -> None:
    steps, call, error, argument = CASES[name]
    plan = plan_of(*steps(root))
    outcome = run(plan)
    assert outcome.fact == (len(plan.operations) - 1, call, error, argument)
    assert outcome.status == 1


def test_every_operation_is_covered() -> None:
    last = {OPERATIONS[steps(Path("/"))[-1].code - 1][0] for steps, *_ in CASES.values()}
    assert last | CANNOT_FAIL == {name for name, _, _ in OPERATIONS}
    assert not last & CANNOT_FAIL


@needs_mount_api("mount(2) has no words")
def test_words_of_the_kernel(root: Path) -> None:
    """The filesystem's own message about the option."""
    said = run(plan_of(*CASES["mount-option"][0](root))).failure
    assert said is not None
    assert said.detail == "e tmpfs: Unknown parameter 'sise'\n"


def test_words_of_a_hook(root: Path) -> None:
    """The end of what it printed, if that is too much."""
    script = "seq 2000; echo the reason >&2; exit 1"
    said = run(plan_of(*before(root), hook("/bin/sh", "-c", script))).failure
    assert said is not None
    assert len(said.detail) == 3071
    assert said.detail.endswith("1999\n2000\nthe reason\n")
