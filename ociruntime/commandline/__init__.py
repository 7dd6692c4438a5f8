"""The command-line framework that all programs share: options, commands, help, tables, times,
sizes."""
