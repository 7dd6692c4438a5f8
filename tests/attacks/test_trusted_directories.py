"""Directories that another user has prepared: root must not act on their content.

Where no file of a directory may be read, the files are FIFOs: a command that opens one hangs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.container import Container
from tests.support.ordinary_user import UID, give
from tests.support.peers import deviates, judge_by
from tests.support.plugin import TAG, MakeBundle, MakeContainer
from tests.support.runtime import Result, Runtime, execute
from tests.support.spoilt import QUICK, SPOILT, Spoil, open_to_a_group, open_to_all, theirs

NAME = f"{TAG}forged"
TRUSTING = "acts on a state directory whatever its owner and mode"


@pytest.fixture
def armed(
    runtime: Runtime, bundle: MakeBundle, work: Path, nothing_left: None
) -> Iterator[tuple[Container, Path]]:
    """A container with a poststop hook in a separate state root, and the file the hook makes."""
    trap = work / "sprung"
    made = bundle()
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"echo sprung >{trap}"]}
    made.config["hooks"] = {"poststop": [hook]}
    root = work / "prepared" / "root"
    (work / "prepared").mkdir(mode=0o755)
    one = Container(Runtime(runtime.path, root), NAME, made)
    one.created()
    state = root / NAME
    owned = {path: path.stat() for path in (work / "prepared", root, state)}
    yield one, trap
    for path, before in owned.items():
        if path.exists():
            os.chown(path, before.st_uid, before.st_gid)
            path.chmod(before.st_mode & 0o7777)
    one.finish()
    one.close()


@deviates(runc=TRUSTING, crun=TRUSTING)
@SPOILT
def test_a_forged_poststop_hook_in_the_state_root(
    armed: tuple[Container, Path], spoil: Spoil
) -> None:
    one, trap = armed
    spoil(one.runtime.root)
    done = one.runtime("delete", "--force", NAME)
    assert not trap.exists(), "the hook ran as root"
    done.failed("state", str(one.runtime.root))


@deviates(runc=TRUSTING, crun=TRUSTING)
@SPOILT
def test_a_forged_poststop_hook_in_a_container_directory(
    armed: tuple[Container, Path], spoil: Spoil
) -> None:
    one, trap = armed
    spoil(one.runtime.root / NAME)
    done = one.runtime("delete", "--force", NAME)
    assert not trap.exists(), "the hook ran as root"
    done.failed("state", NAME)


@deviates(runc=TRUSTING, crun=TRUSTING)
@pytest.mark.parametrize("spoil", [theirs, open_to_all])
def test_a_state_root_that_can_be_exchanged(armed: tuple[Container, Path], spoil: Spoil) -> None:
    """The state root belongs to root, but another user can rename and replace it."""
    one, trap = armed
    spoil(one.runtime.root.parent)
    done = one.runtime("delete", "--force", NAME)
    assert not trap.exists(), "the hook ran as root"
    done.failed("state", str(one.runtime.root.parent))


@deviates(runc=TRUSTING, crun=TRUSTING)
def test_a_state_root_behind_a_link_of_somebody_else(
    armed: tuple[Container, Path], work: Path
) -> None:
    one, trap = armed
    sticky = work / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    link = sticky / "root"
    link.symlink_to(one.runtime.root)
    os.chown(link, UID, UID, follow_symlinks=False)
    done = Runtime(one.runtime.path, link)("delete", "--force", NAME)
    assert not trap.exists(), "the hook ran as root"
    done.failed("state", str(link))


def through_a_directory(root: Path, _: Path) -> Path:
    theirs(root.parent)
    return root


def through_a_directory_of_all(root: Path, _: Path) -> Path:
    open_to_all(root.parent)
    return root


def through_a_link(root: Path, work: Path) -> Path:
    sticky = work / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "way").symlink_to(root.parent)
    os.chown(sticky / "way", UID, UID, follow_symlinks=False)
    return sticky / "way" / root.name


def through_two_links(root: Path, work: Path) -> Path:
    inner = through_a_link(root, work)
    (work / "way").symlink_to(inner.parent)
    return work / "way" / root.name


WAYS = (through_a_directory, through_a_directory_of_all, through_a_link, through_two_links)


@deviates(runc=TRUSTING, crun=TRUSTING)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("verb", ["state", "start", "kill", "delete by force"])
def test_commands_on_a_path_of_another_user(
    runtime: Runtime,
    bundle: MakeBundle,
    work: Path,
    nothing_left: None,
    verb: str,
    way: Callable[[Path, Path], Path],
) -> None:
    """A user who can replace a directory on the path chooses the container that is acted on."""
    (work / "prepared").mkdir(mode=0o755)
    root = work / "prepared" / "root"
    one = Container(Runtime(runtime.path, root), NAME, bundle())
    one.created()
    try:
        done = Runtime(runtime.path, way(root, work))(*VERBS[verb])
        os.chown(root.parent, 0, 0)
        root.parent.chmod(0o755)
        assert one.status == "created"
        assert done.status != 0
        assert done.out == ""
        assert "use the state directory" in done.err
    finally:
        os.chown(root.parent, 0, 0)
        root.parent.chmod(0o755)
        one.finish()
        one.close()


VERBS = {
    "state": ("state", NAME),
    "start": ("start", NAME),
    "kill": ("kill", NAME, "KILL"),
    "delete": ("delete", NAME),
    "delete by force": ("delete", "--force", NAME),
    "exec": ("exec", NAME, "true"),
    "pause": ("pause", NAME),
    "resume": ("resume", NAME),
    "update": ("update", "--pids-limit=10", NAME),
    "ps": ("ps", NAME),
    "events": ("events", "--stats", NAME),
    "checkpoint": ("checkpoint", NAME),
    "list": ("list",),
}


def forge(root: Path) -> None:
    """Create a state root whose files must not be opened."""
    for name in (NAME, f".creating-{NAME}", f".deleting-{NAME}"):
        directory = root / name
        directory.mkdir(parents=True)
        directory.chmod(0o700)
        for file in ("entry", "state.json", "cgroup.json", "config.json", "status", "rdt.json"):
            os.mkfifo(directory / file)
    root.chmod(0o700)
    give(root, UID)


def refused(done: Result, name: str) -> None:
    assert done.status in (1, 255), done  # 255 for exec
    assert done.out == ""
    for words in ("use the state directory", name, f"uid {UID}"):
        assert words in done.err, done


@judge_by("ociruntime")
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_commands_open_nothing_in_a_foreign_state_root(
    runtime: Runtime, work: Path, verb: tuple[str, ...]
) -> None:
    root = work / "foreign"
    forge(root)
    before = sorted(root.rglob("*"))
    foreign = Runtime(runtime.path, root)
    refused(foreign(*verb, timeout=QUICK), str(root))
    assert sorted(root.rglob("*")) == before


@judge_by("ociruntime")
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_commands_open_nothing_in_a_foreign_container_directory(
    runtime: Runtime, work: Path, verb: tuple[str, ...]
) -> None:
    root = work / "foreign"
    forge(root)
    os.chown(root, 0, 0)
    done = Runtime(runtime.path, root)(*verb, timeout=QUICK)
    if verb == ("list",):
        assert done.ok().out.count("\n") == 1  # the heading
    else:
        refused(done, NAME)


@deviates(runc=TRUSTING, crun=TRUSTING)
@SPOILT
@pytest.mark.parametrize("verb", ["create", "run"])
def test_a_container_made_in_a_foreign_state_root(
    runtime: Runtime, bundle: MakeBundle, work: Path, verb: str, spoil: Spoil
) -> None:
    root = work / "foreign"
    root.mkdir(mode=0o700)
    spoil(root)
    one = Container(Runtime(runtime.path, root), NAME, bundle("true"))
    try:
        one.create(verb=verb).failed("state", str(root))
        assert not list(root.iterdir())
    finally:
        one.finish()
        one.close()


@judge_by("ociruntime")
def test_the_runtime_directory_of_another_user(runtime: Runtime, work: Path) -> None:
    """Root of a user namespace uses XDG_RUNTIME_DIR, which another user may own."""
    directory = work / "xdg"
    directory.mkdir(mode=0o755)
    theirs(directory)
    root = directory / runtime.kind
    forge(root)
    root.chmod(0o755)
    command = ["unshare", "-Ur", "env", f"XDG_RUNTIME_DIR={directory}", "USER=nobody"]
    done = execute([*command, str(runtime.path), "delete", "--force", NAME], timeout=QUICK)
    done.failed("state", str(root))


def test_legitimate_state_roots(runtime: Runtime, bundle: MakeBundle, work: Path) -> None:
    """Readable by others, below a sticky directory, or behind links that root has created."""
    sticky = work / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    real = sticky / "real"
    for mode in (0o700, 0o711, 0o755, 0o1700, 0o2755):
        real.mkdir()
        real.chmod(mode)
        link = work / f"link{mode:o}"
        link.symlink_to(real)
        relative = work / f"relative{mode:o}"
        relative.symlink_to(f"sticky/../{link.name}")
        for root in (real, link, relative, relative / ".." / "real"):
            one = Container(Runtime(runtime.path, root), NAME, bundle("true"))
            one.created()
            one.runtime("state", NAME).ok()
            one.start().silent()
            one.runtime("delete", "--force", NAME).silent()
            one.close()
        for kept in real.glob(".*"):
            kept.rmdir()
        assert not list(real.iterdir())
        real.rmdir()


# Files that root writes where another user may write, too


@pytest.fixture
def planted(work: Path) -> tuple[Path, Path]:
    """A link in a directory such as /tmp, and root's file that it leads to."""
    victim = work / "victim"
    victim.write_text("root's\n")
    sticky = work / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    link = sticky / "link"
    link.symlink_to(victim)
    os.chown(link, UID, UID, follow_symlinks=False)
    return link, victim


