"""``ocictl events``: print the events of containers as they happen."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.format_option import formatted
from ociruntime.manager.client.http import quoted
from ociruntime.manager.client.options import FILTER, FORMAT, SINCE, UNTIL
from ociruntime.manager.client.since_and_until_options import moment
from ociruntime.manager.client.template_functions import Keys, Shape

# Filter -> parameter of the API's query.
FILTERS = {
    "event": "kind",
    "kind": "kind",
    "container": "container",
    "image": "image",
    "label": "label",
}
_TYPE = "container"  # only containers have events


def run_events(connection: Connection, arguments: Arguments) -> int:
    """Print the events of containers until the time ``--until``, or until interrupted.

    Returns 1 if standard output is closed.  Raises UsageError for an invalid option, and the errors
    of ``Connection``.
    """
    form = arguments.text("format")
    if form.startswith("table "):
        raise UsageError("--format: events cannot be printed as a table", "use json or {{.Field}}")
    query = [
        *_filters(arguments.list("filter")),
        *(
            f"{name}={quoted(time)}"
            for name in ("since", "until")
            if (time := moment(arguments.text(name), name))
        ),
    ]
    path = resource("events") + (f"?{'&'.join(query)}" if query else "")
    for event in connection.lines("GET", path):
        if write(formatted_event(event, form) if form else event_line(event)):
            return 1
    return 0


def _filters(values: list[str]) -> list[str]:
    pairs = []
    for word in values:
        key, _, value = word.partition("=")
        if key == "type" and value == _TYPE:
            continue
        if key == "type" and value:
            raise UsageError(f'--filter: type "{value}" has no events', f"use type={_TYPE}")
        if key not in FILTERS or not value:
            known = ", ".join(f"{name}=..." for name in FILTERS)
            raise UsageError(f'--filter: invalid filter "{word}"', f"supported: {known}")
        pairs.append(f"{FILTERS[key]}={quoted(value)}")
    return pairs


def event_line(event: dict[str, Any]) -> str:
    """Format an event as a line: time, kind, container id, and attributes in parentheses."""
    known = {"name": event["name"], **event["attributes"]}
    labels = known.pop("labels", {})  # users choose them, so they must not replace attributes
    known.update({key: labels[key] for key in labels if key not in known})
    facts = ", ".join(
        f"{key}={local_time(value) if _is_time(value) else value}"
        for key, value in known.items()
        if value not in (None, "")
    )
    return plain(f"{local_time(event['time'])} {event['kind']} {event['id']} ({facts})") + "\n"


def _is_time(value: object) -> bool:
    from datetime import datetime

    try:
        return "T" in str(value) and datetime.fromisoformat(str(value)) is not None
    except ValueError:
        return False


def local_time(text: str) -> str:
    """Convert an RFC 3339 time to local time, such as ``2026-11-24 20:18:55.208``.

    Returns ``text`` if it is not a valid time.
    """
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        return text
    return moment.replace(tzinfo=None).isoformat(" ", "milliseconds")


def formatted_event(event: dict[str, Any], form: str) -> str:
    """Format an event as JSON if ``form`` is "json", otherwise with the template ``form``.

    Raises UsageError for an invalid template.
    """
    if form == "json":
        import json

        return json.dumps(event, separators=(",", ":")) + "\n"
    return formatted([shape(event)], form)


def shape(event: dict[str, Any]) -> Shape:
    """Return an event as data for ``--format``, with the field names of docker and of ocid."""
    from datetime import datetime

    attributes = event["attributes"]
    names = {"image": attributes.get("image", ""), "name": event["name"]}
    if attributes.get("exit_code") is not None:
        names["exitCode"] = str(attributes["exit_code"])
    if attributes.get("signal") is not None:
        names["signal"] = str(attributes["signal"])
    moment = datetime.fromisoformat(event["time"]).timestamp()
    members = {
        "status": event["kind"],
        "id": event["id"],
        "from": names["image"],
        "Type": _TYPE,
        "Action": event["kind"],
        "Actor": {"ID": event["id"], "Attributes": Keys(attributes.get("labels", {}) | names)},
        "scope": "local",
        "time": int(moment),
        "timeNano": round(moment * 1_000_000) * 1000,
    }
    fields = {"Status": event["kind"], "ID": event["id"], "From": names["image"], "Scope": "local"}
    return Shape(members, {**event, **fields})


COMMANDS = (
    Command(
        "events",
        "stream events of containers",
        run_events,
        options=(SINCE, UNTIL, FILTER, FORMAT),
        details=(
            "Filters: event (create, start, die ...), container, image, label (KEY or\n"
            "KEY=VALUE), type (container: only containers have events)."
        ),
        examples=(("Show the events of the last hour, then follow", "ocictl events --since 1h"),),
    ),
)
