"""List what ELF files need, and refuse a newer glibc: ``check_baseline.py VERSION FILE...``.

A FILE is an ELF file, or a wheel with such files.  An ELF file shows the oldest glibc that it runs
with only by the versions of the symbols that it uses, in the section ``.gnu.version_r``.
"""

from __future__ import annotations

import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\x7fELF"
MACHINES = {62: "x86_64", 183: "aarch64"}
# What every Linux with glibc has.
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
SYSTEM |= {"ld-linux-aarch64.so.1"}
DYNAMIC, VERSIONS_NEEDED = 6, 0x6FFFFFFE
NEEDED, SONAME, RPATH, RUNPATH = 1, 14, 15, 29
SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass
class Elf:
    """A 64-bit little-endian ELF file: its machine, libraries, paths and versions of symbols."""

    machine: str
    libraries: list[str]
    paths: list[str]
    versions: list[tuple[str, str]]  # library, version

    @property
    def glibc(self) -> tuple[int, ...]:
        """The newest version of glibc's that a symbol has."""
        found = [re.fullmatch(r"GLIBC_([0-9.]+)", version) for _, version in self.versions]
        return max((version_of(each[1]) for each in found if each), default=())


def version_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def parse(data: bytes) -> Elf:
    """Parse an ELF file.  Raises ValueError."""
    if data[:6] != MAGIC + b"\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (machine,) = struct.unpack_from("<H", data, 18)
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [SECTION.unpack_from(data, at + i * size) for i in range(count)]
    elf = Elf(MACHINES.get(machine, str(machine)), [], [], [])
    for _, kind, _, _, offset, length, link, info, _, _ in sections:
        if kind not in (DYNAMIC, VERSIONS_NEEDED):
            continue
        strings = sections[link][4]
        if kind == DYNAMIC:
            for place in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<qQ", data, place)
                if tag == NEEDED:
                    elf.libraries.append(string(data, strings + value))
                elif tag in (RPATH, RUNPATH):
                    elf.paths.append(string(data, strings + value))
        else:
            elf.versions += needed_versions(data, offset, info, strings)
    return elf


def needed_versions(data: bytes, at: int, count: int, strings: int) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ``.gnu.version_r``: Elf64_Verneed, each with its Elf64_Vernaux."""
    for _ in range(count):
        _, entries, library, first, following = struct.unpack_from("<HHIII", data, at)
        place = at + first
        for _ in range(entries):
            _, _, _, name, further = struct.unpack_from("<IHHII", data, place)
            yield string(data, strings + library), string(data, strings + name)
            place += further
        at += following


def string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def elf_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the ELF files in a wheel, or of one file."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if (data := wheel.read(name))[:4] == MAGIC:
                    yield name, data
    else:
        yield str(path), path.read_bytes()


def faults(path: Path, baseline: tuple[int, ...]) -> Iterator[str]:
    """Yield why the files do not run on every system with that glibc; print what they need."""
    files = {name: parse(data) for name, data in elf_files(path)}
    own = {name.rpartition("/")[2] for name in files}
    for name, elf in files.items():
        newest = ".".join(map(str, elf.glibc)) or "none"
        print(f"{name}: {elf.machine}, glibc {newest}, {' '.join(elf.libraries) or 'static'}")
        if elf.glibc > baseline:
            yield f"{name}: needs glibc {newest}"
        for library in set(elf.libraries) - SYSTEM:
            if library not in own or not any("$ORIGIN" in each for each in elf.paths):
                yield f"{name}: needs {library}, which is not in the wheel or not found there"
    if len({elf.machine for elf in files.values()}) > 1:
        yield "files for different processors"


def main(baseline: str, *paths: str) -> int:
    """Return the exit status."""
    found = [fault for path in paths for fault in faults(Path(path), version_of(baseline))]
    for fault in found:
        print(f"check_baseline: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
