"""The monitor, the process that runs a pod: it starts apps, logs output and answers requests."""
