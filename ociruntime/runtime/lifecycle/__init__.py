"""The lifecycle: one file per verb, with the order of its steps and their rollback."""
