"""Compile config.json and facts about the host to a list of operations, without system calls."""
