from __future__ import annotations

import os
import posix
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.host import seccomp, seccomp_cache
from ociruntime.runtime.host.seccomp_cache import cached_filter
from ociruntime.runtime.host.seccomp_verdicts import allowed_calls
from tests.support import project

if TYPE_CHECKING:
    from ociruntime.runtime.spec.config_types import Seccomp


def profile(name: str = "mkdir", **more: object) -> Seccomp:
    rules = [{"names": [name], "action": "SCMP_ACT_ERRNO"}]
    return cast("Seccomp", {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules, **more})


class Cache:
    """A directory, and how often a filter had to be compiled for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.compiled = 0

    def __call__(self, one: Seccomp) -> tuple[bytes, int]:
        found = cached_filter(one, str(self.directory))
        assert found[:2] == seccomp.compile_filter(one)
        assert found[2] == allowed_calls(found[0])
        self.compiled -= 1  # the comparison's
        return found[:2]

    @property
    def files(self) -> list[Path]:
        return sorted(self.directory.iterdir())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    made = Cache(tmp_path / ".seccomp")
    compile_filter = seccomp.compile_filter

    def counted(one: Seccomp) -> tuple[bytes, int]:
        made.compiled += 1
        return compile_filter(one)

    monkeypatch.setattr(seccomp, "compile_filter", counted)
    return made


def test_compiled_once(cache: Cache) -> None:
    for _ in range(3):
        cache(profile())
    assert cache.compiled == 1
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in cache.files] == [0o600]


@pytest.mark.parametrize(
    "other",
    [
        profile("rmdir"),
        profile(flags=[]),
        profile(architectures=["SCMP_ARCH_X86"]),
        profile(defaultAction="SCMP_ACT_LOG"),
        profile(defaultAction="SCMP_ACT_TRACE", defaultErrnoRet=7),
    ],
)
def test_another_profile_is_another_filter(cache: Cache, other: Seccomp) -> None:
    cache(profile())
    cache(other)
    assert cache.compiled == 2
    assert len(cache.files) == 2


def test_who_listens_is_no_part_of_it(cache: Cache) -> None:
    cache(profile(listenerPath="/one", listenerMetadata="1"))
    cache(profile(listenerPath="/two", listenerMetadata="2"))
    assert cache.compiled == 1


def test_another_profile_under_the_same_name(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matching CRC is not enough to get another filter accepted."""
    monkeypatch.setattr(seccomp_cache, "crc32", lambda data: len(data) & 0)
    cache(profile())
    cache(profile("rmdir"))
    cache(profile())
    assert cache.compiled == 3
    assert len(cache.files) == 1


def test_another_kernel(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache(profile())
    now = posix.uname()
    later = posix.uname_result((*now[:2], "99.0", *now[3:]))
    monkeypatch.setattr(posix, "uname", lambda: later)
    cache(profile())
    assert cache.compiled == 2


def test_another_library(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "libseccomp.so"
    library.write_text("2.5")
    monkeypatch.setattr(seccomp_cache, "_makers", lambda: [str(library).encode()])
    cache(profile())
    cache(profile())
    assert cache.compiled == 1
    library.write_text("2.6.0")
    cache(profile())
    assert cache.compiled == 2
    library.unlink()
    cache(profile())
    assert cache.compiled == 3


def test_who_compiles_is_known() -> None:
    seccomp.library_version()
    makers = {os.path.basename(path).split(b".")[0] for path in seccomp_cache._makers()}
    assert makers == {b"_seccomp", b"libseccomp", b"seccomp", b"seccomp_verdicts"}


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def rewritten(file: Path) -> None:
        file.write_bytes(change(file.read_bytes()))

    return rewritten


def flip(place: int) -> Callable[[Path], None]:
    def change(data: bytes) -> bytes:
        at = place % len(data)
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    return rewrite(change)


def replace_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.rename(file.with_suffix(".old"))
        make(file)

    return change


DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": rewrite(lambda _: b""),
    "head": rewrite(lambda data: data[: seccomp_cache.HEAD.size]),
    "half a head": rewrite(lambda data: data[:9]),
    "cut": rewrite(lambda data: data[:-8]),
    "longer": rewrite(lambda data: data + bytes(8)),
    "magic": flip(0),
    "sum": flip(9),
    "size": flip(13),
    "flags": flip(seccomp_cache.HEAD.size - 4),
    "key": flip(60),
    "filter": flip(-3),
    "readable by others": lambda file: file.chmod(0o644),
    "writable by the group": lambda file: file.chmod(0o620),
    "symbolic link": replace_by(lambda file: file.symlink_to(file.with_suffix(".old"))),
    "pipe": replace_by(os.mkfifo),
    "directory": replace_by(os.mkdir),
    "gone": Path.unlink,
    "readable directory": lambda file: file.parent.chmod(0o755),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_not_used(cache: Cache, damage: Callable[[Path], None]) -> None:
    cache(profile())
    damage(cache.files[0])
    cache(profile())
    assert cache.compiled == 2


def test_a_damaged_file_is_replaced(cache: Cache) -> None:
    cache(profile())
    DAMAGE["filter"](cache.files[0])
    cache(profile())
    cache(profile())
    assert cache.compiled == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("which", ["file", "directory"])
def test_that_belongs_to_another_user(cache: Cache, which: str) -> None:
    cache(profile())
    os.chown(cache.files[0] if which == "file" else cache.directory, 1000, 1000)
    cache(profile())
    assert cache.compiled == 2


def test_the_oldest_go(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp_cache, "LIMIT", 4)
    names = ["mkdir", "rmdir", "unlink", "link", "rename", "chmod"]
    for age, name in enumerate(names):
        before = set(cache.files) if age else set()
        cache(profile(name))
        (new,) = set(cache.files) - before
        os.utime(new, (age, age))
    assert len(cache.files) == 4
    assert cache.compiled == 6
    for name in names[2:]:
        cache(profile(name))
    assert cache.compiled == 6
    cache(profile("mkdir"))
    assert cache.compiled == 7


def test_what_is_too_large_is_not_kept(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp_cache, "LARGEST", 100)
    cache(profile())
    assert not cache.directory.exists()


def test_a_place_that_cannot_be_written(cache: Cache) -> None:
    cache.directory.write_text("a file")
    cache(profile())
    cache(profile())
    assert cache.compiled == 2


def test_a_state_root_that_is_not_there(cache: Cache) -> None:
    cache.directory = cache.directory / "nowhere"
    cache(profile())
    assert not cache.directory.exists()


def test_a_bad_profile_is_refused_each_time(cache: Cache) -> None:
    for _ in range(2):
        with pytest.raises(ConfigError, match="architectures"):
            cached_filter(profile(architectures=["SCMP_ARCH_Z80"]), str(cache.directory))
    assert not cache.directory.exists()


def test_several_at_once(cache: Cache) -> None:
    """Writers of one and of different filters; every reader gets what it asked for."""
    script = """
import sys
from ociruntime.runtime.host.seccomp_cache import cached_filter
for round in range(8):
    for name in sys.argv[2:]:
        rules = [{"names": [name], "action": "SCMP_ACT_ERRNO"}]
        cached_filter({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}, sys.argv[1])
"""
    names = ["mkdir", "rmdir", "unlink", "link"]
    command = [sys.executable, "-c", script, str(cache.directory), *names]
    running = [subprocess.Popen(command, cwd=project.ROOT) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    assert len(cache.files) == len(names)
    for name in names:
        cache(profile(name))
    assert cache.compiled == 0
