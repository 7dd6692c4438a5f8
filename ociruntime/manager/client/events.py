"""``ocictl events``: the stream of container events."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import resource
from ociruntime.manager.client.forms import formatted
from ociruntime.manager.client.http import quoted
from ociruntime.manager.client.points_in_time import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.manager.client.connection import Connection

FILTERS = {"event": "kind", "kind": "kind", "container": "container"}


def run(connection: Connection, arguments: Arguments) -> int:
    """Print events until ``--until``, or forever; return 1 if standard output is closed.

    Raises RuntimeFailure.
    """
    form = arguments.text("format")
    if form.startswith("table "):
        raise UsageError("--format: events cannot be printed as a table", "json or {{.Field}}")
    query = [
        *_filters(arguments.list("filter")),
        *(
            f"{name}={quoted(time)}"
            for name in ("since", "until")
            if (time := _time(arguments, name))
        ),
    ]
    path = resource("events") + (f"?{'&'.join(query)}" if query else "")
    for event in connection.lines("GET", path):
        if write(one(event, form) if form else line(event)):
            return 1
    return 0


def _time(arguments: Arguments, name: str) -> str | None:
    return moment(arguments.text(name), name)


def _filters(words: list[str]) -> list[str]:
    pairs = []
    for word in words:
        key, _, value = word.partition("=")
        if key not in FILTERS or not value:
            known = ", ".join(f"{name}=..." for name in FILTERS)
            raise UsageError(f'--filter: invalid filter "{word}"', known)
        pairs.append(f"{FILTERS[key]}={quoted(value)}")
    return pairs


def line(event: dict[str, Any]) -> str:
    """Format an event for people: time, kind, id, and its attributes in parentheses."""
    known = {"name": event["name"], **event["attributes"]}
    facts = ", ".join(f"{key}={value}" for key, value in known.items() if value not in (None, ""))
    return plain(f"{event['time']} {event['kind']} {event['id']} ({facts})") + "\n"


def one(event: dict[str, Any], form: str) -> str:
    """Format an event by ``--format``; JSON is one document per line.  Raises UsageError."""
    if form == "json":
        import json

        return json.dumps(event, separators=(",", ":")) + "\n"
    return formatted([event], form)
