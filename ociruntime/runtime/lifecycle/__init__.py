"""The lifecycle of containers: a file for each command, with its steps and how to undo them."""
