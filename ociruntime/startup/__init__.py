"""Fast start of the programs: an archive of their modules, snapshots of warm interpreters."""
