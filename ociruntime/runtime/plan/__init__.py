"""Compile config.json and properties of the host to a list of operations; without system calls."""
