"""Which of an index's images is for this machine.  Pure, but for ``host``."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model import media_types
from ociruntime.images.model.image import Descriptor
from ociruntime.images.model.manifest import descriptor, load_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.images.model.image import Json

Platform = tuple[str, str]  # architecture and variant, as Go and the image specification write them

# uname's machine -> what it runs, the best first; "" stands for "no variant said".
_ARM = [("arm", "v7"), ("arm", "v6"), ("arm", "v5"), ("arm", "")]
_RUNS: dict[str, list[Platform]] = {
    "aarch64": [("arm64", "v8"), ("arm64", ""), ("arm", "v8"), *_ARM],
    "armv8l": [("arm", "v8"), *_ARM],
    "armv7l": _ARM,
    "armv6l": _ARM[1:],
    "i686": [("386", "")],
    "i586": [("386", "")],
    "ppc64le": [("ppc64le", "")],
    "s390x": [("s390x", "")],
    "riscv64": [("riscv64", "")],
    "loongarch64": [("loong64", "")],
    "mips64": [("mips64le" if sys.byteorder == "little" else "mips64", "")],
}
# Flags of /proc/cpuinfo that the levels of x86-64 add, as its psABI has them.
_LEVELS = (
    ("v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    ("v3", {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}),
    ("v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One image of an index; a platform that is not said has empty parts."""

    descriptor: Descriptor
    os: str
    architecture: str
    variant: str
    annotations: Json

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant))) or "no platform"


def host() -> list[Platform]:
    """What this machine runs, the best first."""
    machine = os.uname().machine
    if machine != "x86_64":
        return runs(machine, set())
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            line = re.search(r"^flags\s*:(.*)$", file.read(), re.MULTILINE)
    except OSError:
        line = None
    return runs(machine, set(line[1].split()) if line else set())


def runs(machine: str, flags: set[str]) -> list[Platform]:
    """What a machine of that name runs; ``flags`` of its processor matter to x86_64 alone."""
    if machine != "x86_64":
        return _RUNS.get(machine, [(machine, "")])
    found = [("amd64", "v1"), ("amd64", "")]
    for level, wanted in _LEVELS:
        if not wanted <= flags:
            break
        found.insert(0, ("amd64", level))
    return [*found, ("386", "")]


def read_index(data: bytes, served_as: str, what: str) -> list[Entry] | None:
    """The entries of an index; None if ``data`` is the manifest of one image.

    ``served_as``: the media type that it came with, if any.  ``what`` is told in errors.
    Raises ImageError.
    """
    document = load_document(data, what)
    media_type = document.get("mediaType") or served_as.partition(";")[0].strip()
    # A document that is both would be read as one of them here, and signed as the other.
    if "manifests" in document and "layers" in document:
        raise ImageError(f"{what} is an index and an image's manifest at once")
    if document.get("schemaVersion") == 1:
        raise ImageError(f"{what} is of schema 1", "push the image again to renew it")
    if "manifests" not in document:
        if media_type in media_types.INDEXES:
            raise ImageError(f"{what} is no index, as its media type says")
        return None
    if media_type in media_types.MANIFESTS:
        raise ImageError(f"{what} is an index, against its media type")
    entries = document["manifests"]
    if not isinstance(entries, list):
        raise ImageError(f"{what}: manifests is not a list")
    return [_entry(entry, f"{what}: manifests[{at}]") for at, entry in enumerate(entries)]


def _entry(value: Json, what: str) -> Entry:
    of = descriptor(value, what)
    platform, annotations = (value.get(name) or {} for name in ("platform", "annotations"))
    if not isinstance(platform, dict) or not isinstance(annotations, dict):
        raise ImageError(f"{what}: platform and annotations are not JSON objects")
    parts = [str(platform.get(name) or "") for name in ("os", "architecture", "variant")]
    return Entry(of, parts[0], parts[1], parts[2], annotations)


def choose(entries: list[Entry], platforms: list[Platform], what: str) -> Descriptor:
    """The one for the best of ``platforms``; of equal ones the first.

    An index with one entry and no platform means that one.  Raises ImageError.
    """
    for architecture, variant in platforms:
        for entry in entries:
            if (entry.os, entry.architecture, entry.variant) == ("linux", architecture, variant):
                return entry.descriptor
    if len(entries) == 1 and not entries[0].architecture:
        return entries[0].descriptor
    there = sorted({str(entry) for entry in entries} - {"unknown/unknown"})
    wanted = "/".join(("linux", *filter(None, platforms[0])))
    raise ImageError(
        f"{what} has no image for {wanted}", f"there are: {', '.join(there) or 'none'}"
    )
