"""Modules that every package uses: errors, logs, files, processes, sockets, terminals."""
