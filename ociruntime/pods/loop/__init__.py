"""The event loop of a pod's monitor, its control socket and its child processes."""
