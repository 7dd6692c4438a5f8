"""Tar archives and compressed streams: read untrusted ones safely, and write layers."""
