"""The foundation that every part shares: errors, logs, files, processes, sockets, terminals."""
