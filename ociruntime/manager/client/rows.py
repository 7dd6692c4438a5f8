"""Containers as ``ps`` shows them; pure."""

from __future__ import annotations

from ociruntime.base.log import plain
from ociruntime.commandline.times import ago
from ociruntime.manager.client.forms import Pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

TITLES = ["CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES"]
SHORT_ID = 12  # digits
_SHORT_COMMAND = 20  # characters
_ALL = "0.0.0.0"  # noqa: S104 - nothing is bound here


def row(record: Record, now: float, *, full: bool = False) -> dict[str, Any]:
    """The record with what ``ps`` says in its own words: Status, Command, Ports ..."""
    return {
        **record,
        "id": record["id"] if full else record["id"][:SHORT_ID],
        "image": record["image"] or record["rootfs"] or "",
        "command": command(record["command"], full=full),
        "created": ago(seconds(record["created_at"]), now),
        "state": record["status"],
        "status": status(record, now),
        "ports": ports(record["ports"]),
        "names": record["name"],
        "labels": Pairs(record["labels"]),
    }


def cells(shown: dict[str, Any]) -> list[str]:
    """Of a row, below the titles."""
    names = ("id", "image", "command", "created", "status", "ports", "names")
    return [plain(shown[name]) for name in names]


def status(record: Record, now: float) -> str:
    """``Up 3 minutes``, ``Exited (0) 2 hours ago``, ``Created`` ..."""
    word = record["status"]
    if word in ("running", "paused"):
        since = ago(seconds(record["started_at"]), now).removesuffix(" ago")
        up = "Up less than a second" if since in ("", "now") else f"Up {since}"
        return f"{up} (Paused)" if word == "paused" else up
    if word == "stopped":
        code = "?" if record["exit_code"] is None else record["exit_code"]
        return f"Exited ({code}) {ago(seconds(record['finished_at']), now)}".rstrip()
    return str(word).capitalize()


def command(words: list[str], *, full: bool) -> str:
    """In quotes, cut off behind the first characters."""
    text = " ".join(words)
    if not full and len(text) > _SHORT_COMMAND:
        text = text[: _SHORT_COMMAND - 1] + "…"
    return f'"{text}"'


def ports(forwarded: list[dict[str, Any]]) -> str:
    """``127.0.0.1:8080->80/tcp, ...``."""
    return ", ".join(f"{outside(one)}->{one['port']}/{one['protocol']}" for one in forwarded)


def outside(port: dict[str, Any]) -> str:
    """``127.0.0.1:8080``; without an address all are meant."""
    address = port.get("host_ip") or _ALL
    return f"{f'[{address}]' if ':' in address else address}:{port['host_port']}"


def seconds(time: str | None) -> int | None:
    """Since 1970, of an RFC 3339 time."""
    if not time:
        return None
    from datetime import datetime

    return int(datetime.fromisoformat(time).timestamp())
