"""The routes whose answers are streams, for the table of ``api.py``."""

from __future__ import annotations

from ociruntime.manager.attachments import attach
from ociruntime.manager.event_stream import events
from ociruntime.manager.executions import execute
from ociruntime.manager.log_stream import logs

# (method, path, handler); a handler gets the manager and the request.
ROUTES = (
    ("GET", "/v1/events", events),
    ("GET", "/v1/containers/{ref}/logs", logs),
    ("GET", "/v1/containers/{ref}/attach", attach),
    ("GET", "/v1/containers/{ref}/exec", execute),
)
