"""The lifecycle of containers: a file for each command, with its steps and their rollback."""
