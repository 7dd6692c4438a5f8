"""Fast start of the programs: an archive of their modules, and snapshots of warm interpreters."""
