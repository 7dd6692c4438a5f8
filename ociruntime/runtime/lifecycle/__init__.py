"""The lifecycle of containers: one file per command, with the order and rollback of its steps."""
