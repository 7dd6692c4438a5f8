"""Compile config.json and properties of the host to a list of operations; no system calls."""
