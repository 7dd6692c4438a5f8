"""What the programs' command lines share: options, commands, help, tables, times, sizes."""
