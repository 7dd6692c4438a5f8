"""The process that runs a pod: supervises its apps, copies their output, answers requests."""
