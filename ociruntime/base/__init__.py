"""The shared base of all parts: errors, logs, files, processes, sockets, terminals."""
