"""A monitor's event loop, and what it waits for: sockets and child processes."""
