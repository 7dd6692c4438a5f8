"""The table of the routes with streaming answers, for ``api.py``."""

from __future__ import annotations

from ociruntime.manager.api.attachments import attach
from ociruntime.manager.api.event_stream import events
from ociruntime.manager.api.executions import execute
from ociruntime.manager.api.log_stream import logs

# (method, path, handler); a handler is called with the manager and the request.
ROUTES = (
    ("GET", "/v1/events", events),
    ("GET", "/v1/containers/{ref}/logs", logs),
    ("GET", "/v1/containers/{ref}/attach", attach),
    ("GET", "/v1/containers/{ref}/exec", execute),
)
