"""The command-line framework of all programs: options, commands, help, tables, times and sizes."""