FOLLOWING = "follows the link, unless fs.protected_symlinks forbids it"


@deviates(runc=FOLLOWING, crun=FOLLOWING)
def test_a_link_planted_as_log(runtime: Runtime, planted: tuple[Path, Path]) -> None:
    link, victim = planted
    done = runtime.logging_to(link)("state", NAME)
    assert done.status == 1
    assert victim.read_text() == "root's\n"
    assert str(link) in done.err


def test_a_log_behind_a_link_of_roots(runtime: Runtime, work: Path) -> None:
    (work / "link").symlink_to(work / "log")
    assert runtime.logging_to(work / "link")("state", NAME).status == 1
    assert NAME in (work / "log").read_text() or "exist" in (work / "log").read_text()
    assert runtime.logging_to(Path("/dev/stderr"))("state", NAME).err


@deviates(crun=FOLLOWING)
def test_a_link_planted_as_pid_file(
    runtime: Runtime, bundle: MakeBundle, planted: tuple[Path, Path], container: MakeContainer
) -> None:
    link, victim = planted
    one = container()
    one.pid_file = link
    one.created()
    assert victim.read_text() == "root's\n"
    assert link.read_text().strip().isdigit()


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@judge_by("ociruntime")
@pytest.mark.parametrize("spoil", [theirs, open_to_all, open_to_a_group, as_link])
def test_a_cache_of_filters_of_another_user(
    runtime: Runtime, bundle: MakeBundle, work: Path, spoil: Spoil
) -> None:
    """A planted filter would allow calls that the configuration forbids."""
    root = work / "root"
    own = Runtime(runtime.path, root)
    made = bundle("mkdir", "/forbidden")
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    made.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    first = Container(own, NAME, made)
    assert first.run().status == 1
    cache = root / ".seccomp"
    (filed,) = cache.iterdir()
    filed.unlink()
    os.mkfifo(filed)
    spoil(cache)
    second = Container(own, NAME, made)
    assert second.run(timeout=QUICK).status == 1
    assert filed.is_fifo()
    assert list(cache.iterdir()) == [filed]
    first.close()
    second.close()


@judge_by("ociruntime")
@SPOILT
def test_a_checkpoint_of_another_user(
    runtime: Runtime, bundle: MakeBundle, work: Path, spoil: Spoil
) -> None:
    """Images contain the memory, credentials and files of processes that root restores."""
    images = work / "images"
    images.mkdir(mode=0o700)
    for name in ("ociruntime.json", "descriptors.json", "inventory.img", "pstree.img"):
        os.mkfifo(images / name)
    spoil(images)
    made = bundle()
    made.save()
    flags = ("--criu=/bin/true", "restore", f"--bundle={made.path}", f"--image-path={images}")
    result = runtime(*flags, f"{TAG}restored", timeout=QUICK)
    result.failed("checkpoint", str(images))
