"""The files prepared for a virtual machine: archives, modules, settings."""

from __future__ import annotations

import gzip
import json
import lzma
import stat
import sys
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.kvm import machine_settings as kvm_settings
from ociruntime.pods.kvm.kernel_modules import Modules
from ociruntime.pods.kvm.machine_settings import Settings, cpus_of, memory_of, settings
from ociruntime.pods.kvm.prepare_machine import archive


def entries(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Return {name: (mode, content)} of an archive in the format of cpio(5)."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, path_size = fields[1], fields[6], fields[11]
        begin = at + 110
        name = data[begin : begin + path_size - 1].decode()
        assert data[begin + path_size - 1] == 0
        begin = -(-(begin + path_size) // 4) * 4
        if name == "TRAILER!!!":
            assert begin == len(data)
            return found
        found[name] = (mode, data[begin : begin + size])
        at = -(-(begin + size) // 4) * 4


def test_an_archive() -> None:
    found = entries(
        archive({"init": b"program", "a/b/c": b"12345", "a/d": b""}, frozenset({"init"}))
    )
    assert list(found) == ["dev", "dev/console", "init", "a", "a/b", "a/b/c", "a/d"]
    assert found["init"] == (stat.S_IFREG | 0o755, b"program")
    assert found["a/b/c"] == (stat.S_IFREG | 0o644, b"12345")
    assert found["a/b"][0] == stat.S_IFDIR | 0o755
    assert found["dev/console"][0] == stat.S_IFCHR | 0o600


def module(needs: str, text: str) -> bytes:
    return f"\x7fELF\0license=GPL\0depends={needs}\0name={text}\0".encode()


def test_modules_and_what_they_need(tmp_path: Path) -> None:
    (tmp_path / "modules.builtin").write_text("kernel/lib/crc-built.ko\n")
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "top.ko").write_bytes(module("mid_dle,crc_built", "top"))
    (tmp_path / "kernel" / "mid-dle.ko.xz").write_bytes(lzma.compress(module("base", "middle")))
    (tmp_path / "kernel" / "base.ko.gz").write_bytes(gzip.compress(module("", "base")))
    (tmp_path / "kernel" / "other.ko").write_bytes(module("base", "other"))
    names = [
        data.split(b"name=")[1] for data in Modules(str(tmp_path)).load_order(["top", "other"])
    ]
    assert names == [b"base\0", b"middle\0", b"top\0", b"other\0"]
    with pytest.raises(PodError, match='lacks the module "9p"'):
        Modules(str(tmp_path)).load_order(["9p"])
    (tmp_path / "kernel" / "bad.ko.xz").write_bytes(b"nothing")
    with pytest.raises(PodError, match="decompress"):
        Modules(str(tmp_path)).load_order(["bad"])


def test_a_module_that_nothing_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "packed.ko.zst").write_bytes(b"anything")
    with pytest.raises(PodError, match=r'packed\.ko\.zst": zstd') as caught:
        Modules(str(tmp_path)).load_order(["packed"])
    assert caught.value.hint == "pip install zstandard"
    (tmp_path / "lost.ko").symlink_to("nowhere")
    with pytest.raises(HostError, match=f'read "{tmp_path}/lost.ko": no such file'):
        Modules(str(tmp_path)).load_order(["lost"])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with qemu, and a directory for its settings."""
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("os.uname", lambda: type("Name", (), {"machine": "x86_64", "release": "r"}))
    monkeypatch.setattr(kvm_settings, "DEVICE", str(tmp_path / "no-device"))
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "vmlinuz-1.2").write_text("kernel")
    return tmp_path


def say(host: Path, **what: object) -> None:
    (host / "kvm.json").write_text(json.dumps({"qemu": str(host / "qemu"), **what}))


def test_settings(host: Path) -> None:
    kernel = host / "boot" / "vmlinuz-1.2"
    say(host, kernel=str(kernel), memory=300)
    found = settings(str(host))
    assert (found.kernel, found.modules, found.memory) == (str(kernel), "", 300)
    assert found.accelerator == "tcg"
    (host / "lib" / "modules" / "1.2").mkdir(parents=True)
    assert settings(str(host)).modules == str(host / "lib" / "modules" / "1.2")
    other = host / "other"
    other.write_text("kernel")
    assert settings(str(host), str(other)).kernel == str(other)
    (host / "no-device").write_text("")
    assert settings(str(host)).accelerator == "kvm"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"memory": "1"}, '"memory" must be a positive integer'),
        ({"memory": 1}, '"memory"'),
        ({"cpus": 1000}, '"cpus"'),
        ({"kernel": ""}, '"kernel"'),
        ({"accelerator": "xen"}, 'unknown accelerator "xen"'),
        ({"ram": 1}, 'unknown member "ram"'),
        ({"qemu": "/no/qemu"}, '"/no/qemu" is not installed'),
        ({"kernel": "/no/kernel"}, "no such file"),
        ({"accelerator": "kvm", "kernel": "/dev/null"}, "cannot open .*/no-device"),
        ({"modules": "/no/modules", "kernel": "/dev/null"}, "not a directory"),
    ],
)
def test_wrong_settings(host: Path, said: dict[str, object], message: str) -> None:
    say(host, **said)
    with pytest.raises(PodError, match=message):
        settings(str(host))


def test_another_machine(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(host)
    monkeypatch.setattr("os.uname", lambda: type("Name", (), {"machine": "s390x", "release": "r"}))
    with pytest.raises(PodError, match='architecture "s390x" is not supported'):
        settings(str(host))


def test_a_file_of_settings_that_cannot_be_read(host: Path) -> None:
    file = host / "kvm.json"
    for text, message in (("{", "invalid JSON"), ("[]", "JSON object")):
        file.write_text(text)
        with pytest.raises(PodError, match=f'"{file}": .*{message}'):
            settings(str(host))
    file.unlink()
    file.mkdir()
    with pytest.raises(PodError, match=f'read "{file}": is a directory'):
        settings(str(host))


def test_no_kernel(host: Path) -> None:
    say(host)
    with pytest.raises(PodError, match=r"kernel .* not found") as caught:
        settings(str(host))
    assert "--kvm-kernel" in caught.value.hint


def test_sizes() -> None:
    found = Settings()
    assert memory_of(found, [None, 1 << 30]) == 256
    assert memory_of(found, [1 << 30, (1 << 20) + 1]) == 96 + 1024 + 2
    assert memory_of(found, [1]) == 97
    assert (cpus_of(found, [None]), cpus_of(found, [300, 200])) == (1, 1)
    found.memory, found.cpus = 500, 3
    assert (memory_of(found, [1 << 30]), cpus_of(found, [1])) == (500, 3)
    assert (memory_of(found, [None], 1 << 27), cpus_of(found, [None], 900)) == (96 + 128, 1)
