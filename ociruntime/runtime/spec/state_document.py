"""The state document for hooks and seccomp agents (runtime.md#state)."""

from __future__ import annotations

from typing import Any

# The version of the state document itself, not of the config that it was made from.
SPEC_VERSION = "1.3.0"


def state_document(
    oci_version: str,
    id: str,
    status: str,
    pid: int,
    bundle: str,
    annotations: dict[str, str] | None,
) -> dict[str, Any]:
    """Return the state document that hooks and seccomp agents read, and that `state` extends.

    ``pid`` is the init's pid in the reader's pid namespace, or 0 if there is no init;
    ``bundle`` is absolute.
    """
    document: dict[str, Any] = {
        "ociVersion": oci_version,
        "id": id,
        "status": status,
        "pid": pid,
        "bundle": bundle,
    }
    if annotations:
        document["annotations"] = annotations
    return document
