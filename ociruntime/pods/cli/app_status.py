"""``ocipod app status``."""

from __future__ import annotations

from ociruntime.commandline.output import write, write_lines
from ociruntime.pods.store.description import app_record, choose_app
from ociruntime.pods.store.manifest_file import read_manifest
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print ``name=value`` lines, or a JSON object.  Raises RuntimeFailure."""
    with open_pod(context.directory, arguments.positional[0]) as pod:
        name = choose_app(pod, arguments.text("app"))
        record = app_record(pod, name)
        entry = next(one for one in read_manifest(pod)["apps"] if one["name"] == name)
    facts = status_of(entry, record)
    kind = arguments.text("format", "text")
    if kind != "text":
        import json

        return write(json.dumps(facts, indent=2 if kind == "json-pretty" else None) + "\n")
    return write_lines(f"{key}={_text(value)}" for key, value in facts.items())


def status_of(entry: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return an app's status, from its manifest entry and its state file; pure."""
    app = entry.get("app") or {}
    times = {f"{key}_at": record.get(key) for key in ("created", "started", "finished")}
    facts: dict[str, Any] = {
        "name": entry["name"],
        "state": record["state"],
        "image_id": (entry.get("image") or {}).get("id"),
        **times,
        **{key: record.get(key) for key in ("exit_code", "signal", "stopped_by", "reason", "pid")},
        "oom_killed": record.get("oom_killed") or None,
        "restarts": record.get("restarts") or None,
        "mounts": {one["path"]: one["volume"] for one in entry.get("mounts") or ()},
        "user_annotations": app.get("userAnnotations"),
        "user_labels": app.get("userLabels"),
    }
    if facts["state"] != "running":
        facts["pid"] = None
    return {key: value for key, value in facts.items() if value not in (None, "", {}, [])}


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
