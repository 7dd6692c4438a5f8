"""Container engines of this host: the files that tell them of this runtime, and their answers."""
