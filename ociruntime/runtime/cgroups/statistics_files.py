"""Readers for counters in control files; a missing file counts as 0."""

from __future__ import annotations

import posix

from ociruntime.runtime.cgroups.control_files import read

UNLIMITED = 0xFFFFFFFFFFFFFFFF  # runc's word for "max"


def text(directory: str, file: str) -> str:
    """Return a file's content; "" if it cannot be read, as the container may exit at any time."""
    try:
        return read(f"{directory}/{file}")
    except OSError:
        return ""


def number(directory: str, file: str) -> int:
    """Return the number in a file; UNLIMITED for ``max``, 0 if the file is missing."""
    word = text(directory, file).strip()
    if word == "max":
        return UNLIMITED
    return int(word) if word.lstrip("-").isdigit() else 0


def keyed(directory: str, file: str) -> dict[str, int]:
    """Parse a flat-keyed file: a name and a number in each line."""
    found = {}
    for line in text(directory, file).splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            found[name] = int(value)
    return found


def without_zeros(values: dict[str, int]) -> dict[str, int]:
    """Drop the members whose value is 0, as runc does."""
    return {name: value for name, value in values.items() if value}


def page_sizes(directory: str, ending: str) -> list[str]:
    """Return the page sizes for which ``hugetlb.SIZE.ENDING`` exists, sorted."""
    try:
        names = posix.listdir(directory)
    except OSError:
        return []
    split = [name.split(".", 2) for name in names]
    return sorted({parts[1] for parts in split if parts[0] == "hugetlb" and parts[2:] == [ending]})
