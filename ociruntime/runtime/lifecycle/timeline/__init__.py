"""The option ``--timeline``: record the duration of each step of a command."""
