"""Sources of the static program inside the containers."""
