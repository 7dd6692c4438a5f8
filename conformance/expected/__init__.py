"""Known deviations of runtimes, one file for each version: ``runc-1.1.5.toml``."""
