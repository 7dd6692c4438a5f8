"""The lifecycle of containers: a file per command, with the order and rollback of its steps."""
