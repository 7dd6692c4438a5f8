"""What every part of the project stands on: errors, logs, files, processes, sockets, terminals."""
