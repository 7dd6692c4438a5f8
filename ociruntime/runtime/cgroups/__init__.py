"""Control groups: placement of containers, resource limits, removal."""
