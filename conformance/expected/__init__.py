"""Known deviations of runtimes, one file for each version."""
