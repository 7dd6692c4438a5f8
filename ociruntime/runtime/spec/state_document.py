"""The state of a container as JSON: for hooks, for seccomp agents and for the command `state`."""

from __future__ import annotations

from typing import Any

# The version of the state document, which differs from the config's ociVersion.
SPEC_VERSION = "1.3.0"


def state_document(
    oci_version: str,
    id: str,
    status: str,
    pid: int,
    bundle: str,
    annotations: dict[str, str] | None,
) -> dict[str, Any]:
    """Return the state document that hooks and seccomp agents read (runtime.md#state).

    ``pid`` is the init's pid in the reader's pid namespace, or 0 if there is no init.  ``bundle``
    must be an absolute path.
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


def state_output(facts: dict[str, Any], status: str, pid: int, owner: str) -> dict[str, Any]:
    """Return the document that `state` prints, with runc's additional members in runc's order.

    ``facts`` is the content of state.json.  ``owner`` is the name of the user who owns the
    container's state directory.
    """
    described = {
        "ociVersion": SPEC_VERSION,
        "id": facts["id"],
        "pid": pid,
        "status": status,
        "bundle": facts["bundle"],
        "rootfs": facts["rootfs"],
        "created": facts["created"],
    }
    if facts["annotations"]:
        described["annotations"] = facts["annotations"]
    described["owner"] = owner
    return described
