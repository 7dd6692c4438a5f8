"""The manager's containers: records, lifecycle, restarts, and the pods they run in."""
