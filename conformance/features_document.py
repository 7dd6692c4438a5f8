"""Check the document that ``features`` prints: its properties, their types and versions."""

from __future__ import annotations

from typing import Any

from conformance.clauses import version_key

# Path -> (type, first release that has it), from features.md, features-linux.md and their schema.
# Types: "word": string; "words": list of strings; "truth": boolean; "map": object of strings.
PROPERTIES = {
    "ociVersionMin": ("word", "1.1.0"),
    "ociVersionMax": ("word", "1.1.0"),
    "hooks": ("words", "1.1.0"),
    "mountOptions": ("words", "1.1.0"),
    "annotations": ("map", "1.1.0"),
    "potentiallyUnsafeConfigAnnotations": ("words", "1.2.0"),
    "linux.namespaces": ("words", "1.1.0"),
    "linux.capabilities": ("words", "1.1.0"),
    "linux.cgroup.v1": ("truth", "1.1.0"),
    "linux.cgroup.v2": ("truth", "1.1.0"),
    "linux.cgroup.systemd": ("truth", "1.1.0"),
    "linux.cgroup.systemdUser": ("truth", "1.1.0"),
    "linux.cgroup.rdma": ("truth", "1.1.0"),
    "linux.seccomp.enabled": ("truth", "1.1.0"),
    "linux.seccomp.actions": ("words", "1.1.0"),
    "linux.seccomp.operators": ("words", "1.1.0"),
    "linux.seccomp.archs": ("words", "1.1.0"),
    "linux.seccomp.knownFlags": ("words", "1.1.0"),
    "linux.seccomp.supportedFlags": ("words", "1.1.0"),
    "linux.apparmor.enabled": ("truth", "1.1.0"),
    "linux.selinux.enabled": ("truth", "1.1.0"),
    "linux.intelRdt.enabled": ("truth", "1.1.0"),
    "linux.intelRdt.schemata": ("truth", "1.3.0"),
    "linux.intelRdt.monitoring": ("truth", "1.3.0"),
    "linux.memoryPolicy.modes": ("words", "1.3.0"),
    "linux.memoryPolicy.flags": ("words", "1.3.0"),
    "linux.mountExtensions.idmap.enabled": ("truth", "1.2.0"),
    "linux.netDevices.enabled": ("truth", "1.3.0"),
}


def member(document: Any, path: str) -> Any:
    """Return the value at a path such as ``linux.seccomp.actions``; None if null or missing."""
    for name in path.split("."):
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def _leaves(value: Any, path: str = "") -> list[str]:
    """Return the paths of all properties; those in PROPERTIES are not descended into."""
    if path in PROPERTIES or not isinstance(value, dict):
        return [path]
    found = []
    for name, below in value.items():
        found += _leaves(below, f"{path}.{name}" if path else name)
    return found


def _fits(value: Any, kind: str) -> bool:
    if kind == "truth":
        return isinstance(value, bool)
    if kind == "word":
        return isinstance(value, str)
    holder = dict if kind == "map" else list
    words = value.values() if isinstance(value, dict) else value
    return isinstance(value, holder) and all(isinstance(word, str) for word in words)


def faults(document: Any) -> list[str]:
    """Return descriptions of the members with a wrong type; null means unknown and is valid."""
    found = [
        f"{path} has the wrong type: {value!r}"
        for path, (kind, _) in PROPERTIES.items()
        if (value := member(document, path)) is not None and not _fits(value, kind)
    ]
    parents = {path.rpartition(".")[0] for path in PROPERTIES} - {""}
    for path in sorted(parents | {"linux.mountExtensions"}):
        value = member(document, path)
        if value is not None and not isinstance(value, dict):
            found.append(f"{path} is not a JSON object: {value!r}")
    return found


def properties_after(document: Any, version: str) -> list[str]:
    """Return the paths of properties that this version of the specification does not define."""
    return [
        path
        for path in _leaves(document)
        if path not in PROPERTIES or version_key(PROPERTIES[path][1]) > version_key(version)
    ]
