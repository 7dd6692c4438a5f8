"""Conformance tests of OCI runtimes against runtime-spec 1.3, clause by clause, as black boxes."""

__version__ = "0.1.0"
