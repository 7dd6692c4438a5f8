"""What the manager notes of a container, and what it tells of it.

``container.state`` holds facts alone; whether the container runs is asked of its pod at each look.

    {"id", "name", "image", "image_id", "command": [...], "created_at", "pod": UUID, "spec": {...},
     "wanted": "running" | "stopped", "ever_started", "restart_count",
     "seen_start", "seen_end": what of its life was told as events,
     "last": {"started_at", "finished_at", "exit_code", "signal", "oom_killed", "error"}}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import ManagerError
from ociruntime.manager.containers.states import CORRUPT, error_of, status_of

if TYPE_CHECKING:
    from ociruntime.manager.containers.pod_status import Look

    Answer = dict[str, Any]

RUNNING, STOPPED = "running", "stopped"
_STOP_TIMEOUT = 10


@dataclass
class Last:
    """How the container has run the last time; times as RFC 3339, None: not known (yet)."""

    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool = False
    error: str = ""


@dataclass
class Record:
    """A container's facts."""

    id: str
    name: str
    image: str
    image_id: str
    command: list[str]
    created_at: str
    pod: str
    spec: dict[str, Any]
    wanted: str = STOPPED  # by the user
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
        """Name of the restart policy, and how often at most (0: without end)."""
        policy = self.spec.get("restart_policy") or {}
        return str(policy.get("name") or "no"), int(policy.get("maximum") or 0)


def to_text(record: Record) -> bytes:
    """The record's file."""
    return json.dumps(asdict(record), indent=1).encode() + b"\n"


def from_text(text: bytes) -> Record:
    """The record of a file.  Raises ManagerError: the file is damaged."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ManagerError(f"it is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ManagerError("it is not one JSON object")
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
            raise ManagerError(f"{name} has another type")


def answer(record: Record, look: Look, *, starting: bool = False) -> Answer:
    """All that is told of a container; ``starting``: a restart is pending."""
    last = look.last or record.last
    status = status_of(look, record.ever_started)
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
        "error": error_of(look) or last.error,
        "pid": look.pid,
        "pod": record.pod,
        "restart_policy": {"name": name, "maximum": maximum},
        "restart_count": record.restart_count,
        "labels": spec.get("labels") or {},
        "auto_remove": record.auto_remove,
        "stop_signal": record.stop_signal,
        "stop_timeout": record.stop_timeout,
        "addresses": look.addresses,
        "ports": spec.get("ports") or [],
        "spec": spec,
    }


def corrupt_answer(container_id: str, why: str, look: Look) -> Answer:
    """The same of a container whose record cannot be read; ``look``: at no pod."""
    blank = Record(container_id, container_id[:12], "", "", [], "", "", {})
    unknown = {"status": CORRUPT, "error": why, "created_at": None, "pod": None}
    return answer(blank, look) | unknown
