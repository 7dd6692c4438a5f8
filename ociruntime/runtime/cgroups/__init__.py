"""Control groups: where a container goes, what it may use, how it is removed."""
