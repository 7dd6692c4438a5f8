"""A container's record on disk (``container.state``), and the JSON shown to clients.

The record holds only what cannot be read from the pod: whether the container is running is always
read from the pod itself.

    {"id", "name", "image", "image_id", "command": [...], "created_at", "pod": UUID, "spec": {...},
     "wanted": "running" | "stopped", "ever_started", "restart_count",
     "seen_start", "seen_end": the last start and exit that were published as events,
     "last": {"started_at", "finished_at", "exit_code", "signal", "oom_killed", "error"}}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import ManagerError
from ociruntime.manager.containers.states import CORRUPT, error_of, status_of

if TYPE_CHECKING:
    from ociruntime.manager.containers.pod_status import PodStatus

    Answer = dict[str, Any]

RUNNING, STOPPED = "running", "stopped"
_STOP_TIMEOUT = 10


@dataclass
class Last:
    """The container's latest run; times are RFC 3339, None means not known (yet)."""

    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool = False
    error: str = ""


@dataclass
class Record:
    """The contents of a container's ``container.state``."""

    id: str
    name: str
    image: str
    image_id: str
    command: list[str]
    created_at: str
    pod: str
    spec: dict[str, Any]
    wanted: str = STOPPED  # the state that the user asked for last
    ever_started: bool = False
    restart_count: int = 0
    seen_start: str = ""
    seen_end: str = ""
    last: Last = field(default_factory=Last)

    @property
    def stop_timeout(self) -> float:
        value = self.spec.get("stop_timeout")
        return float(_STOP_TIMEOUT if value is None else value)

    @property
    def stop_signal(self) -> str:
        return str(self.spec.get("stop_signal") or "SIGTERM")

    @property
    def auto_remove(self) -> bool:
        return bool(self.spec.get("auto_remove"))

    @property
    def policy(self) -> tuple[str, int]:
        """The restart policy: its name, and the maximum number of restarts (0: unlimited)."""
        policy = self.spec.get("restart_policy") or {}
        return str(policy.get("name") or "no"), int(policy.get("maximum") or 0)


def to_text(record: Record) -> bytes:
    """Serialise a record as the contents of ``container.state``."""
    return json.dumps(asdict(record), indent=1).encode() + b"\n"


def from_text(text: bytes) -> Record:
    """Parse the contents of ``container.state``.  Raises ManagerError if they are damaged."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ManagerError(f"invalid JSON: {error}") from None
    if not isinstance(document, dict):
        raise ManagerError("must be a JSON object")
    optional = ("wanted", "ever_started", "restart_count", "seen_start", "seen_end", "last")
    _check(document, Record, optional)
    last = document.pop("last", {})
    _check(last, Last, tuple(one.name for one in fields(Last)))
    return Record(**document, last=Last(**last))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "command": list,
    "spec": dict,
    "ever_started": bool,
    "restart_count": int,
    "last": dict,
    "started_at": (str, type(None)),
    "finished_at": (str, type(None)),
    "exit_code": (int, type(None)),
    "signal": (int, type(None)),
    "oom_killed": bool,
}


def _check(
    document: dict[str, Any], kind: type[Record] | type[Last], optional: tuple[str, ...]
) -> None:
    known = {one.name for one in fields(kind)}
    if unknown := sorted(set(document) - known):
        raise ManagerError(f"unknown member {unknown[0]}")
    if missing := sorted(known - set(document) - set(optional)):
        raise ManagerError(f"{missing[0]} is missing")
    for name, value in document.items():
        if not isinstance(value, _TYPES.get(name, str)):
            raise ManagerError(f"{name} has the wrong type")


def answer(record: Record, pod_status: PodStatus, *, starting: bool = False) -> Answer:
    """Return what clients are shown of a container; ``starting``: a restart is pending."""
    last = pod_status.last or record.last
    status = status_of(pod_status, record.ever_started)
    if starting and status == "stopped":
        status = "restarting"
    spec = record.spec
    name, maximum = record.policy
    return {
        "id": record.id,
        "name": record.name,
        "status": status,
        "image": record.image,
        "rootfs": spec.get("rootfs"),
        "command": record.command,
        "created_at": record.created_at,
        "started_at": last.started_at,
        "finished_at": last.finished_at,
        "exit_code": last.exit_code,
        "signal": last.signal,
        "oom_killed": last.oom_killed,
        "error": error_of(pod_status) or last.error,
        "pid": pod_status.pid,
        "pod": record.pod,
        "restart_policy": {"name": name, "maximum": maximum},
        "restart_count": record.restart_count,
        "labels": spec.get("labels") or {},
        "auto_remove": record.auto_remove,
        "stop_signal": record.stop_signal,
        "stop_timeout": record.stop_timeout,
        "addresses": pod_status.addresses,
        "ports": spec.get("ports") or [],
        "spec": spec,
    }


def corrupt_answer(container_id: str, why: str, pod_status: PodStatus) -> Answer:
    """Return the same members for a container whose record cannot be read.

    ``pod_status`` is the status of a missing pod.
    """
    blank = Record(container_id, container_id[:12], "", "", [], "", "", {})
    unknown = {"status": CORRUPT, "error": why, "created_at": None, "pod": None}
    return answer(blank, pod_status) | unknown
