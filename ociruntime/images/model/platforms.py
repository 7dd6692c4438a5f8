"""Platforms of images: parse them, and choose the image for a platform from an index.

All functions except ``host`` are pure.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model import media_types
from ociruntime.images.model.image import Descriptor, Json
from ociruntime.images.model.manifest import descriptor, load_document

Platform = tuple[str, str]  # (architecture, variant), as in Go and the image specification

# Machine name of uname(2) -> platforms that it can run, best first; "" means no variant.
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
# Flags of /proc/cpuinfo that each x86-64 microarchitecture level adds (psABI).
_LEVELS = (
    ("v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    ("v3", {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}),
    ("v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an image index; ``os``, ``architecture`` and ``variant`` are "" if missing."""

    descriptor: Descriptor
    os: str
    architecture: str
    variant: str
    annotations: Json

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant))) or "no platform"


def host() -> list[Platform]:
    """Return the platforms whose programs this machine can run, best first."""
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
    """Return the platforms whose programs a machine can run, best first.

    ``machine`` is the machine's name in uname(2).  ``flags`` contains its CPU flags, as listed in
    /proc/cpuinfo; they matter only for x86_64.
    """
    if machine != "x86_64":
        return _RUNS.get(machine, [(machine, "")])
    platforms = [("amd64", "v1"), ("amd64", "")]
    for level, required in _LEVELS:
        if not required <= flags:
            break
        platforms.insert(0, ("amd64", level))
    return [*platforms, ("386", "")]


# Other common name of an architecture -> (architecture, variant).
_ALIASES = {
    "x86_64": ("amd64", ""),
    "x86-64": ("amd64", ""),
    "i386": ("386", ""),
    "i686": ("386", ""),
    "aarch64": ("arm64", ""),
    "armhf": ("arm", "v7"),
    "armel": ("arm", "v6"),
}
# Variants that are the default of their architecture.
_USUAL = {("amd64", "v1"), ("arm64", "v8"), ("arm", "v7")}
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")


def parse_platform(text: str) -> Platform:
    """Parse ``linux/arm64``, ``linux/arm/v7`` or ``arm64``; return (architecture, variant).

    Raises ImageError for an invalid platform, or if its operating system is not linux.
    """
    parts = text.lower().split("/")
    if len(parts) == 1:
        parts.insert(0, "linux")
    is_valid = all(part[:1].isalnum() and not set(part) - _LETTERS for part in parts)
    if len(parts) > 3 or not is_valid:
        hint = "use linux/ARCH[/VARIANT], such as linux/arm64"
        raise ImageError(f'invalid platform "{text}"', hint)
    if parts[0] != "linux":
        raise ImageError(f'platform "{text}" is not supported: only images for linux can run')
    architecture, variant = _ALIASES.get(parts[1], (parts[1], ""))
    return architecture, parts[2] if len(parts) == 3 else variant


def matching_platforms(text: str) -> list[Platform]:
    """Return the platforms that match the requested platform ``text``, best first.

    For "", returns the platforms of this machine.  Raises ImageError for an invalid platform.
    """
    if not text:
        return host()
    architecture, variant = parse_platform(text)
    if variant:
        usual = (architecture, variant) in _USUAL
        return [(architecture, variant), *([(architecture, "")] if usual else [])]
    known_platforms = [
        *host(),
        *(candidate for platforms in _RUNS.values() for candidate in platforms),
    ]
    matching = [candidate for candidate in known_platforms if candidate[0] == architecture]
    return list(dict.fromkeys(matching)) or [(architecture, "")]


def fits(config: Json, text: str) -> bool:
    """Return whether an image configuration matches the requested platform ``text``.

    Returns True if ``text`` is "".
    """
    if not text:
        return True
    architecture, variant = config.get("architecture"), config.get("variant") or ""
    return config.get("os") == "linux" and (architecture, variant) in matching_platforms(text)


def read_index(data: bytes, served_as: str, what: str) -> list[Entry] | None:
    """Parse an image index and return its entries; None if ``data`` is an image manifest.

    ``served_as`` is the Content-Type that the registry sent, or "".  Raises ImageError if the
    document is invalid; ``what`` names the document in the error message.
    """
    document = load_document(data, what)
    media_type = document.get("mediaType") or served_as.partition(";")[0].strip()
    # Refuse ambiguous documents (CVE-2021-41190): programs could run different images.
    if "manifests" in document and "layers" in document:
        raise ImageError(f'{what} is ambiguous: it has both "manifests" and "layers"')
    if document.get("schemaVersion") == 1:
        hint = "push the image again with a current tool"
        raise ImageError(f"{what}: schemaVersion 1 is not supported", hint)
    if "manifests" not in document:
        if media_type in media_types.INDEXES:
            raise ImageError(f'{what}: "manifests" is missing, but the media type is {media_type}')
        return None
    if media_type in media_types.MANIFESTS:
        raise ImageError(f'{what}: it has "manifests", but the media type is {media_type}')
    entries = document["manifests"]
    if not isinstance(entries, list):
        raise ImageError(f"{what}: manifests must be a list")
    return [_entry(entry, f"{what}: manifests[{at}]") for at, entry in enumerate(entries)]


def _entry(value: Json, what: str) -> Entry:
    of = descriptor(value, what)
    platform, annotations = (value.get(name) or {} for name in ("platform", "annotations"))
    if not isinstance(platform, dict) or not isinstance(annotations, dict):
        raise ImageError(f"{what}: platform and annotations must be JSON objects")
    parts = [str(platform.get(name) or "") for name in ("os", "architecture", "variant")]
    return Entry(of, parts[0], parts[1], parts[2], annotations)


def choose(entries: list[Entry], platforms: list[Platform], what: str) -> Descriptor:
    """Return the descriptor of the index entry that matches ``platforms`` best.

    ``platforms`` lists the best platform first.  If the index has only one entry, and that entry
    does not specify a platform, it matches.  Raises ImageError if no entry matches; ``what`` names
    the index in the error message.
    """
    for architecture, variant in platforms:
        for entry in entries:
            if (entry.os, entry.architecture, entry.variant) == ("linux", architecture, variant):
                return entry.descriptor
    if len(entries) == 1 and not entries[0].architecture:
        return entries[0].descriptor
    available = sorted({str(entry) for entry in entries} - {"unknown/unknown"})
    best = "/".join(("linux", *filter(None, platforms[0])))
    hint = f"available: {', '.join(available) or 'none'}"
    raise ImageError(f"{what} has no image for {best}", hint)
