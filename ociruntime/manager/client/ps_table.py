"""The rows of ``ps``, from the daemon's records; pure."""

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
    """Return the record with the members that ``ps`` formats: status, command, ports ..."""
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
    """Return the cells of a row, in the order of ``TITLES``."""
    names = ("id", "image", "command", "created", "status", "ports", "names")
    return [plain(shown[name]) for name in names]


def status(record: Record, now: float) -> str:
    """Format the status: ``Up 3 minutes``, ``Exited (0) 2 hours ago``, ``Created`` ..."""
    current = record["status"]
    if current in ("running", "paused"):
        since = ago(seconds(record["started_at"]), now).removesuffix(" ago")
        up = "Up less than a second" if since in ("", "now") else f"Up {since}"
        return f"{up} (Paused)" if current == "paused" else up
    if current == "stopped":
        code = "?" if record["exit_code"] is None else record["exit_code"]
        return f"Exited ({code}) {ago(seconds(record['finished_at']), now)}".rstrip()
    return str(current).capitalize()


def command(argv: list[str], *, full: bool) -> str:
    """Format an argv in quotes, truncated unless ``full``."""
    text = " ".join(argv)
    if not full and len(text) > _SHORT_COMMAND:
        text = text[: _SHORT_COMMAND - 1] + "…"
    return f'"{text}"'


def ports(forwarded: list[dict[str, Any]]) -> str:
    """Format published ports as ``127.0.0.1:8080->80/tcp, ...``."""
    return ", ".join(f"{outside(one)}->{one['port']}/{one['protocol']}" for one in forwarded)


def outside(port: dict[str, Any]) -> str:
    """Format the host's side of a port as ``127.0.0.1:8080``; the default is every address."""
    address = port.get("host_ip") or _ALL
    return f"{f'[{address}]' if ':' in address else address}:{port['host_port']}"


def seconds(time: str | None) -> int | None:
    """Convert an RFC 3339 time to seconds since 1970."""
    if not time:
        return None
    from datetime import datetime

    return int(datetime.fromisoformat(time).timestamp())
