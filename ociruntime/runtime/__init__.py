"""The OCI runtime: the program ``ociruntime`` and its Python library."""
