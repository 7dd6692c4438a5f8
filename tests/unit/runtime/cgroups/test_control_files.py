"""Writing settings: order, second choices, refusals in words."""

from __future__ import annotations

import errno
import os
import posix
from collections.abc import Callable
from pathlib import Path

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.files import read_file
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.shared_settings import Setting

Refuse = Callable[[str, str], int]


def setting(
    *files: tuple[str, str], where: str = "linux.resources.x", coupled: str = "", floor: str = ""
) -> Setting:
    return Setting(1, "x", files, where, coupled, floor=floor)


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """A directory that stands for a cgroup."""
    directory = tmp_path / "cgroup"
    directory.mkdir()
    return directory


def fill(cgroup: Path, **files: str) -> None:
    for name, content in files.items():
        (cgroup / name.replace("__", ".")).write_text(content)


def apply(cgroup: Path, *found: Setting) -> None:
    control_files.apply(list(found), {"x": str(cgroup)})


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[Refuse], list[tuple[str, str]]]:
    """A kernel that refuses a write with the errno that a function returns, 0 for none."""

    def install(refuse: Refuse) -> list[tuple[str, str]]:
        accepted: list[tuple[str, str]] = []

        def write(path: str, value: str) -> None:
            name = os.path.basename(path)
            number = refuse(name, value)
            if number:
                raise OSError(number, os.strerror(number), path)
            accepted.append((name, value))

        monkeypatch.setattr(control_files, "write", write)
        return accepted

    return install


def test_writes_the_first_file_that_exists(cgroup: Path) -> None:
    fill(cgroup, b__max="")
    apply(cgroup, setting(("a.max", "1"), ("b.max", "2")))
    assert (cgroup / "b.max").read_text() == "2"
    assert os.listdir(cgroup) == ["b.max"]


def test_no_such_file(cgroup: Path) -> None:
    with pytest.raises(ConfigError, match=r'"a\.max or b\.max"') as caught:
        apply(cgroup, setting(("a.max", "1"), ("b.max", "2")))
    assert caught.value.where == "linux.resources.x"


def test_no_such_file_for_no_limit(cgroup: Path) -> None:
    apply(cgroup, Setting(1, "x", (("a.max", "max"),), "w", optional=True))
    assert os.listdir(cgroup) == []


def test_no_such_cgroup(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"gone.*removed"):
        apply(tmp_path / "gone", setting(("a.max", "1")))


def test_lines_are_written_one_by_one(
    cgroup: Path, kernel: Callable[[Refuse], list[tuple[str, str]]]
) -> None:
    accepted = kernel(lambda name, value: 0)
    apply(cgroup, setting(("io.max", "8:0 rbps=1\n8:16 rbps=2\n")), setting(("empty", "")))
    assert accepted == [("io.max", "8:0 rbps=1"), ("io.max", "8:16 rbps=2"), ("empty", "\n")]


def test_the_first_word_may_be_kept(cgroup: Path) -> None:
    fill(cgroup, cpu__max="max 100000\n")
    apply(cgroup, Setting(2, "x", (("cpu.max", "50000"),), "w", keep_first=True))
    assert (cgroup / "cpu.max").read_text().startswith("max 50000")


def test_coupled_settings_are_retried(
    cgroup: Path, kernel: Callable[[Refuse], list[tuple[str, str]]]
) -> None:
    """Raising both: memory may not exceed memory+swap, so the second must go first."""
    now = {"memory": 10, "memsw": 10}

    def refuse(name: str, value: str) -> int:
        after = {**now, name: int(value)}
        if after["memory"] > after["memsw"]:
            return errno.EINVAL
        now.update(after)
        return 0

    accepted = kernel(refuse)
    both = [setting((n, "20"), coupled="memory") for n in ("memory", "memsw")]
    apply(cgroup, *both)
    assert accepted == [("memsw", "20"), ("memory", "20")]
    both = [setting((n, "5"), coupled="memory") for n in ("memory", "memsw")]
    apply(cgroup, *both)
    assert accepted[2:] == [("memory", "5"), ("memsw", "5")]


def test_coupled_settings_that_cannot_be(
    cgroup: Path, kernel: Callable[[Refuse], list[tuple[str, str]]]
) -> None:
    tried: list[str] = []

    def refuse(name: str, value: str) -> int:
        tried.append(name)
        return errno.EINVAL

    kernel(refuse)
    with pytest.raises(HostError, match=r"linux\.resources\.first: write"):
        apply(
            cgroup,
            setting(("a", "1"), where="linux.resources.first", coupled="c"),
            setting(("b", "1"), where="linux.resources.second", coupled="c"),
        )
    assert tried == ["a", "b"]


