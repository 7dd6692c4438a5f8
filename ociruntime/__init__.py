"""An OCI runtime for Linux: Python decides, a small C program carries it out."""

__version__ = "0.1.0"
