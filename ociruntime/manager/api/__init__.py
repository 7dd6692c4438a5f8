"""The manager's HTTP API: routes, request bodies, errors and streams."""