def test_other_refusals_are_final(
    cgroup: Path, kernel: Callable[[Refuse], list[tuple[str, str]]]
) -> None:
    accepted = kernel(lambda name, value: errno.EBUSY if name == "a" else 0)
    with pytest.raises(HostError, match="busy"):
        apply(cgroup, setting(("a", "1"), coupled="c"), setting(("b", "1"), coupled="c"))
    assert accepted == []


@pytest.mark.parametrize(
    ("file", "number", "words"),
    [
        ("memory.limit_in_bytes", errno.EBUSY, "the cgroup uses 4096 bytes"),
        ("memory.memsw.limit_in_bytes", errno.EINVAL, "below the memory"),
        ("memory.kmem.limit_in_bytes", errno.EOPNOTSUPP, "limits kernel memory"),
        ("cpuset.cpus", errno.EINVAL, "offers cpus 0-3"),
        ("cpuset.cpus", errno.EACCES, "offers cpus 0-3"),
        ("cpu.cfs_quota_us", errno.EINVAL, "1000 us"),
        ("cpu.max", errno.EINVAL, "1000 us"),
        ("cpu.rt_runtime_us", errno.EINVAL, "of the parent"),
        ("pids.max", errno.EACCES, "no permission"),
        ("io.max", errno.ENODEV, "network interface"),
        ("pids.max", errno.ENOSPC, "no space left on device$"),
    ],
)
def test_a_refusal_in_words(
    cgroup: Path,
    kernel: Callable[[Refuse], list[tuple[str, str]]],
    file: str,
    number: int,
    words: str,
) -> None:
    fill(cgroup, memory__usage_in_bytes="4096\n")
    fill(cgroup.parent, cpuset__cpus="0-3\n")
    (cgroup / file).touch()
    kernel(lambda name, value: number)
    with pytest.raises(HostError, match=words) as caught:
        apply(cgroup, setting((file, "7"), where="linux.resources.cpu.quota"))
    assert str(caught.value).startswith(
        f'linux.resources.cpu.quota: write "7" to "{cgroup}/{file}": '
    )
    assert caught.value.errno == number


def test_a_limit_below_the_usage(cgroup: Path) -> None:
    fill(cgroup, usage="100\n", limit="")
    with pytest.raises(ConfigError, match=r"99 bytes .*100 bytes"):
        apply(cgroup, setting(("limit", "99"), floor="usage"))
    assert (cgroup / "limit").read_text() == ""
    apply(cgroup, setting(("limit", "100"), floor="usage"))
    assert (cgroup / "limit").read_text() == "100"
    apply(cgroup, setting(("limit", "-1"), floor="usage"))


def test_reading_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "cgroup.procs"
    text = "".join(f"{number}\n" for number in range(200000))
    path.write_text(text)
    assert control_files.read(str(path)) == text


def test_a_file_that_the_kernel_gives_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of processes and mounts end a piece at a line's end, somewhere below a page."""
    text = "".join(f"{number}\n" for number in range(5000))
    (tmp_path / "file").write_text(text)
    whole = posix.read
    monkeypatch.setattr(posix, "read", lambda fd, size: whole(fd, min(size, 4066)))
    assert control_files.read(str(tmp_path / "file")) == text
    assert read_file(str(tmp_path / "file")) == text.encode()


def test_short_write(cgroup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write(2) is a command: the rest of a value must not follow as another one."""
    fill(cgroup, x="")
    monkeypatch.setattr(posix, "write", lambda fd, data: len(data) - 1)
    with pytest.raises(OSError, match="short write") as caught:
        control_files.write(f"{cgroup}/x", "12")
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EROFS, "mounted read-only"),
        (errno.EACCES, "no permission"),
        (errno.EPERM, "no permission"),
        (errno.EIO, ""),
    ],
)
def test_hint_of_a_failure(number: int, hint: str) -> None:
    error = control_files.failure("create x", OSError(number, os.strerror(number)))
    assert hint in error.hint
    assert bool(error.hint) is bool(hint)
    assert control_files.failure("create x", OSError(number, ""), "mine").hint == "mine"


def test_hints_without_their_facts(cgroup: Path) -> None:
    """Without the files that explain a refusal, there is no hint."""
    assert control_files._memory_in_use(str(cgroup)) == ""
    assert control_files._parent_offers(str(cgroup / "c1")) == ""
    fill(cgroup, cpuset__cpus="\n", cpuset__cpus__effective="0-1\n", memory__current="7\n")
    assert control_files._memory_in_use(str(cgroup)).endswith(" 7 bytes")
    assert control_files._parent_offers(str(cgroup / "c1")).endswith(" cpus 0-1")


def test_gone() -> None:
    numbers = (errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.EACCES)
    answers = [control_files.gone(OSError(number, "")) for number in numbers]
    assert answers == [True, True, True, False]
