"""Compile config.json and host facts to a flat list of operations; pure, without system calls."""
