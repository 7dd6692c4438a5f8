"""Reading what control files count; what is missing counts nothing."""

from __future__ import annotations

import posix

from ociruntime.runtime.cgroups.control_files import read

UNLIMITED = 0xFFFFFFFFFFFFFFFF  # runc's word for "max"


def text(directory: str, file: str) -> str:
    """The content, empty if the file cannot be read: the container may end at any time."""
    try:
        return read(f"{directory}/{file}")
    except OSError:
        return ""


def number(directory: str, file: str) -> int:
    """A file of one number; ``max`` is UNLIMITED, no file is 0."""
    word = text(directory, file).strip()
    if word == "max":
        return UNLIMITED
    return int(word) if word.lstrip("-").isdigit() else 0


def keyed(directory: str, file: str) -> dict[str, int]:
    """A flat-keyed file: a name and a number in each line."""
    found = {}
    for line in text(directory, file).splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            found[name] = int(value)
    return found


def without_zeros(values: dict[str, int]) -> dict[str, int]:
    """Runc leaves members out whose value is 0."""
    return {name: value for name, value in values.items() if value}


def page_sizes(directory: str, ending: str) -> list[str]:
    """The sizes that ``hugetlb.SIZE.ENDING`` is there for, sorted."""
    try:
        names = posix.listdir(directory)
    except OSError:
        return []
    split = [name.split(".", 2) for name in names]
    return sorted({parts[1] for parts in split if parts[0] == "hugetlb" and parts[2:] == [ending]})
