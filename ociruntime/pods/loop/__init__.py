"""The event loop of a pod's monitor, with its control socket and its child processes."""
