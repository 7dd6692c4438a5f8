"""The monitor, the process that runs a pod: it starts apps, copies output and answers requests."""
